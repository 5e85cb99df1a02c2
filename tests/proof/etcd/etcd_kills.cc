// Three members of etcd, of which the leader is killed with -9 or stopped again and again, a
// follower now and then, and two idempotencyd on them under the load of eight clients, one of which
// is killed now and then as well: every acknowledged fact is there in the end, whichever server is
// asked, no key is held twice, and calls are acknowledged soon after there is a new leader.
#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "keystore/clock.h"
#include "keystore/engine/etcd/etcd_client.h"
#include "tests/proof/crash/program.h"
#include "tests/proof/replicas/fleet.h"
#include "tests/support/becomes_true.h"
#include "tests/support/etcd_process.h"

namespace idempotency::proof {
namespace {

constexpr char kUsage[] =
    "usage: idempotency_etcd_kills [--seed=N] [--floor=N] [--seconds=N] [--slow]\n"
    "\n"
    "Kills and stops the leader of an etcd of three members, and followers, under load, and "
    "checks\n"
    "what was acknowledged.\n"
    "\n"
    "  --seed=N      of the clients' choices (1)\n"
    "  --floor=N     fewer changes of the leader than this are a failure (20)\n"
    "  --seconds=N   go on for so long (PROOF_SECONDS in the environment); else until the floor\n"
    "  --slow        for a machine that does something else as well: how long it takes until "
    "calls\n"
    "                are acknowledged again is told, and not judged\n";

constexpr uint64_t kCallsBetween = 150;
constexpr int kStartTries = 5;
constexpr size_t kNobody = 99;
constexpr size_t kMajority = 2;
constexpr std::chrono::seconds kRecovery{5};

// What befalls whom.
enum class Blow : uint8_t {
  kKillLeader,
  kStopLeader,
  kStopFollower,
  kKillFollower,
  kKillLeaderAndServer,
};

// In turn; three of five change the leader.
Blow BlowOf(int number) { return static_cast<Blow>(number % 5); }
bool HitsLeader(Blow blow) {
  return blow == Blow::kKillLeader || blow == Blow::kStopLeader ||
         blow == Blow::kKillLeaderAndServer;
}
bool Stops(Blow blow) { return blow == Blow::kStopLeader || blow == Blow::kStopFollower; }

class Proof {
 public:
  explicit Proof(const Settings& settings)
      : settings_(settings),
        etcd_(3, {"--heartbeat-interval=50", "--election-timeout=500"}),
        fleet_(2, {"--engine=etcd", "--etcd_endpoints=" + etcd_.endpoints_flag(),
                   "--log_level=error"}),
        crowd_(settings.seed, &fleet_) {
    for (size_t i = 0; i < etcd_.size(); ++i) {
      keystore::EtcdOptions one;
      one.endpoints = {etcd_.member(i).endpoint()};
      members_.push_back(*keystore::EtcdClient::Open(one, [](int, std::string_view) {}));
    }
  }

  int Run() {
    Tally tally(settings_);
    std::string wrong = AwaitLeader() == kNobody ? WithoutLeader() : StartServer(0);
    if (wrong.empty()) wrong = StartServer(1);
    if (wrong.empty()) {
      crowd_.Start();
      for (int number = 0; wrong.empty() && tally.GoesOn(); ++number) {
        wrong = Strike(BlowOf(number), &tally);
      }
      const std::string broken = crowd_.Stop();
      if (!broken.empty()) wrong = broken;
    }
    if (wrong.empty()) wrong = crowd_.CheckAll();
    if (wrong.empty()) wrong = JudgeRecoveries();
    if (!wrong.empty()) tally.Failed(wrong);
    std::printf("%" PRIu64 " acknowledged calls, %zu operations, %d followers killed or stopped\n",
                crowd_.acknowledged(), crowd_.facts(), followers_);
    return tally.Summary("changes of the leader");
  }

