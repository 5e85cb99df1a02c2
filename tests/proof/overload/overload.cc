// Ten times of what the server can serve, between times when it has as much to do as it can: how
// much of it is still served in time, how the others are refused, whether holders can finish, how
// soon all is as before, and whether everything acknowledged is there, also after a kill. The
// server's disk is slow, so that it is the disk that everybody waits for, and not the processors,
// which client and server share.
#include <stdlib.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/proof/crash/daemon.h"
#include "tests/proof/crash/program.h"
#include "tests/proof/overload/callers.h"
#include "tests/proof/overload/judge.h"
#include "tests/support/temp_directory.h"

namespace idempotency::proof {
namespace {

constexpr char kUsage[] =
    "usage: idempotency_overload [--seed=N] [--floor=N] [--seconds=N] [--queue=N]\n"
    "                            [--sync_ms=N] [--small] [--control]\n"
    "\n"
    "Overloads idempotencyd, again and again, and compares with what it does between.\n"
    "IDEMPOTENCYD in the environment names another binary than the one beside this program.\n"
    "\n"
    "  --seed=N      of the keys (1)\n"
    "  --floor=N     fewer rounds than this are a failure (3)\n"
    "  --seconds=N   go on for so long (PROOF_SECONDS in the environment); else until the floor\n"
    "  --queue=N     max_queued_commands of the server; it admits Reserves to 10/16 of it (256,\n"
    "                of --control 1,024)\n"
    "  --sync_ms=N   how long the server's disk takes over a sync (250)\n"
    "  --small       one short round of a short queue; of its goodput nothing is asked\n"
    "  --control     a queue without a bound, and callers who do not say how long they listen: "
    "not\n"
    "                to notice is the failure\n";

// Of the crowd to those who are admitted at once, and of what it asks for to what can be served.
constexpr size_t kTimes = 10;
constexpr size_t kConnections = 8;
// A short round has few callers, who listen for as long as in a long one: under the sanitizers, on
// a busy machine, a process can call and be answered some thousand times a second, and a crowd that
// wants more of it is late whatever the server does.
constexpr size_t kQueue = 256;
constexpr size_t kSmallQueue = 32;
// The deadline of a Reserve, in the time that a full queue takes: within it is everybody who is
// admitted, and nobody who would be behind all the others.
constexpr double kDeadlineInQueues = 2;
constexpr double kLeastDeadlineMs = 150;
// As good as none: the longest that there may be.
constexpr size_t kUnbounded = 1'000'000;

struct Lengths {
  double warm_up = 1;  // seconds
  double normal = 2;
  double overload = 5;
  double after = 6;
};
constexpr Lengths kUsual{.warm_up = 1, .normal = 3, .overload = 6, .after = 6};
constexpr Lengths kSmall{.warm_up = 0.5, .normal = 1, .overload = 2, .after = 2.5};
// After the change from normal to overload, and back, what is measured settles.
constexpr size_t kSettleTenths = 10;

size_t NumberOf(const Settings& settings, const char* name, size_t otherwise) {
  const auto given = settings.others.find(name);
  return given == settings.others.end() ? otherwise
                                        : std::strtoull(given->second.c_str(), nullptr, 10);
}

class Overload {
 public:
  Overload(const Settings& settings, size_t queue, bool bounded)
      : lengths_(settings.has("small") ? kSmall : kUsual),
        admitted_(queue - 3 * (queue / 8)),
        sync_ms_(NumberOf(settings, "sync_ms", 250)),
        bounded_(bounded),
        seed_(settings.seed),
        daemon_(Daemon::Program(), Flags(bounded ? queue : kUnbounded)) {}

  // "" or why it cannot be.
  std::string Start() {
    setenv("LD_PRELOAD", BesideThis("idempotency_slow_sync.so").c_str(), 1);
    setenv("SLOW_SYNC_MS", std::to_string(sync_ms_).c_str(), 1);
    std::string wrong = daemon_.Start();
    unsetenv("LD_PRELOAD");
    unsetenv("SLOW_SYNC_MS");
    if (!wrong.empty()) return wrong;
    std::vector<std::shared_ptr<grpc::Channel>> channels;
    for (size_t i = 0; i < kConnections; ++i) channels.push_back(daemon_.Connect());
    callers_ = std::make_unique<Callers>(channels, seed_, (1 + kTimes) * admitted_);
    callers_->SetDeadline(5000);
    callers_->Work(0, admitted_, lengths_.warm_up);
    const Phase normal = Normal(lengths_.normal);
    const double most = GoodPerSecond(normal, 0, SIZE_MAX);
    if (most <= 0) return "nothing is answered";
    const double deadline_ms = std::max(
        kDeadlineInQueues * static_cast<double>(admitted_) / most * 1000, kLeastDeadlineMs);
    callers_->SetDeadline(deadline_ms, !bounded_);
    // However long they are told to stay away: each comes so often that all make ten times of it.
    const double away = static_cast<double>(admitted_) / most;
    callers_->SetImpatience(away);
    std::printf(
        "normal %.0f/s with %zu callers; overload: %zu callers, deadline %.0f ms, back after %.0f "
        "ms\n",
        most, admitted_, kTimes * admitted_, deadline_ms, away * 1000);
    return "";
  }

