// A reconciler: goes over what is unresolved, finds out at the provider what became of each, and
// settles it. It needs the reconciler's access.
#include <chrono>
#include <set>
#include <string>

#include "example.h"
#include "idempotency/client.h"
#include "idempotency/fingerprint.h"
#include "idempotency/keys.h"

namespace {

constexpr char kNamespace[] = "bank.plain";

// Stands in for what the provider's own list says.
using ProviderRecords = std::set<std::string>;

idempotency::ResolveRequest Decide(const idempotency::Operation& operation,
                                   const ProviderRecords& records) {
  idempotency::ResolveRequest resolve{
      .id = operation.id, .actor = "reconciler", .etag = operation.etag};
  if (records.contains(operation.id.key)) {
    resolve.resolution = idempotency::ResolveRequest::Resolution::kCompleted;
    resolve.response = idempotency::CachedResponse{.body = "as the provider has it"};
    resolve.reason = "the provider's list has it";
  } else {
    resolve.resolution = idempotency::ResolveRequest::Resolution::kNotExecuted;
    resolve.reason = "the provider's list does not have it";
  }
  return resolve;
}

// One round over all that is unresolved in the scope, oldest first. How many it has settled.
int Reconcile(idempotency::Connection& connection, const std::string& scope,
              const ProviderRecords& records) {
  int settled = 0;
  idempotency::ListOperationsRequest list{.name_space = kNamespace,
                                          .scope = scope,
                                          .states = {idempotency::OperationState::kUnresolved}};
  do {
    const auto page = connection.ListOperations(list, {});
    Require(page.ok(), "operations are listed: " + page.status().ToString());
    for (const idempotency::Operation& operation : page->operations) {
      const auto resolved = connection.Resolve(Decide(operation, records), {});
      if (resolved.ok()) {
        ++settled;
        continue;
      }
      // NOT_SETTLED: its call may still arrive at the provider. Changed meanwhile, or somebody
      // else at it: the next round sees it as it is then.
      const auto refusal = idempotency::Refused(resolved.status());
      Say("  " + operation.id.key + ": " +
          (refusal ? std::string(Name(refusal->reason)) : resolved.status().ToString()));
    }
    list.page_token = page->next_page_token;
  } while (!list.page_token.empty());
  return settled;
}

}  // namespace

int main(int argc, char** argv) {
  const auto connection =
      idempotency::MakeConnection({.target = Flag(argc, argv, "target", "127.0.0.1:7420")});
  const auto environment = idempotency::SystemEnvironment();
  const idempotency::Client client(connection);
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
    settled += Reconcile(*connection, scope, records);
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
