// A PostgreSQL with a synchronous standby, and two idempotencyd on both by one URI, under the load
// of eight clients. The primary is killed with -9, half of the time after its standby has stopped
// hearing of anything, and the standby is promoted: everything that was acknowledged is there, no
// key is held twice, and the old primary, started again by itself, acknowledges nothing.
#include <signal.h>

#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "keystore/clock.h"
#include "tests/proof/crash/program.h"
#include "tests/proof/replicas/fleet.h"
#include "tests/proof/sim/random.h"
#include "tests/support/becomes_true.h"
#include "tests/support/postgres_process.h"

namespace idempotency::proof {
namespace {

constexpr char kUsage[] =
    "usage: idempotency_postgres_failovers [--seed=N] [--floor=N] [--seconds=N] [--control]\n"
    "\n"
    "Kills a PostgreSQL under load, promotes its synchronous standby, and checks what was\n"
    "acknowledged.\n"
    "\n"
    "  --seed=N      of the clients' choices (1)\n"
    "  --floor=N     fewer failovers than this are a failure (6)\n"
    "  --seconds=N   go on for so long (PROOF_SECONDS in the environment); else until the floor\n"
    "  --control     no standby is synchronous: not to notice what is lost then is the failure\n";

constexpr char kStandby[] = "standby";
constexpr char kSchema[] = "proof";
constexpr uint64_t kCallsBetween = 200;
constexpr int kLeaseSeconds = 36'000;
constexpr int kAskSeconds = 2;

std::vector<std::string> FlagsOf(const std::string& uri) {
  return {"--engine=postgres", "--postgres_uri=" + uri, "--log_level=error"};
}

// One primary, one standby, and what runs on them, from the beginning to a failover.
class Failover {
 public:
  Failover(uint64_t seed, bool synchronous)
      : primary_({std::string("synchronous_standby_names=") + (synchronous ? kStandby : "")}),
        standby_(primary_, kStandby),
        // It makes the schema, which is a commit: not before there is a standby.
        primary_uri_(primary_.TcpUri(kSchema)),
        fleet_(2, FlagsOf(UriOfBoth())),
        left_behind_(1, FlagsOf(primary_uri_)),
        crowd_(seed, &fleet_) {}

  // "" or what is wrong.
  std::string Begin() {
    std::string wrong = fleet_.StartAll();
    if (wrong.empty()) wrong = left_behind_.StartAll();
    if (wrong.empty()) wrong = HoldOne();
    if (!wrong.empty()) return wrong;
    crowd_.Start();
    return crowd_.AwaitCalls(kCallsBetween) ? "" : "nothing is acknowledged";
  }

  // Its standby hears of nothing any more: what comes then is acknowledged by no standby.
  std::string CutOffStandby() {
    const pid_t sender = std::atoi(primary_.Sql("SELECT pid FROM pg_stat_replication").c_str());
    if (sender <= 1) return "no standby hears of anything";
    kill(sender, SIGSTOP);
    const uint64_t until = crowd_.acknowledged() + kCallsBetween;
    const bool decided =
        BecomesTrue([&] { return crowd_.acknowledged() >= until || SomebodyWaits(); });
    return decided ? "" : "no commit is made and none waits";
  }

  std::string KillAndPromote() {
    primary_.Kill();
    standby_.Promote();
    const auto begin = keystore::ReadElapsed();
    if (!crowd_.AwaitCalls(1)) return "nothing is acknowledged by the new primary";
    recovery_ = keystore::ReadElapsed() - begin;
    return crowd_.AwaitCalls(kCallsBetween) ? "" : "the new primary gets stuck";
  }

  // The old primary is there again, and knows nothing of the new one. Whoever asks it by itself is
  // told of nothing that was done: a commit waits for the standby that it has lost.
  std::string OldPrimaryAcknowledgesNothing() {
    primary_.Start();
    std::string wrong = AsksInVain([&](grpc::ClientContext* context) {
      v1::ReserveResponse response;
      return Stub(left_behind_)
          ->Reserve(context, ReserveFor("payments", "on the old one", "left behind", kLeaseSeconds),
                    &response);
    });
    if (!wrong.empty()) return "Reserve: " + wrong;
    wrong = AsksInVain([&](grpc::ClientContext* context) {
      v1::CompleteResponse response;
      return Stub(left_behind_)->Complete(context, LateCompletion(), &response);
    });
    if (!wrong.empty()) return "Complete: " + wrong;
    // Those that have seen the new one do not go back.
    const bool goes_on = crowd_.AwaitCalls(kCallsBetween);
    left_behind_.Kill(0);
    primary_.Kill();
    return goes_on ? "" : "the servers have lost the new primary";
  }