 private:
  // Once the load has got on; and waits until it gets on again.
  std::string Strike(Blow blow, Tally* tally) {
    if (!crowd_.AwaitCalls(kCallsBetween)) return "nothing is acknowledged any more";
    const size_t leader = AwaitLeader();
    if (leader == kNobody) return WithoutLeader();
    const size_t victim = HitsLeader(blow) ? leader : (leader + 1) % etcd_.size();
    const size_t server = victim % fleet_.size();
    down_ = victim;
    Stops(blow) ? etcd_.member(victim).Freeze() : etcd_.member(victim).Kill();
    if (blow == Blow::kKillLeaderAndServer) fleet_.Kill(server);
    std::string wrong = HitsLeader(blow) ? AwaitRecovery(leader) : std::string();
    if (wrong.empty() && !crowd_.AwaitCalls(kCallsBetween)) {
      wrong = "two of three members acknowledge nothing";
    }
    down_ = kNobody;
    Stops(blow) ? etcd_.member(victim).Thaw() : etcd_.member(victim).Start();
    if (!wrong.empty()) return wrong;
    HitsLeader(blow) ? tally->Passed() : static_cast<void>(++followers_);
    return blow == Blow::kKillLeaderAndServer ? StartServer(server) : std::string();
  }

  // From when another member leads until a call is acknowledged.
  std::string AwaitRecovery(size_t before) {
    const size_t now = AwaitLeader();
    if (now == kNobody) return "two of three members have no leader";
    if (now == before) return "the leader is as before";
    const auto begin = keystore::ReadElapsed();
    if (!crowd_.AwaitCalls(1)) return "a new leader, and nothing is acknowledged";
    recoveries_.push_back(keystore::ReadElapsed() - begin);
    return {};
  }

  // A machine that stands still for a moment is no fault: one in ten may take longer.
  std::string JudgeRecoveries() {
    if (recoveries_.empty()) return {};
    std::sort(recoveries_.begin(), recoveries_.end());
    const auto ms = [](std::chrono::nanoseconds span) {
      return std::chrono::duration_cast<std::chrono::milliseconds>(span).count();
    };
    const auto late = std::count_if(recoveries_.begin(), recoveries_.end(),
                                    [](std::chrono::nanoseconds span) { return span > kRecovery; });
    std::printf("acknowledged again after a new leader: median %td ms, at most %td ms\n",
                ms(recoveries_[recoveries_.size() / 2]), ms(recoveries_.back()));
    const bool too_late = static_cast<size_t>(late) * 10 > recoveries_.size();
    if (!too_late || settings_.has("slow")) return {};
    return std::to_string(late) + " of " + std::to_string(recoveries_.size()) +
           " times nothing was acknowledged within 5 s of a new leader";
  }

  // Who leads, as two members say; kNobody: none, for minutes.
  size_t AwaitLeader() {
    size_t leader = kNobody;
    BecomesTrue([&] {
      leader = AgreedLeader();
      return leader != kNobody;
    });
    return leader;
  }

  std::string WithoutLeader() {
    std::string wrong = "etcd has no leader; its members say:";
    for (size_t i = 0; i < etcd_.size(); ++i) wrong += "\n" + etcd_.member(i).Log();
    return wrong;
  }

  // One that was stopped believes for a moment that it leads: the others do not.
  size_t AgreedLeader() {
    std::map<uint64_t, size_t> votes;
    std::map<uint64_t, size_t> members;
    for (size_t i = 0; i < members_.size(); ++i) {
      if (i == down_) continue;
      const auto status = members_[i]->StatusNow();
      if (!status.ok()) continue;
      ++votes[status->leader()];
      members[status->header().member_id()] = i;
    }
    for (const auto& [id, count] : votes) {
      if (count >= kMajority && members.count(id) != 0) return members[id];
    }
    return kNobody;
  }

  // A server that finds no leader ends: whoever watches over it starts it again.
  std::string StartServer(size_t which) {
    std::string wrong;
    for (int tries = 0; tries < kStartTries; ++tries) {
      wrong = fleet_.Start(which);
      if (wrong.empty() || AwaitLeader() == kNobody) break;
      fleet_.Kill(which);
    }
    return wrong;
  }

  const Settings settings_;
  EtcdCluster etcd_;
  std::vector<std::unique_ptr<keystore::EtcdClient>> members_;
  Fleet fleet_;
  Crowd crowd_;
  // A member that is killed or stopped now.
  size_t down_ = kNobody;
  int followers_ = 0;
  std::vector<std::chrono::nanoseconds> recoveries_;
};

}  // namespace
}  // namespace idempotency::proof

int main(int argc, char** argv) {
  using namespace idempotency::proof;
  return Proof(ReadSettings(argc, argv, kUsage, {.floor = 20, .others = {{"slow", ""}}})).Run();
}
