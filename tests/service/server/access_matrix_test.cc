// Every cell of caller x method x namespace and scope, over a real TLS server: who is let in, and
// that all who are not see the same bytes, whatever exists.
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "idempotency/engine/v1/engine_service.grpc.pb.h"
#include "service/identity/static_tokens.h"
#include "tests/service/server/commands.h"
#include "tests/service/server/secure_service.h"

namespace idempotency::testing {
namespace {

// What a caller holds. All but root hold it in `payments` alone.
//   C caller, R reader, E reconciler, O operator, A admin
//   s caller and reconciler of the scope acct-1; t caller of the scope in its name, acct-1
//   n nothing; - nobody who is known; * admin everywhere
constexpr char kCallers[] = "CREOAstn-*";

std::string NameOf(char caller) {
  switch (caller) {
    case 't':
      return "tenant-acct-1";
    case '*':
      return "root";
    default:
      return absl::StrCat("role-", std::string(1, caller));
  }
}
std::string TokenOf(char caller) { return absl::StrCat(NameOf(caller), std::string(32, '0')); }

constexpr char kConfig[] = R"(
namespaces: {payments: {scope_optional: true, key_check: "OFF"}, mail: {scope_optional: true}}
identity: {tokens_file: t}
access:
- {identities: ["token:role-C"], namespaces: [payments], roles: [CALLER]}
- {identities: ["token:role-R"], namespaces: [payments], roles: [READER]}
- {identities: ["token:role-E"], namespaces: [payments], roles: [RECONCILER]}
- {identities: ["token:role-O"], namespaces: [payments], roles: [OPERATOR]}
- {identities: ["token:role-A"], namespaces: [payments], roles: [ADMIN]}
- {identities: ["token:role-s"], namespaces: [payments], scopes: [acct-1],
   roles: [CALLER, RECONCILER]}
- {identities: ["token:tenant-{scope}"], scope_from_identity: true, namespaces: [payments],
   roles: [CALLER]}
- {identities: ["token:root"], namespaces: ["**"], roles: [ADMIN]}
)";

struct Place {
  const char* name_space;
  const char* scope;
  const char* callers;  // who has a rule for it, whatever that says
};
constexpr Place kPlaces[] = {
    {"payments", "acct-1", "CREOAst*"}, {"payments", "acct-2", "CREOA*"},
    {"payments", "", "CREOA*"},         {"mail", "acct-1", "*"},
    {"not.configured", "acct-1", "*"},
};

// Who may call what, where they have a rule for the place.
struct Method {
  const char* name;
  const char* callers;
};
constexpr Method kMethods[] = {
    {"Reserve", "CAst*"},
    {"Renew", "CAst*"},
    {"Complete", "CAst*"},
    {"Release", "CAst*"},
    {"MarkUnresolved", "CAst*"},
    {"GetOperation", "CREOAst*"},
    {"InspectOperation", "REOAs*"},
    {"ListOperations", "REOAs*"},
    {"ResolveOperation", "EOAs*"},
    {"DeleteOperation", "OA*"},
    {"DeleteOperation by force", "A*"},
};

bool Holds(const char* callers, char caller) {
  return std::string_view(callers).find(caller) != std::string_view::npos;
}

class AccessMatrixTest : public ::testing::Test {
 protected:
  AccessMatrixTest() : service_(OptionsWithTokens()) {
    const auto channel = service_.fixture().NewChannel(service_.Client());
    api_ = std::make_unique<Api>(channel);
    admin_ = std::make_unique<AdminApi>(channel);
    generic_ = std::make_unique<grpc::GenericStub>(channel);
  }

  static SecureService::Options OptionsWithTokens() {
    SecureService::Options options;
    options.config = kConfig;
    for (const char caller : std::string(kCallers)) {
      if (caller == '-') continue;
      const service::TokenDigest digest = service::DigestToken(TokenOf(caller));
      const std::string bytes(digest.begin(), digest.end());
      absl::StrAppend(&options.tokens, NameOf(caller), " sha256:", absl::BytesToHexString(bytes),
                      "\n");
    }
    return options;
  }

  static void Authorize(grpc::ClientContext* context, char caller) {
    if (caller != '-') context->AddMetadata("authorization", "Bearer " + TokenOf(caller));
  }

