// Connections over gRPC, one call each and all on one stream: callers see no difference.
#include "idempotency/connection.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "client/src/wires.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/run/certificate.h"
#include "tests/client/run/fake_service.h"

namespace idempotency::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

const OperationId kId{"payments", "acct", "order-1"};
const CallOptions kPatient{.timeout = 30s};

// --- Every method --------------------------------------------------------------------------------

class ConnectionTest : public ::testing::TestWithParam<bool> {
 protected:
  bool batching() const { return GetParam(); }

  // What holds up the service; outlives it.
  absl::Notification go_on_;
  FakeServer server_;
  std::shared_ptr<Connection> connection_ = server_.Connect(batching());
};

TEST_P(ConnectionTest, EveryMethodAsksAndAnswers) {
  v1::ReserveResponse reserved;
  reserved.set_outcome(v1::RESERVE_OUTCOME_ACQUIRED);
  reserved.mutable_lease()->set_fencing_token(7);
  server_.service.reserve.Answers(reserved);
  v1::RenewResponse renewed;
  renewed.mutable_lease()->mutable_remaining()->set_seconds(30);
  server_.service.renew.Answers(renewed);
  v1::CompleteResponse completed;
  completed.set_already_complete(true);
  server_.service.complete.Answers(completed);
  v1::ReleaseResponse released;
  released.set_state(v1::OPERATION_STATE_FREED);
  server_.service.release.Answers(released);
  v1::MarkUnresolvedResponse marked;
  marked.set_next_step(v1::NEXT_STEP_RECONCILE_FIRST);
  server_.service.mark.Answers(marked);
  v1::GetOperationResponse got;
  got.mutable_operation()->set_etag("e1");
  server_.service.get.Answers(got);
  v1::ResolveOperationResponse resolved;
  resolved.mutable_operation()->set_etag("e2");
  server_.admin.resolve.Answers(resolved);
  v1::ListOperationsResponse listed;
  listed.add_operations()->set_etag("e3");
  listed.set_next_page_token("p2");
  server_.admin.list.Answers(listed);

  EXPECT_EQ(connection_->Reserve({.id = kId, .attempt_id = "a1"}, kPatient)->lease->fencing_token,
            7u);
  EXPECT_EQ(connection_->Renew({.id = kId, .fencing_token = 7}, kPatient)->lease.remaining, 30s);
  EXPECT_TRUE(connection_->Complete({.id = kId, .fencing_token = 8}, kPatient)->already_complete);
  EXPECT_EQ(connection_->Release({.id = kId, .fencing_token = 9}, kPatient)->state,
            OperationState::kFreed);
  EXPECT_EQ(connection_->MarkUnresolved({.id = kId, .fencing_token = 10}, kPatient)->next_step,
            NextStep::kReconcileFirst);
  EXPECT_EQ(connection_->GetOperation({.id = kId}, kPatient)->operation.etag, "e1");
  EXPECT_EQ(connection_->Resolve({.id = kId, .actor = "ops"}, kPatient)->etag, "e2");
  const auto page = connection_->ListOperations({.name_space = "payments"}, kPatient);
  EXPECT_EQ(page->operations.at(0).etag, "e3");
  EXPECT_EQ(page->next_page_token, "p2");

  EXPECT_EQ(server_.service.reserve.asked().at(0).attempt_id(), "a1");
  EXPECT_EQ(server_.service.renew.asked().at(0).fencing_token(), 7u);
  EXPECT_EQ(server_.service.complete.asked().at(0).fencing_token(), 8u);
  EXPECT_EQ(server_.service.release.asked().at(0).fencing_token(), 9u);
  EXPECT_EQ(server_.service.mark.asked().at(0).fencing_token(), 10u);
  EXPECT_EQ(server_.service.get.asked().at(0).id().key(), "order-1");
  EXPECT_EQ(server_.admin.resolve.asked().at(0).actor(), "ops");
  EXPECT_EQ(server_.admin.list.asked().at(0).namespace_(), "payments");
  EXPECT_EQ(server_.service.single_calls, batching() ? 0 : 6);
  EXPECT_EQ(server_.service.streams, batching() ? 1 : 0);
}

TEST_P(ConnectionTest, AsyncRenewCallsBack) {
  v1::RenewResponse renewed;
  renewed.mutable_lease()->mutable_remaining()->set_seconds(30);
  server_.service.renew.Answers(renewed);
  absl::Notification called;
  absl::StatusOr<RenewResponse> response;
  connection_->AsyncRenew({.id = kId, .fencing_token = 7}, kPatient,
                          [&](absl::StatusOr<RenewResponse> answer) {
                            response = std::move(answer);
                            called.Notify();
                          });
  called.WaitForNotification();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->lease.remaining, 30s);
  EXPECT_EQ(server_.service.renew.asked().at(0).fencing_token(), 7u);
}

