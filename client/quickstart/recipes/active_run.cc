// One active run for each account: whoever comes while it is active is told who has it, and hands
// over what it came with. The namespace (ACTIVE_RUN) keeps a key only while its run is active.
#include <map>
#include <string>
#include <vector>

#include "example.h"
#include "idempotency/client.h"
#include "idempotency/fingerprint.h"
#include "idempotency/keys.h"

namespace {

// Stands in for the addresses of the runs: where messages for each go.
using Inboxes = std::map<std::string, std::vector<std::string>>;

// Starts a run for the account, or hands `message` to the one that is active. The id of the run.
std::string RunOrHandOver(const idempotency::Client& client, const std::string& account,
                          const std::string& run_id, const std::string& message, Inboxes& inboxes,
                          const idempotency::EffectFunction& run) {
  const idempotency::RunResult result =
      client.Run({.id = {"runs", account, "nightly-import"},
                  // One fingerprint for all: they ask for the same thing, whatever they bring.
                  .fingerprint = idempotency::FingerprintBytes("RUN", "nightly-import", ""),
                  .wait = idempotency::Duration(0),
                  .operation_ref = run_id},
                 run);
  if (result.has_answer()) return run_id;
  Require(result.stop == idempotency::StopReason::kInProgress, "it is active: " + result.detail);
  const std::string& active = result.operation->owner.operation_ref;
  inboxes[active].push_back(message);
  return active;
}

}  // namespace

int main(int argc, char** argv) {
  const idempotency::Client client(
      idempotency::MakeConnection({.target = Flag(argc, argv, "target", "127.0.0.1:7420")}));
  const std::string account = idempotency::RandomKey();
  Inboxes inboxes;
  int runs = 0;
  const auto short_run = [&](idempotency::Attempt&) {
    ++runs;
    return idempotency::EffectResult::Answered({.body = "imported"});
  };
  const auto long_run = [&](idempotency::Attempt& attempt) {
    // Two others come while it is at work.
    for (const std::string other : {"run-2", "run-3"}) {
      const std::string active =
          RunOrHandOver(client, account, other, "what " + other + " brings", inboxes, short_run);
      Say(other + " hands over to " + active);
      Require(active == "run-1", "duplicates are sent to the active run");
    }
    return short_run(attempt);
  };

  RunOrHandOver(client, account, "run-1", "", inboxes, long_run);
  Require(runs == 1, "one run was active");
  Require(inboxes["run-1"].size() == 2, "it has what the others brought");

  const std::string next = RunOrHandOver(client, account, "run-4", "", inboxes, short_run);
  Say("afterwards " + next + " runs");
  Require(next == "run-4" && runs == 2, "the key is free when the run has ended");
  return 0;
}
