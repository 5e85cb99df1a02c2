// A reconciler: goes over what is unresolved, finds out at the provider what became of each, and
// settles it. It needs the reconciler's access; the list is the admin API's.
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <set>
#include <string>

#include "example.h"
#include "idempotency/client.h"
#include "idempotency/fingerprint.h"
#include "idempotency/keys.h"
#include "idempotency/v1/admin_service.grpc.pb.h"

namespace {

using Admin = idempotency::v1::IdempotencyAdminService;

constexpr char kNamespace[] = "bank.plain";

// Stands in for what the provider's own list says.
using ProviderRecords = std::set<std::string>;

idempotency::ResolveRequest Decide(const idempotency::v1::Operation& operation,
                                   const ProviderRecords& records) {
  const auto& id = operation.id();
  const bool happened = records.contains(id.key());
  idempotency::ResolveRequest resolve{.id = {id.namespace_(), id.scope(), id.key()},
                                      .actor = "reconciler",
                                      .etag = operation.etag()};
  if (happened) {
    resolve.resolution = idempotency::ResolveRequest::Resolution::kCompleted;
    resolve.response = idempotency::CachedResponse{.body = "as the provider has it"};
    resolve.reason = "the provider's list has it";
  } else {
    resolve.resolution = idempotency::ResolveRequest::Resolution::kNotExecuted;
    resolve.reason = "the provider's list does not have it";
  }
  return resolve;
}

// One round over all that is unresolved in the scope. How many it has settled.
int Reconcile(idempotency::Connection& connection, Admin::Stub& admin, const std::string& scope,
              const ProviderRecords& records) {
  int settled = 0;
  idempotency::v1::ListOperationsRequest list;
  list.set_namespace_(kNamespace);
  list.set_scope(scope);
  list.add_states(idempotency::v1::OPERATION_STATE_UNRESOLVED);
  do {
    grpc::ClientContext context;
    idempotency::v1::ListOperationsResponse page;
    const grpc::Status listed = admin.ListOperations(&context, list, &page);
    Require(listed.ok(), "operations are listed: " + listed.error_message());
    for (const auto& operation : page.operations()) {
      const auto resolved = connection.Resolve(Decide(operation, records), {});
      if (resolved.ok()) {
        ++settled;
        continue;
      }
      // NOT_SETTLED: its call may still arrive at the provider. Changed meanwhile, or somebody
      // else at it: the next round sees it as it is then.
      const auto refusal = idempotency::Refused(resolved.status());
      Say("  " + operation.id().key() + ": " +
          (refusal ? std::string(Name(refusal->reason)) : resolved.status().ToString()));
    }
    list.set_page_token(page.next_page_token());
  } while (!list.page_token().empty());
  return settled;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string target = Flag(argc, argv, "target", "127.0.0.1:7420");
  const auto connection = idempotency::MakeConnection({.target = target});
  const auto environment = idempotency::SystemEnvironment();
  const idempotency::Client client(connection);
  const auto admin =
      Admin::NewStub(grpc::CreateChannel(target, grpc::InsecureChannelCredentials()));
  const std::string scope = idempotency::RandomKey();

  // Two calls whose answers never came; one of them happened.
  ProviderRecords records;
  const auto run = [&](const std::string& order, bool lost) {
    return client.Run(
        {.id = {kNamespace, scope, order},
         .fingerprint = idempotency::FingerprintBytes("CHARGE", order, "25.00")},
        [&](idempotency::Attempt&) {
          if (!lost) return idempotency::EffectResult::Answered({.body = "now"});
          return idempotency::EffectResult::Failed(absl::DeadlineExceededError("no answer"));
        });
  };
  for (const std::string order : {"order-1", "order-2"}) {
    Require(run(order, true).stop == idempotency::StopReason::kUnresolved, "it is unresolved");
  }
  records.insert("order-1");

  int settled = 0;
  for (int round = 1; settled < 2 && round <= 20; ++round) {
    Say("round " + std::to_string(round));
    settled += Reconcile(*connection, *admin, scope, records);
    if (settled < 2) environment->Sleep(std::chrono::milliseconds(500));
  }
  Require(settled == 2, "both are settled");

  const idempotency::RunResult happened = run("order-1", false);
  Require(happened.replayed && happened.response->body == "as the provider has it",
          "what happened is replayed");
  const idempotency::RunResult free = run("order-2", false);
  Require(!free.replayed && free.response->body == "now", "what did not happen may be done");
  Say("what happened is replayed, what did not is done now");
  return 0;
}
