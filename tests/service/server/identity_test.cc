// Who has to prove who they are, with what, and what everybody else is told.
#include <chrono>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "service/front/transport.h"
#include "tests/service/identity/jwt_maker.h"
#include "tests/service/server/commands.h"
#include "tests/service/server/pipeline_client.h"
#include "tests/service/server/secure_service.h"

namespace idempotency::testing {
namespace {

using grpc::StatusCode;
using std::chrono::hours;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr char kToken[] = "0123456789abcdef0123456789abcdef";

std::string LineFor(const std::string& name, const std::string& token) {
  const service::TokenDigest digest = service::DigestToken(token);
  const std::string bytes(digest.begin(), digest.end());
  return absl::StrCat(name, " sha256:", absl::BytesToHexString(bytes), "\n");
}

SecureService::Options WithTokens() {
  SecureService::Options options;
  options.tokens = LineFor("ci", kToken);
  return options;
}

std::string Bearer(const std::string& token) { return "Bearer " + token; }

TEST(BearerTest, ATokenSaysWhoCalls) {
  SecureService service(WithTokens());
  const SecureService::Outcome known = service.Call(service.Client(), {Bearer(kToken)});
  EXPECT_TRUE(known.status.ok()) << known.status.error_message();
  EXPECT_EQ(known.principal, "token:ci");
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
           {}, {Bearer("x")}, {kToken}, {"Basic x"}, {Bearer(kToken), Bearer(kToken)}}) {
    const SecureService::Outcome refused = service.Call(service.Client(), wrong);
    EXPECT_EQ(refused.status.error_code(), StatusCode::UNAUTHENTICATED) << wrong.size();
    EXPECT_EQ(refused.reason, "ACCESS_DENIED");
    EXPECT_EQ(refused.status.error_message().find(kToken), std::string::npos);
  }
  const auto counted = service.fixture().metrics().Read();
  EXPECT_EQ(counted.unauthenticated[static_cast<size_t>(service::AuthFault::kNoCredentials)], 1u);
  EXPECT_EQ(counted.unauthenticated[static_cast<size_t>(service::AuthFault::kTokenNotValid)], 1u);
  EXPECT_EQ(counted.unauthenticated[static_cast<size_t>(service::AuthFault::kNotBearer)], 3u);
}

TEST(BearerTest, GoesOverPlaintextOnThisMachineAlone) {
  SecureService::Options options = WithTokens();
  options.tls = false;
  SecureService on_loopback(options);
  EXPECT_EQ(on_loopback.Call(on_loopback.Client(), {Bearer(kToken)}).principal, "token:ci");
  const TempDirectory directory;
  options.listen = "unix:" + directory.path() + "/socket";
  SecureService on_socket(options);
  EXPECT_EQ(on_socket.Call(on_socket.Client(), {Bearer(kToken)}).principal, "token:ci");
  EXPECT_EQ(on_socket.Call(on_socket.Client()).status.error_code(), StatusCode::UNAUTHENTICATED);
}

TEST(LocalPeerTest, Table) {
  for (const char* peer :
       {"unix:", "unix:/run/s", "unix-abstract:a", "ipv4:127.0.0.1:5", "ipv4:127.9.9.9:5",
        "ipv6:%5B::1%5D:5", "ipv6:[::1]:5", "ipv6:[::ffff:127.0.0.1]:5"}) {
    EXPECT_TRUE(service::IsLocalPeer(peer)) << peer;
  }
  for (const char* peer : {"", "ipv4:10.0.0.1:5", "ipv4:128.0.0.1:5", "ipv4:1.127.0.1:5",
                           "ipv6:[::2]:5", "ipv6:[::1:1]:5", "ipv6:%5B::11%5D:5",
                           "ipv6:[::ffff:10.0.0.1]:5", "127.0.0.1:5", "dns:localhost"}) {
    EXPECT_FALSE(service::IsLocalPeer(peer)) << peer;
  }
}

class JwtCallsTest : public ::testing::Test {
 protected:
  JwtCallsTest() {
    std::ofstream(directory_.path() + "/jwks") << Jwks({key_.Jwk()});
    SecureService::Options options;
    options.jwt_issuers.push_back({"cluster",
                                   "https://kubernetes.default.svc",
                                   {"idempotencyd"},
                                   directory_.path() + "/jwks",
                                   seconds(0)});
    service_ = std::make_unique<SecureService>(options);
  }

  // For the next so many seconds.
  std::string Token(int64_t lifetime_s, const std::string& audience = "idempotencyd") {
    const int64_t now = std::chrono::duration_cast<seconds>(
                            service_->fixture().clock()->Read().wall.time_since_epoch())
                            .count();
    return key_.Token(absl::StrCat(R"({"iss":"https://kubernetes.default.svc","aud":[")", audience,
                                   R"("],"exp":)", now + lifetime_s, R"(,"nbf":)", now,
                                   R"(,"sub":"system:serviceaccount:payments:api"})"));
  }

  const TempDirectory directory_;
  const SigningKey key_ = SigningKey::P256("k");
  std::unique_ptr<SecureService> service_;
};