  // What all of it comes to, as the new primary has it.
  std::string End() {
    std::string wrong = crowd_.Stop();
    if (wrong.empty()) wrong = crowd_.CheckAll();
    if (!wrong.empty()) return wrong;
    grpc::Status status;
    BecomesTrue([&] {
      grpc::ClientContext context;
      GiveUpAfter(kAskSeconds, &context);
      v1::CompleteResponse response;
      status = Stub(fleet_)->Complete(&context, LateCompletion(), &response);
      return status.error_code() != grpc::StatusCode::UNAVAILABLE &&
             status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED;
    });
    return status.ok() ? "" : "an owner on the new primary: " + status.error_message();
  }

  // What is behind `wrong`, if a client knows.
  std::string Why(const std::string& wrong) {
    const std::string broken = crowd_.Stop();
    return broken.empty() ? wrong : broken;
  }

  const Crowd& crowd() const { return crowd_; }
  std::chrono::nanoseconds recovery() const { return recovery_; }

 private:
  std::string UriOfBoth() const {
    std::string uri = primary_uri_;
    const std::string port = ":" + std::to_string(primary_.port());
    return uri.insert(uri.find(port) + port.size(),
                      ",127.0.0.1:" + std::to_string(standby_.port()));
  }

  static std::unique_ptr<v1::IdempotencyService::Stub> Stub(const Fleet& fleet) {
    return v1::IdempotencyService::NewStub(fleet.Channel(0));
  }

  // By the server that will be left behind, so that it has served before.
  std::string HoldOne() {
    grpc::Status status;
    BecomesTrue([&] {
      grpc::ClientContext context;
      GiveUpAfter(kAskSeconds, &context);
      v1::ReserveResponse response;
      status = Stub(left_behind_)
                   ->Reserve(&context, ReserveFor("payments", "held", "its owner", kLeaseSeconds),
                             &response);
      held_token_ = response.lease().fencing_token();
      return status.ok();
    });
    return status.error_message();
  }

  v1::CompleteRequest LateCompletion() const {
    return CompleteFor("payments", "held", held_token_, "done");
  }

  bool SomebodyWaits() const {
    return primary_.Sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") !=
           "0\n";
  }

  // Until it is seen that a commit waits: "" or what is wrong.
  template <typename Ask>
  std::string AsksInVain(const Ask& ask) {
    bool acknowledged = false;
    const bool decided = BecomesTrue([&] {
      grpc::ClientContext context;
      GiveUpAfter(kAskSeconds, &context);
      acknowledged = ask(&context).ok();
      return acknowledged || SomebodyWaits();
    });
    if (acknowledged) return "acknowledged by a primary that was given up";
    return decided ? "" : "no commit waits for the standby";
  }

  PostgresServer primary_;
  PostgresServer standby_;
  const std::string primary_uri_;
  Fleet fleet_;
  Fleet left_behind_;
  Crowd crowd_;
  uint64_t held_token_ = 0;
  std::chrono::nanoseconds recovery_{0};
};

uint64_t Ms(std::chrono::nanoseconds span) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(span).count());
}

int Prove(const Settings& settings) {
  Tally tally(settings);
  for (uint64_t number = 0; tally.GoesOn(); ++number) {
    Failover failover(Mix(settings.seed + number), true);
    std::string wrong = failover.Begin();
    if (wrong.empty() && number % 2 == 1) wrong = failover.CutOffStandby();
    if (wrong.empty()) wrong = failover.KillAndPromote();
    if (wrong.empty()) wrong = failover.OldPrimaryAcknowledgesNothing();
    if (wrong.empty()) wrong = failover.End();
    wrong.empty() ? tally.Passed() : tally.Failed(failover.Why(wrong));
    std::printf("%" PRIu64 " acknowledged calls, %zu operations; acknowledged again %" PRIu64
                " ms after the promotion\n",
                failover.crowd().acknowledged(), failover.crowd().facts(), Ms(failover.recovery()));
  }
  return tally.Summary("failovers");
}

// Whether it is noticed that a standby that was not waited for has lost something.
int Control(const Settings& settings) {
  Failover failover(settings.seed, false);
  std::string wrong = failover.Begin();
  if (wrong.empty()) wrong = failover.CutOffStandby();
  if (wrong.empty()) wrong = failover.KillAndPromote();
  const bool over = wrong.empty() || failover.crowd().somebody_broke();
  const std::string noticed = over ? failover.End() : std::string();
  std::printf("%s\n", !noticed.empty() ? ("noticed: " + noticed).c_str()
                                       : ("FAILED: not noticed; " + wrong).c_str());
  std::printf("%d passed, %d failed\n", noticed.empty() ? 0 : 1, noticed.empty() ? 1 : 0);
  return noticed.empty() ? 1 : 0;
}

}  // namespace
}  // namespace idempotency::proof

int main(int argc, char** argv) {
  using namespace idempotency::proof;
  const Settings settings =
      ReadSettings(argc, argv, kUsage, {.floor = 6, .others = {{"control", ""}}});
  return settings.has("control") ? Control(settings) : Prove(settings);
}
