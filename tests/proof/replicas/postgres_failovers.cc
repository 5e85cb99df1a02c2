// A PostgreSQL with a synchronous standby, and two idempotencyd on both by one URI, under the load
// of eight clients. The primary is killed with -9, half of the time after its standby has stopped
// hearing of anything, and the standby is promoted: everything that was acknowledged is there, no
// key is held twice, and the old primary, started again by itself, acknowledges nothing: neither to
// a server that comes back to it, nor to one whose session with it stands already.
#include <signal.h>

#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
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
    "  --control     no standby is synchronous: not to notice what is lost then, and that the old\n"
    "                primary acknowledges, is the failure\n";

constexpr char kStandby[] = "standby";
constexpr char kSchema[] = "proof";
constexpr char kNamespace[] = "payments";
// What an owner reports to the old primary: when that is there again, and when it has been so for a
// while.
constexpr char kHeldAlone[] = "held alone";
constexpr char kHeldBefore[] = "held before";
constexpr char kWaitingWrites[] =
    "WHERE wait_event = 'SyncRep' AND query LIKE '%INSERT INTO idempotency_records%'";
constexpr uint64_t kCallsBetween = 200;
constexpr int kLeaseSeconds = 36'000;
constexpr int kAskSeconds = 2;

// Those that know the old primary alone: what each of them is asked to do there.
constexpr size_t kReserver = 0;
constexpr size_t kCompleter = 1;