TEST_F(JwtCallsTest, AServiceAccountIsCalledByItsSubject) {
  const std::string token = Token(60);
  const SecureService::Outcome known = service_->Call(service_->Client(), {Bearer(token)});
  EXPECT_EQ(known.principal, "jwt:cluster:system:serviceaccount:payments:api");
  service_->fixture().Advance(seconds(61));
  const SecureService::Outcome ended = service_->Call(service_->Client(), {Bearer(token)});
  EXPECT_EQ(ended.status.error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(ended.status.error_message(), HasSubstr("has expired"));
  EXPECT_THAT(
      service_->Call(service_->Client(), {Bearer(Token(60, "vault"))}).status.error_message(),
      HasSubstr("audience"));
}

// A stream may live for days; who may use it is asked with each message.
TEST_F(JwtCallsTest, APipelineEndsWithItsToken) {
  grpc::ClientContext context;
  context.AddMetadata("authorization", Bearer(Token(60)));
  const auto channel = service_->fixture().NewChannel();
  const auto stream = Api(channel).Pipeline(&context);
  v1::PipelineRequest request;
  *request.add_commands()->mutable_reserve() = Reserve("k");
  request.mutable_commands(0)->set_tag(1);
  ASSERT_TRUE(stream->Write(request));
  v1::PipelineResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.results(0).reserve().outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
  service_->fixture().Advance(seconds(60));
  request.mutable_commands(0)->set_tag(2);
  ASSERT_TRUE(stream->Write(request));
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_EQ(stream->Finish().error_code(), StatusCode::UNAUTHENTICATED);
}

// --- What nobody is told -------------------------------------------------------------------------

class UnknownCallerTest : public ::testing::Test {
 protected:
  // Everything there is to see of a refusal.
  template <typename Stub, typename Request, typename Response>
  std::string Refused(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                      const Request& request) {
    const auto result = service_.fixture().Call(method, request);
    return absl::StrCat(result.status.error_code(), " ", result.reason, " ",
                        result.status.error_message(), " ",
                        absl::BytesToHexString(result.status.error_details()));
  }

  SecureService service_{WithTokens()};
};

TEST_F(UnknownCallerTest, EveryMethodRefusesInTheSameWords) {
  const std::string expected = Refused(&Api::Reserve, Reserve("k"));
  EXPECT_THAT(expected, HasSubstr("16 ACCESS_DENIED The call does not say who makes it"));
  // Wrong requests, too: they are not even read.
  EXPECT_EQ(Refused(&Api::Reserve, v1::ReserveRequest()), expected);
  EXPECT_EQ(Refused(&Api::Renew, Renew("k", 1)), expected);
  EXPECT_EQ(Refused(&Api::Complete, Complete("k", 1)), expected);
  EXPECT_EQ(Refused(&Api::Release, v1::ReleaseRequest()), expected);
  EXPECT_EQ(Refused(&Api::MarkUnresolved, v1::MarkUnresolvedRequest()), expected);
  EXPECT_EQ(Refused(&Api::GetOperation, v1::GetOperationRequest()), expected);
  EXPECT_EQ(Refused(&Api::GetNamespace, v1::GetNamespaceRequest()), expected);
  v1::BatchRequest batch;
  *batch.add_commands()->mutable_reserve() = Reserve("k");
  EXPECT_EQ(Refused(&Api::Batch, batch), expected);
  EXPECT_EQ(Refused(&AdminApi::InspectOperation, v1::InspectOperationRequest()), expected);
  EXPECT_EQ(Refused(&AdminApi::ListOperations, v1::ListOperationsRequest()), expected);
  EXPECT_EQ(Refused(&AdminApi::ResolveOperation, v1::ResolveOperationRequest()), expected);
  EXPECT_EQ(Refused(&AdminApi::DeleteOperation, v1::DeleteOperationRequest()), expected);
  EXPECT_EQ(Refused(&AdminApi::ListNamespaces, v1::ListNamespacesRequest()), expected);
}

TEST_F(UnknownCallerTest, APipelineIsRefusedWithItsFirstMessage) {
  PipelineClient client(&service_.fixture());
  v1::Command command;
  *command.mutable_reserve() = Reserve("k");
  client.Send({command});
  const auto end = client.AwaitEnd();
  EXPECT_EQ(end.status.error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(end.reason, "ACCESS_DENIED");
}

TEST_F(UnknownCallerTest, TheReasonIsInTheDetails) {
  const auto refused = service_.fixture().Call(&Api::Reserve, Reserve("k"));
  EXPECT_EQ(refused.details.code(), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(refused.Find<google::rpc::ErrorInfo>().reason(), "ACCESS_DENIED");
}

// Of a unary method that is named, with nothing sent.
grpc::Status CallByName(const std::shared_ptr<grpc::Channel>& channel, const std::string& method) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const grpc::Slice empty(std::string{});
  const grpc::ByteBuffer nothing(&empty, 1);
  const auto call = stub.PrepareUnaryCall(&context, method, nothing, &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status;
}

// A probe has no credentials, and learns nothing but that the service serves; reflection, which
// cannot ask who calls, is not there.
TEST_F(UnknownCallerTest, HealthIsForEverybodyAndReflectionForNobody) {
  const auto channel = service_.fixture().NewChannel();
  EXPECT_TRUE(CallByName(channel, "/grpc.health.v1.Health/Check").ok());
  EXPECT_EQ(CallByName(channel, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
                .error_code(),
            StatusCode::UNIMPLEMENTED);
}

// What a caller claims to be anywhere else is not looked at.
TEST_F(UnknownCallerTest, NoOtherMetadataSaysWhoCalls) {
  grpc::ClientContext context;
  for (const char* name : {"x-forwarded-client-cert", "x-user", "x-forwarded-authorization",
                           "proxy-authorization", "cookie", "x-spiffe-id"}) {
    context.AddMetadata(name, Bearer(kToken));
  }
  v1::ReserveResponse response;
  const grpc::Status status = service_.fixture().api()->Reserve(&context, Reserve("k"), &response);
  EXPECT_EQ(status.error_code(), StatusCode::UNAUTHENTICATED);
}

}  // namespace
}  // namespace idempotency::testing