// The service stays under 4 MiB a message.
TEST_P(ConnectionTest, TheLargestAnswerArrives) {
  constexpr size_t kBody = (size_t{4} << 20) - 1024;
  v1::GetOperationResponse got;
  got.mutable_operation()->mutable_response()->set_body(std::string(kBody, 'x'));
  server_.service.get.Answers(got);
  const auto response = connection_->GetOperation({.id = kId}, kPatient);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->operation.response->body->size(), kBody);
}

TEST_P(ConnectionTest, TheLargestReportIsSent) {
  const CompleteRequest request{.id = kId,
                                .response = CachedResponse{.body = std::string(3 << 20, 'x')}};
  const auto response = connection_->Complete(request, kPatient);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(server_.service.complete.asked().at(0).response().body().size(), size_t{3} << 20);
}

// --- Calls that fail -----------------------------------------------------------------------------

TEST_P(ConnectionTest, WhatCannotBeSentIsRefusedHere) {
  const auto response = connection_->Renew({.id = {"payments", "acct", "\xff"}}, kPatient);
  EXPECT_EQ(Refused(response.status()),
            (Refusal{.reason = ErrorReason::kInvalidField, .field = "id.key"}));
  absl::Notification called;
  connection_->AsyncRenew({.id = {"payments", "acct", "\xff"}}, kPatient,
                          [&](const absl::StatusOr<RenewResponse>& answer) {
                            EXPECT_TRUE(Refused(answer.status()).has_value());
                            called.Notify();
                          });
  called.WaitForNotification();
  EXPECT_THAT(server_.service.renew.asked(), IsEmpty());
}

TEST_P(ConnectionTest, ACallEndsWithItsTimeout) {
  server_.service.renew.Answers([&](grpc::ServerContext*, const auto&, auto*) {
    go_on_.WaitForNotification();
    return grpc::Status::OK;
  });
  const auto response = connection_->Renew({.id = kId}, {.timeout = 20ms});
  EXPECT_EQ(response.status().code(), absl::StatusCode::kDeadlineExceeded);
  absl::Notification called;
  connection_->AsyncRenew({.id = kId}, {.timeout = 20ms},
                          [&](const absl::StatusOr<RenewResponse>& answer) {
                            EXPECT_EQ(answer.status().code(), absl::StatusCode::kDeadlineExceeded);
                            called.Notify();
                          });
  called.WaitForNotification();
  go_on_.Notify();
}

TEST_P(ConnectionTest, ACallEndsWhereTheCallerGivesUp) {
  std::stop_source caller;
  server_.service.get.Answers([&](grpc::ServerContext*, const auto&, auto*) {
    caller.request_stop();
    go_on_.WaitForNotification();
    return grpc::Status::OK;
  });
  const auto response = connection_->GetOperation(
      {.id = kId}, CallOptions{.timeout = 30s, .stop = caller.get_token()});
  EXPECT_EQ(response.status().code(), absl::StatusCode::kCancelled);
  go_on_.Notify();
}

TEST_P(ConnectionTest, ACallerWhoHasGivenUpAsksNothing) {
  std::stop_source caller;
  caller.request_stop();
  const auto response = connection_->GetOperation(
      {.id = kId}, CallOptions{.timeout = 30s, .stop = caller.get_token()});
  EXPECT_EQ(response.status().code(), absl::StatusCode::kCancelled);
}

TEST_P(ConnectionTest, AServiceThatIsNotThereIsUnavailable) {
  server_.Stop();
  EXPECT_EQ(connection_->Renew({.id = kId}, kPatient).status().code(),
            absl::StatusCode::kUnavailable);
  absl::Notification called;
  connection_->AsyncRenew({.id = kId}, kPatient, [&](const absl::StatusOr<RenewResponse>& answer) {
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kUnavailable);
    called.Notify();
  });
  called.WaitForNotification();
}