  Round Next() {
    Round round;
    const Phase before = Normal(lengths_.normal);
    round.normal_before = GoodPerSecond(before, 0, SIZE_MAX);
    const double normal_p99_ms = Percentile(GoodMs(before, 0, SIZE_MAX), 99);
    const Phase overload =
        Watched(callers_->Work(admitted_, kTimes * admitted_, lengths_.overload));
    round.overload = GoodPerSecond(overload, kSettleTenths, SIZE_MAX);
    round.refused_per_second = RefusedPerSecond(overload, kSettleTenths, SIZE_MAX);
    round.good_p99_ms = Percentile(GoodMs(overload, kSettleTenths, SIZE_MAX), 99);
    round.refused_p99_ms = Percentile(RefusedMs(overload, kSettleTenths, SIZE_MAX), 99);
    round.finished = overload.finished;
    round.without_retry_info = overload.without_retry_info;
    round.longest_delay_seconds = overload.longest_delay_seconds;
    for (const Tenth& tenth : overload.tenths) {
      round.late_per_second += static_cast<double>(tenth.late) / lengths_.overload;
    }
    round.offered_per_second = round.overload + round.refused_per_second + round.late_per_second;
    const Phase after = Normal(lengths_.after);
    round.recovery_seconds = RecoverySeconds(after, round.normal_before, normal_p99_ms);
    round.normal_after = GoodPerSecond(after, after.tenths.size() / 2, SIZE_MAX);
    return round;
  }

  // After a kill everything that was acknowledged is there.
  std::string Finish() {
    callers_->Finish();
    daemon_.Kill();
    std::string wrong = daemon_.Start();
    return wrong.empty() ? callers_->Check(daemon_.Connect()) : wrong;
  }

  size_t facts() const { return callers_->facts(); }
  const std::vector<std::string>& wrong() const { return wrong_; }

 private:
  std::vector<std::string> Flags(size_t queue) const {
    std::ofstream(directory_.file("config.yaml"))
        << "unlisted_namespaces: ALLOW\nlimits:\n  max_queued_commands: " << queue << "\n";
    return {"--data_dir=" + directory_.file("store"), "--config=" + directory_.file("config.yaml"),
            "--ballast_mb=0"};
  }

  Phase Normal(double seconds) { return Watched(callers_->Work(0, admitted_, seconds)); }
  Phase Watched(Phase phase) {
    wrong_.insert(wrong_.end(), phase.wrong.begin(), phase.wrong.end());
    return phase;
  }

  const Lengths lengths_;
  const size_t admitted_;
  const size_t sync_ms_;
  const bool bounded_;
  const uint64_t seed_;
  const TempDirectory directory_;
  Daemon daemon_;
  std::unique_ptr<Callers> callers_;
  std::vector<std::string> wrong_;
};

void Print(const Round& round) {
  std::printf(
      "normal %6.0f/s, offered %6.0f/s, served %6.0f/s (%.2f), refused %5.0f/s, late %5.0f/s, p99 "
      "served %4.0f "
      "ms, refused %4.0f ms, longest delay %.1f s, finished %llu, recovery %.1f s\n",
      (round.normal_before + round.normal_after) / 2, round.offered_per_second, round.overload,
      Ratio(round), round.refused_per_second, round.late_per_second, round.good_p99_ms,
      round.refused_p99_ms, round.longest_delay_seconds,
      static_cast<unsigned long long>(round.finished), round.recovery_seconds);
  std::fflush(stdout);
}

// Without a bound four crowds are needed before somebody is late: a batch takes a thousand.
size_t QueueOf(const Settings& settings) {
  return NumberOf(settings, "queue",
                  settings.has("control") ? 1024 : (settings.has("small") ? kSmallQueue : kQueue));
}

int Prove(const Settings& settings) {
  Tally tally(settings);
  Overload overload(settings, QueueOf(settings), true);
  std::string wrong = overload.Start();
  std::vector<Round> rounds;
  while (wrong.empty() && overload.wrong().empty() && tally.GoesOn()) {
    rounds.push_back(overload.Next());
    Print(rounds.back());
    tally.Passed();
  }
  for (const std::string& complaint : overload.wrong()) tally.Failed(complaint);
  // So short a round says nothing of rates, and a test does not go by them.
  if (wrong.empty() && !settings.has("small")) {
    for (const std::string& complaint : Judge(rounds)) tally.Failed(complaint);
  }
  if (settings.has("small")) {
    for (const Round& round : rounds) {
      if (round.refused_per_second <= 0) tally.Failed("nobody was refused");
      if (round.without_retry_info > 0) tally.Failed("a refusal without RetryInfo");
      if (round.finished == 0) tally.Failed("no holder could finish");
    }
  }
  if (wrong.empty()) wrong = overload.Finish();
  if (!wrong.empty()) tally.Failed(wrong);
  std::printf("%zu acknowledged facts looked for after a kill\n", overload.facts());
  return tally.Summary("rounds");
}

int Control(const Settings& settings) {
  Overload overload(settings, QueueOf(settings), false);
  const std::string wrong = overload.Start();
  if (!wrong.empty()) {
    std::printf("FAILED: %s\n0 passed, 1 failed\n", wrong.c_str());
    return 1;
  }
  const Round round = overload.Next();
  Print(round);
  for (const std::string& complaint : Judge({round})) {
    if (complaint.find("goodput") == std::string::npos) continue;
    std::printf("noticed: %s\n1 passed, 0 failed\n", complaint.c_str());
    return 0;
  }
  std::printf("FAILED: a queue without a bound was not noticed\n0 passed, 1 failed\n");
  return 1;
}

}  // namespace
}  // namespace idempotency::proof

int main(int argc, char** argv) {
  using namespace idempotency::proof;
  const Settings settings = ReadSettings(
      argc, argv, kUsage,
      {.floor = 3, .others = {{"control", ""}, {"queue", ""}, {"small", ""}, {"sync_ms", ""}}});
  return settings.has("control") ? Control(settings) : Prove(settings);
}