  // How a call ended, and everything that its caller can see of that.
  struct Seen {
    grpc::StatusCode code = grpc::StatusCode::OK;
    std::string all;
  };
  static Seen SeenOf(const grpc::Status& status, const grpc::ClientContext& context) {
    std::string all = absl::StrCat(status.error_code(), "|", status.error_message(), "|",
                                   absl::BytesToHexString(status.error_details()));
    for (const auto& [name, value] : context.GetServerTrailingMetadata()) {
      absl::StrAppend(&all, "|", std::string(name.data(), name.size()), "=",
                      absl::BytesToHexString({value.data(), value.size()}));
    }
    return {status.error_code(), all};
  }

  template <typename Stub, typename Request, typename Response>
  Seen Call(char caller, Stub* stub,
            grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
            const Request& request, Response* response) {
    grpc::ClientContext context;
    Authorize(&context, caller);
    const grpc::Status status = (stub->*method)(&context, request, response);
    return SeenOf(status, context);
  }
  template <typename Stub, typename Request, typename Response>
  Seen Call(char caller, Stub* stub,
            grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
            const Request& request) {
    Response response;
    return Call(caller, stub, method, request, &response);
  }

  template <typename Request>
  static Request At(const Place& place, Request request) {
    request.mutable_id()->set_namespace_(place.name_space);
    request.mutable_id()->set_scope(place.scope);
    return request;
  }

  Seen CallMethod(const std::string& method, char caller, const Place& place,
                  const std::string& key) {
    if (method == "Reserve")
      return Call(caller, api_.get(), &Api::Reserve, At(place, Reserve(key)));
    if (method == "Renew") return Call(caller, api_.get(), &Api::Renew, At(place, Renew(key, 1)));
    if (method == "Complete") {
      return Call(caller, api_.get(), &Api::Complete, At(place, Complete(key, 1)));
    }
    if (method == "Release") {
      return Call(caller, api_.get(), &Api::Release, At(place, Release(key, 1)));
    }
    if (method == "MarkUnresolved") {
      return Call(caller, api_.get(), &Api::MarkUnresolved, At(place, Mark(key, 1)));
    }
    if (method == "GetOperation") {
      return Call(caller, api_.get(), &Api::GetOperation, At(place, Get(key)));
    }
    if (method == "InspectOperation") {
      return Call(caller, admin_.get(), &AdminApi::InspectOperation, At(place, Inspect(key)));
    }
    if (method == "ResolveOperation") {
      return Call(caller, admin_.get(), &AdminApi::ResolveOperation, At(place, Resolve(key)));
    }
    if (method == "ListOperations") {
      v1::ListOperationsRequest list;
      list.set_namespace_(place.name_space);
      list.set_scope(place.scope);
      return Call(caller, admin_.get(), &AdminApi::ListOperations, list);
    }
    return Call(caller, admin_.get(), &AdminApi::DeleteOperation,
                At(place, Delete(key, method == "DeleteOperation by force")));
  }

  // A command of every kind, tagged by its place in kMethods.
  static std::vector<v1::Command> CommandsOn(const Place& place, const std::string& key) {
    std::vector<v1::Command> commands(6);
    *commands[0].mutable_reserve() = At(place, Reserve(key));
    *commands[1].mutable_renew() = At(place, Renew(key, 1));
    *commands[2].mutable_complete() = At(place, Complete(key, 1));
    *commands[3].mutable_release() = At(place, Release(key, 1));
    *commands[4].mutable_mark_unresolved() = At(place, Mark(key, 1));
    *commands[5].mutable_get_operation() = At(place, Get(key));
    for (size_t i = 0; i < commands.size(); ++i) commands[i].set_tag(i);
    return commands;
  }

  // Makes the key, in namespaces that have them.
  void Make(const Place& place, const std::string& key) {
    v1::ReserveResponse response;
    Call('*', api_.get(), &Api::Reserve, At(place, Reserve(key)), &response);
    if (std::string_view(place.name_space) == "not.configured") return;
    EXPECT_EQ(response.outcome(), v1::RESERVE_OUTCOME_ACQUIRED) << key;
  }