// client/service_config.json is what the channel was made with.
TEST(ServiceConfigTest, GrpcRepeatsWhatWasUnavailableAndNothingElse) {
  for (const auto& [code, calls] :
       {std::pair(grpc::StatusCode::UNAVAILABLE, 2), std::pair(grpc::StatusCode::INTERNAL, 1)}) {
    FakeServer server;
    const auto connection = MakeConnection({.target = server.target()});
    std::atomic<int> seen = 0;
    server.service.renew.Answers([&, code = code](grpc::ServerContext*, const auto&, auto*) {
      return ++seen == 1 ? grpc::Status(code, "once") : grpc::Status::OK;
    });
    EXPECT_EQ(connection->Renew({.id = kId}, kPatient).ok(), calls == 2);
    EXPECT_EQ(seen, calls);
  }
}

TEST_P(ConnectionTest, ARenewalMayOutliveItsConnection) {
  absl::Notification asked;
  server_.service.renew.Answers([&](grpc::ServerContext*, const auto&, auto*) {
    asked.Notify();
    go_on_.WaitForNotification();
    return grpc::Status::OK;
  });
  absl::Notification called;
  connection_->AsyncRenew({.id = kId}, kPatient,
                          [&](const absl::StatusOr<RenewResponse>&) { called.Notify(); });
  asked.WaitForNotification();
  std::thread ender([&] { connection_.reset(); });
  ender.join();
  go_on_.Notify();
  called.WaitForNotification();
}

TEST_P(ConnectionTest, TheConnectionMayBeDestroyedByAnAnswer) {
  absl::Notification called;
  connection_->AsyncRenew({.id = kId}, kPatient, [&](const absl::StatusOr<RenewResponse>&) {
    connection_.reset();
    called.Notify();
  });
  called.WaitForNotification();
}

// --- Tokens --------------------------------------------------------------------------------------

std::string TokenIn(const grpc::ServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find("authorization");
  return found == metadata.end() ? "" : std::string(found->second.data(), found->second.size());
}

TEST_P(ConnectionTest, SendsTheTokenOfTheMoment) {
  absl::Mutex mutex;
  std::vector<std::string> seen;
  FakeServer server;
  server.service.see = [&](grpc::ServerContext* context) {
    absl::MutexLock lock(&mutex);
    seen.push_back(TokenIn(*context));
  };
  int minted = 0;
  const auto connection =
      MakeConnection({.target = server.target(),
                      .bearer_token = [&] { return "t" + std::to_string(++minted); },
                      .batching = batching()});
  ASSERT_TRUE(connection->Renew({.id = kId}, kPatient).ok());
  ASSERT_TRUE(connection->Renew({.id = kId}, kPatient).ok());
  absl::MutexLock lock(&mutex);
  if (batching()) {
    EXPECT_THAT(seen, ElementsAre("Bearer t1")) << "once a stream";
  } else {
    EXPECT_THAT(seen, ElementsAre("Bearer t1", "Bearer t2"));
  }
}

TEST_P(ConnectionTest, SendsNoTokenInPlainTextOverANetwork) {
  int minted = 0;
  const auto connection = MakeConnection({.target = "idempotency.example:7420",
                                          .bearer_token =
                                              [&] {
                                                ++minted;
                                                return std::string("secret");
                                              },
                                          .batching = batching()});
  const absl::Status status = connection->Renew({.id = kId}, kPatient).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("tls"));
  absl::Notification called;
  connection->AsyncRenew({.id = kId}, kPatient, [&](const absl::StatusOr<RenewResponse>& answer) {
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kFailedPrecondition);
    called.Notify();
  });
  called.WaitForNotification();
  EXPECT_EQ(minted, 0);
}

TEST(TokenTest, GoesOverANetworkUnderTls) {
  const auto wires = internal::Wires::Make({.target = "idempotency.example:7420",
                                            .tls = ConnectionOptions::Tls{},
                                            .bearer_token = [] { return std::string("secret"); }});
  grpc::ClientContext context;
  EXPECT_TRUE(wires->Prepare(&context).ok());
}

// --- TLS -----------------------------------------------------------------------------------------