std::vector<std::string> FlagsOf(const std::string& uri, std::vector<std::string> more = {}) {
  more.insert(more.end(), {"--engine=postgres", "--postgres_uri=" + uri, "--log_level=error"});
  return more;
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
        // With one session, so that it is known to stand.
        left_behind_(2, FlagsOf(primary_uri_, {"--postgres_connections=1"})),
        crowd_(seed, &fleet_) {}

  // "" or what is wrong.
  std::string Begin() {
    std::string wrong = fleet_.StartAll();
    if (wrong.empty()) wrong = left_behind_.StartAll();
    for (const char* key : {kHeldAlone, kHeldBefore}) {
      if (wrong.empty()) wrong = Hold(key);
    }
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
  // told of nothing that was done: a commit waits for the standby that it has lost. `cancels`: how
  // a wait is ended, by its cancellation or with its session.
  std::string OldPrimaryAcknowledgesNothing(bool cancels) {
    primary_.Start();
    // What the crowd does meanwhile would all have to be looked at in the end, which is also where
    // it is asked what it was told.
    crowd_.Stop();
    std::string wrong = TakesNoSession();
    if (wrong.empty()) wrong = TakesNoWrite(cancels);
    if (!wrong.empty()) return wrong;
    // Those that have seen the new one do not go back.
    crowd_.Start();
    const bool goes_on = crowd_.AwaitCalls(kCallsBetween);
    for (size_t i = 0; i < left_behind_.size(); ++i) left_behind_.Kill(i);
    primary_.Kill();
    return goes_on ? "" : "the servers have lost the new primary";
  }

  // What all of it comes to, as the new primary has it.
  std::string End() {
    std::string wrong = crowd_.Stop();
    if (wrong.empty()) wrong = crowd_.CheckAll();
    if (!wrong.empty()) return wrong;
    for (const char* key : {kHeldAlone, kHeldBefore}) {
      grpc::Status status;
      const bool answered = BecomesTrue([&] {
        status = Complete(fleet_, 0, key);
        return IsAnswered(status);
      });
      if (!answered || !status.ok()) {
        return "an owner on the new primary: " + status.error_message();
      }
    }
    return {};
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

  grpc::Status Reserve(const Fleet& fleet, size_t server, const std::string& key,
                       v1::ReserveResponse* response) const {
    grpc::ClientContext context;
    GiveUpAfter(kAskSeconds, &context);
    return v1::IdempotencyService::NewStub(fleet.Channel(server))
        ->Reserve(&context, ReserveFor(kNamespace, key, "its owner", kLeaseSeconds), response);
  }

  grpc::Status Complete(const Fleet& fleet, size_t server, const std::string& key) const {
    grpc::ClientContext context;
    GiveUpAfter(kAskSeconds, &context);
    v1::CompleteResponse response;
    return v1::IdempotencyService::NewStub(fleet.Channel(server))
        ->Complete(&context, CompleteFor(kNamespace, key, tokens_.at(key), "done"), &response);
  }

  // By a server that will be left behind, so that it has served before.
  std::string Hold(const std::string& key) {
    grpc::Status status;
    BecomesTrue([&] {
      v1::ReserveResponse response;
      status = Reserve(left_behind_, kCompleter, key, &response);
      tokens_[key] = response.lease().fencing_token();
      return status.ok();
    });
    return status.error_message();
  }

  bool SomebodyWaits() const {
    return primary_.Sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") !=
           "0\n";
  }

  // How many commits of records wait, which are what a call has asked for: not what a session does
  // of its own when it begins, and not what removes records.
  int WritesThatWait() const {
    return std::atoi(
        primary_.Sql(std::string("SELECT count(*) FROM pg_stat_activity ") + kWaitingWrites)
            .c_str());
  }

  // The session that a server had ended with the primary. What the next one does when it begins is
  // a commit, too, and waits: no call gets as far as a write of its own.
  std::string TakesNoSession() {
    v1::ReserveResponse response;
    std::string wrong = AsksInVain(
        "Reserve", [&] { return Reserve(left_behind_, kReserver, "alone", &response); },
        [&](const grpc::Status&) { return SomebodyWaits(); });
    if (!wrong.empty()) return wrong;
    return AsksInVain(
        "Complete", [&] { return Complete(left_behind_, kCompleter, kHeldAlone); },
        [&](const grpc::Status&) { return SomebodyWaits(); });
  }

  // Where sessions stand, what waits is what was asked for.
  std::string TakesNoWrite(bool cancels) {
    std::string wrong = MakeSessionsStand();
    if (!wrong.empty()) return wrong;
    v1::ReserveResponse response;
    const auto reserve = [&] { return Reserve(left_behind_, kReserver, "before", &response); };
    const auto complete = [&] { return Complete(left_behind_, kCompleter, kHeldBefore); };
    wrong = AsksInVain("Reserve", reserve, [&](const grpc::Status& status) {
      return WritesThatWait() == 1 && IsLate(status);
    });
    if (!wrong.empty()) return wrong;
    wrong = AsksInVain("Complete", complete, [&](const grpc::Status& status) {
      return WritesThatWait() == 2 && IsLate(status);
    });
    if (!wrong.empty()) return wrong;
    // What does not wait any more is on this disk alone; and whoever asks again is not told of it.
    primary_.Sql(std::string("SELECT pg_") + (cancels ? "cancel" : "terminate") +
                 "_backend(pid) FROM pg_stat_activity " + kWaitingWrites);
    if (!BecomesTrue([&] { return WritesThatWait() == 0; })) return "a wait does not end";
    wrong =
        AsksInVain("Reserve again", reserve, [&](const grpc::Status&) { return SomebodyWaits(); });
    if (!wrong.empty()) return wrong;
    return AsksInVain("Complete again", complete,
                      [&](const grpc::Status&) { return SomebodyWaits(); });
  }

  // For a while the old primary has a standby, and then none again. That it serves with one says
  // also that nothing else has kept it from doing so.
  std::string MakeSessionsStand() {
    const PostgresServer stand_in(primary_, kStandby);
    for (size_t i = 0; i < left_behind_.size(); ++i) {
      const bool served = BecomesTrue([&] {
        v1::ReserveResponse response;
        return Reserve(left_behind_, i, "served by " + std::to_string(i), &response).ok();
      });
      if (!served) return "the old primary serves nobody, with a standby either";
    }
    return {};
  }

  // As long as its write waits nobody knows what becomes of it, so that there is nothing to say
  // until the caller gives up.
  static bool IsLate(const grpc::Status& status) {
    return status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
  }

  // Until it is seen that it waits: "" or what is wrong. No try may be answered. UNAVAILABLE is no
  // answer: it is what whoever reads a record is told where no session begins, and where a write is
  // in doubt that cannot be fenced; and to ask the same again does no harm.
  template <typename Ask, typename Waits>
  std::string AsksInVain(const std::string& what, const Ask& ask, const Waits& waits) {
    grpc::Status status;
    const bool decided = BecomesTrue([&] {
      status = ask();
      return IsAnswered(status) || waits(status);
    });
    if (status.ok()) return what + ": acknowledged by a primary that was given up";
    if (IsAnswered(status)) return what + ": " + status.error_message();
    return decided ? "" : what + ": no commit waits for the standby";
  }

  PostgresServer primary_;
  PostgresServer standby_;
  const std::string primary_uri_;
  Fleet fleet_;
  Fleet left_behind_;
  Crowd crowd_;
  // Of the keys that a server was granted that is left behind.
  std::map<std::string, uint64_t> tokens_;
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
    if (wrong.empty())
      wrong = failover.OldPrimaryAcknowledgesNothing((settings.seed + number / 2) % 2 == 0);
    if (wrong.empty()) wrong = failover.End();
    wrong.empty() ? tally.Passed() : tally.Failed(failover.Why(wrong));
    std::printf("%" PRIu64 " acknowledged calls, %zu operations; acknowledged again %" PRIu64
                " ms after the promotion\n",
                failover.crowd().acknowledged(), failover.crowd().facts(), Ms(failover.recovery()));
  }
  return tally.Summary("failovers");
}

void PrintNoticed(const std::string& noticed, const std::string& otherwise) {
  std::printf("%s\n", !noticed.empty() ? ("noticed: " + noticed).c_str()
                                       : ("FAILED: not noticed; " + otherwise).c_str());
}

// Whether it is noticed that a standby that was not waited for has lost something, and that the old
// primary acknowledges without one.
int Control(const Settings& settings) {
  Failover failover(settings.seed, false);
  std::string wrong = failover.Begin();
  if (wrong.empty()) wrong = failover.CutOffStandby();
  if (wrong.empty()) wrong = failover.KillAndPromote();
  const bool over = wrong.empty() || failover.crowd().somebody_broke();
  const std::string acknowledges =
      over ? failover.OldPrimaryAcknowledgesNothing(true) : std::string();
  PrintNoticed(acknowledges, wrong);
  const std::string lost = over ? failover.End() : std::string();
  PrintNoticed(lost, wrong);
  const int failed = (acknowledges.empty() ? 1 : 0) + (lost.empty() ? 1 : 0);
  std::printf("%d passed, %d failed\n", 2 - failed, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace idempotency::proof

int main(int argc, char** argv) {
  using namespace idempotency::proof;
  const Settings settings =
      ReadSettings(argc, argv, kUsage, {.floor = 6, .others = {{"control", ""}}});
  return settings.has("control") ? Control(settings) : Prove(settings);
}