  SecureService service_;
  std::unique_ptr<Api> api_;
  std::unique_ptr<AdminApi> admin_;
  std::unique_ptr<grpc::GenericStub> generic_;
};

std::string Cell(char caller, const Place& place, const std::string& method) {
  return absl::StrCat(std::string(1, caller), " ", method, " ", place.name_space, "/", place.scope);
}

TEST_F(AccessMatrixTest, EveryCellOfUnaryMethods) {
  std::set<std::string> denials;
  std::set<std::string> strangers;
  size_t cells = 0;
  for (const char caller : std::string(kCallers)) {
    for (const Place& place : kPlaces) {
      for (const Method& method : kMethods) {
        const std::string cell = Cell(caller, place, method.name);
        const bool allowed = Holds(place.callers, caller) && Holds(method.callers, caller);
        Make(place, cell);
        for (const std::string& key : {cell, cell + " none"}) {
          const Seen seen = CallMethod(method.name, caller, place, key);
          const bool denied = seen.code == grpc::StatusCode::PERMISSION_DENIED ||
                              seen.code == grpc::StatusCode::UNAUTHENTICATED;
          EXPECT_EQ(denied, !allowed) << cell << ": " << seen.all;
          if (denied) (caller == '-' ? strangers : denials).insert(seen.all);
          ++cells;
        }
      }
    }
  }
  EXPECT_EQ(cells, 10u * 5 * 11 * 2);
  EXPECT_EQ(denials.size(), 1u) << "all denials are the same bytes:\n"
                                << ::testing::PrintToString(denials);
  EXPECT_EQ(strangers.size(), 1u) << ::testing::PrintToString(strangers);
}

TEST_F(AccessMatrixTest, EveryCellOfTheCommandsOfABatch) {
  std::set<std::string> denials;
  for (const char caller : std::string(kCallers)) {
    if (caller == '-') continue;
    for (const Place& place : kPlaces) {
      const std::string made = Cell(caller, place, "made");
      Make(place, made);
      v1::BatchRequest request;
      for (const std::string& key : {made, made + " none"}) {
        for (v1::Command& command : CommandsOn(place, key)) *request.add_commands() = command;
      }
      v1::BatchResponse response;
      ASSERT_EQ(Call(caller, api_.get(), &Api::Batch, request, &response).code,
                grpc::StatusCode::OK);
      for (const v1::Result& result : response.results()) {
        const Method& method = kMethods[result.tag()];
        const bool allowed = Holds(place.callers, caller) && Holds(method.callers, caller);
        const bool denied = result.error().reason() == v1::ERROR_REASON_ACCESS_DENIED;
        EXPECT_EQ(denied, !allowed) << Cell(caller, place, method.name);
        if (denied) denials.insert(result.error().SerializeAsString());
      }
    }
  }
  EXPECT_EQ(denials.size(), 1u);
  // A stranger's batch is refused as a whole.
  EXPECT_EQ(Call('-', api_.get(), &Api::Batch, v1::BatchRequest()).code,
            grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(AccessMatrixTest, EveryCellOfTheCommandsOfAPipeline) {
  std::set<std::string> denials;
  for (const char caller : std::string(kCallers)) {
    grpc::ClientContext context;
    Authorize(&context, caller);
    const auto stream = api_->Pipeline(&context);
    uint64_t tag = 0;
    std::map<uint64_t, std::pair<const Place*, size_t>> sent;
    for (const Place& place : kPlaces) {
      const std::string made = Cell(caller, place, "made");
      Make(place, made);
      for (const std::string& key : {made, made + " none"}) {
        v1::PipelineRequest request;
        for (v1::Command& command : CommandsOn(place, key)) {
          sent[++tag] = {&place, command.tag()};
          command.set_tag(tag);
          *request.add_commands() = command;
        }
        stream->Write(request);
      }
    }
    stream->WritesDone();
    v1::PipelineResponse response;
    size_t results = 0;
    while (stream->Read(&response)) {
      for (const v1::Result& result : response.results()) {
        ++results;
        const auto& [place, index] = sent[result.tag()];
        const Method& method = kMethods[index];
        const bool allowed = Holds(place->callers, caller) && Holds(method.callers, caller);
        const bool denied = result.error().reason() == v1::ERROR_REASON_ACCESS_DENIED;
        EXPECT_EQ(denied, !allowed) << Cell(caller, *place, method.name);
        if (denied) denials.insert(result.error().SerializeAsString());
      }
    }
    const grpc::Status status = stream->Finish();
    if (caller == '-') {
      EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
      EXPECT_EQ(results, 0u);
    } else {
      EXPECT_TRUE(status.ok()) << status.error_message();
      EXPECT_EQ(results, sent.size());
    }
  }
  EXPECT_EQ(denials.size(), 1u);
}

TEST_F(AccessMatrixTest, TheEngineIsForWhoeverAdministersEveryNamespace) {
  using engine::v1::EngineService;
  const auto stub = EngineService::NewStub(service_.fixture().NewChannel(service_.Client()));
  std::set<std::string> denials;
  for (const char caller : std::string(kCallers)) {
    const Seen seen = Call(caller, stub.get(), &EngineService::Stub::CheckEngine,
                           engine::v1::CheckEngineRequest());
    if (caller == '*') {
      EXPECT_EQ(seen.code, grpc::StatusCode::OK) << seen.all;
    } else if (caller == '-') {
      EXPECT_EQ(seen.code, grpc::StatusCode::UNAUTHENTICATED) << seen.all;
    } else {
      EXPECT_EQ(seen.code, grpc::StatusCode::PERMISSION_DENIED) << caller << ": " << seen.all;
      denials.insert(seen.all);
    }
  }
  // And as any other denial is.
  denials.insert(CallMethod("Reserve", 'n', kPlaces[0], "k").all);
  EXPECT_EQ(denials.size(), 1u) << ::testing::PrintToString(denials);
}

TEST_F(AccessMatrixTest, EveryCellOfWhatTellsOfNamespaces) {
  const std::map<std::string, std::string> readers{{"payments", "CREOAst*"}, {"mail", "*"}};
  std::set<std::string> denials;
  for (const char caller : std::string(kCallers)) {
    for (const char* name : {"payments", "mail", "not.configured"}) {
      v1::GetNamespaceRequest get;
      get.set_name(name);
      const Seen seen = Call(caller, api_.get(), &Api::GetNamespace, get);
      const auto of = readers.find(name);
      const bool allowed =
          caller == '*' || (of != readers.end() && Holds(of->second.c_str(), caller));
      EXPECT_EQ(seen.code != grpc::StatusCode::PERMISSION_DENIED &&
                    seen.code != grpc::StatusCode::UNAUTHENTICATED,
                allowed)
          << std::string(1, caller) << " " << name;
      if (!allowed && caller != '-') denials.insert(seen.all);
    }
    v1::ListNamespacesResponse listed;
    const Seen seen =
        Call(caller, admin_.get(), &AdminApi::ListNamespaces, v1::ListNamespacesRequest(), &listed);
    EXPECT_EQ(seen.code, caller == '-' ? grpc::StatusCode::UNAUTHENTICATED : grpc::StatusCode::OK);
    std::vector<std::string> names;
    for (const auto& name_space : listed.namespaces()) names.push_back(name_space.name());
    std::vector<std::string> expected;
    if (caller == '*') expected.push_back("mail");
    if (Holds("REOAs*", caller)) expected.push_back("payments");
    EXPECT_EQ(names, expected) << std::string(1, caller);
  }
  EXPECT_EQ(denials.size(), 1u);
}

// A probe has no credentials; what gRPC's reflection tells cannot ask for any.
TEST_F(AccessMatrixTest, HealthAnswersEverybodyAndReflectionNobody) {
  for (const char caller : std::string(kCallers)) {
    for (const auto& [method, expected] : std::map<std::string, grpc::StatusCode>{
             {"/grpc.health.v1.Health/Check", grpc::StatusCode::OK},
             {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
              grpc::StatusCode::UNIMPLEMENTED}}) {
      grpc::ClientContext context;
      Authorize(&context, caller);
      const grpc::Slice nothing(std::string{});
      grpc::ByteBuffer request(&nothing, 1);
      grpc::ByteBuffer response;
      grpc::CompletionQueue queue;
      grpc::Status status;
      auto call = generic_->PrepareUnaryCall(&context, method, request, &queue);
      call->StartCall();
      call->Finish(&response, &status, nullptr);
      void* tag = nullptr;
      bool ok = false;
      ASSERT_TRUE(queue.Next(&tag, &ok));
      EXPECT_EQ(status.error_code(), expected) << std::string(1, caller) << " " << method;
    }
  }
}

}  // namespace
}  // namespace idempotency::testing