class TlsTest : public ::testing::TestWithParam<bool> {
 protected:
  static std::shared_ptr<grpc::ServerCredentials> Credentials(const Certificate& own) {
    grpc::SslServerCredentialsOptions options(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    options.pem_root_certs = own.certificate;
    options.pem_key_cert_pairs.push_back({own.private_key, own.certificate});
    return grpc::SslServerCredentials(options);
  }
  absl::Status CallWith(const ConnectionOptions::Tls& tls) {
    const auto connection = MakeConnection({.target = server_.target(),
                                            .tls = tls,
                                            .bearer_token = [] { return std::string("secret"); },
                                            .batching = GetParam()});
    return connection->Renew({.id = kId}, {.timeout = 10s}).status();
  }

  const Certificate own_ = MakeCertificate();
  FakeServer server_{Credentials(own_)};
};

TEST_P(TlsTest, BothSidesShowTheirCertificates) {
  EXPECT_EQ(CallWith({.root_certificates = own_.certificate,
                      .client_certificate_chain = own_.certificate,
                      .client_private_key = own_.private_key,
                      .server_name = "localhost"}),
            absl::OkStatus());
}

TEST_P(TlsTest, AnotherNameIsAnotherServer) {
  EXPECT_EQ(CallWith({.root_certificates = own_.certificate,
                      .client_certificate_chain = own_.certificate,
                      .client_private_key = own_.private_key,
                      .server_name = "elsewhere"})
                .code(),
            absl::StatusCode::kUnavailable);
}

TEST_P(TlsTest, AnUnknownIssuerIsNotTrusted) {
  EXPECT_EQ(CallWith({.root_certificates = MakeCertificate().certificate,
                      .client_certificate_chain = own_.certificate,
                      .client_private_key = own_.private_key,
                      .server_name = "localhost"})
                .code(),
            absl::StatusCode::kUnavailable);
}

std::string Mode(const ::testing::TestParamInfo<bool>& info) {
  return info.param ? "Batching" : "Single";
}
INSTANTIATE_TEST_SUITE_P(Modes, ConnectionTest, ::testing::Bool(), Mode);
INSTANTIATE_TEST_SUITE_P(Modes, TlsTest, ::testing::Bool(), Mode);

// --- Without a stream ----------------------------------------------------------------------------

TEST(SingleCallTest, RefusalsComeWithAllTheyCarry) {
  FakeServer server;
  server.service.complete.Answers([](grpc::ServerContext* context, const auto&, auto*) {
    return RefuseCall(context, grpc::StatusCode::FAILED_PRECONDITION, "ALREADY_COMPLETE");
  });
  server.admin.resolve.Answers([](grpc::ServerContext* context, const auto&, auto*) {
    return RefuseCall(context, grpc::StatusCode::INVALID_ARGUMENT, "INVALID_FIELD", "actor", 250ms);
  });
  const auto connection = server.Connect(false);
  const absl::Status completed = connection->Complete({.id = kId}, kPatient).status();
  EXPECT_EQ(Refused(completed), (Refusal{.reason = ErrorReason::kAlreadyComplete}));
  EXPECT_EQ(completed.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(completed.message(), "the service says no");
  EXPECT_EQ(Refused(connection->Resolve({.id = kId}, kPatient).status()),
            (Refusal{ErrorReason::kInvalidField, "actor", 250ms}));
}

TEST(SingleCallTest, AWaitThatIsGivenUpEndsForTheServiceToo) {
  FakeServer server;
  std::stop_source caller;
  absl::Notification noticed;
  server.service.reserve.Answers([&](grpc::ServerContext* context, const auto&, auto*) {
    caller.request_stop();
    while (!context->IsCancelled()) std::this_thread::yield();
    noticed.Notify();
    return grpc::Status::CANCELLED;
  });
  const auto connection = server.Connect(false);
  const auto response = connection->Reserve(
      {.id = kId, .wait_duration = 20s}, CallOptions{.timeout = 30s, .stop = caller.get_token()});
  EXPECT_EQ(response.status().code(), absl::StatusCode::kCancelled);
  noticed.WaitForNotification();
}

TEST(LocalTargetTest, Table) {
  using internal::IsLocalTarget;
  for (const char* local :
       {"127.0.0.1:7420", "127.8.8.8:1", "localhost", "localhost:7420", "dns:///localhost:7420",
        "dns:localhost:1", "ipv4:127.0.0.1:7420", "[::1]:7420", "ipv6:[::1]:7420", "::1",
        "unix:/run/idempotencyd.sock", "unix:///run/idempotencyd.sock", "unix-abstract:name"}) {
    EXPECT_TRUE(IsLocalTarget(local)) << local;
  }
  for (const char* remote :
       {"", "10.0.0.1:7420", "idempotency:7420", "localhost.example.org:7420",
        "127.example.org:7420", "127.0.0.1.example.org:7420", "dns:///idempotency:7420",
        "[2001:db8::1]:7420", "ipv6:[fe80::1]:7420", "notlocalhost:1", "1127.0.0.1:7420",
        "ipv4:127.0.0.1:7420,10.0.0.5:7420", "ipv6:[::1]:1,[2001:db8::1]:1"}) {
    EXPECT_FALSE(IsLocalTarget(remote)) << remote;
  }
}

}  // namespace
}  // namespace idempotency::testing
