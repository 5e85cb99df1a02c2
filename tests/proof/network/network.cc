// The real server over a network that goes wrong, killed and drained under way: for every key there
// is an order of all calls that explains every answer.
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "keystore/clock.h"
#include "tests/proof/crash/daemon.h"
#include "tests/proof/crash/program.h"
#include "tests/proof/network/board.h"
#include "tests/proof/network/clients.h"
#include "tests/proof/network/orders.h"
#include "tests/proof/network/plant.h"
#include "tests/proof/network/site.h"
#include "tests/proof/sim/random.h"

namespace idempotency::proof::network {
namespace {

constexpr char kUsage[] =
    "usage: idempotency_network [--engine=E] [--servers=N] [--seed=N] [--floor=N] [--rate=N]\n"
    "                           [--seconds=N] [--control]\n"
    "\n"
    "Clients call idempotencyd through a proxy that drops, delays, cuts, resets and swallows, "
    "while\n"
    "it is killed, drained and started again; then every key's answers are put into an order that\n"
    "explains them. IDEMPOTENCYD in the environment names another binary than the one beside this\n"
    "program. Choices are the seed's; what meets what differs from run to run.\n"
    "\n"
    "  --engine=E    rocksdb (one server), etcd (three members) or postgres: then two or three\n"
    "                servers share it, any client asks any of them, one is stopped now and then, "
    "and\n"
    "                the store is killed as well (rocksdb)\n"
    "  --servers=N   2 or 3, where they share a store (3)\n"
    "  --seed=N      of all choices (1)\n"
    "  --floor=N     fewer answered calls than this are a failure (100000)\n"
    "  --rate=N      fewer answered calls a second of load than this are a failure (1000; 100\n"
    "                where several servers share a store)\n"
    "  --seconds=N   go on for so long (PROOF_SECONDS in the environment); else until the floor\n"
    "  --control     wrong answers planted in true histories, and a server that says that it "
    "syncs\n"
    "                and does not: not to notice one is the failure\n";

constexpr int kUnaryClients = 9;
constexpr int kPipelineClients = 3;
constexpr uint64_t kAnswersARound = 20'000;
constexpr absl::Duration kPatience = absl::Seconds(60);

double Seconds() { return static_cast<double>(keystore::ReadKernelTime().boot.count()) / 1000.0; }

// --- One round
// ------------------------------------------------------------------------------------

struct Round {
  std::string wrong;
  std::vector<KeyHistory> histories;
  uint64_t answers = 0;
  uint64_t lost = 0;
  std::map<std::string, uint64_t> met;
  std::map<std::string, uint64_t> unanswered;
  double seconds = 0;  // of load
};

// Disturbs it again and again until enough is answered.
std::string Disturb(Site& site, Board& board, uint64_t answers) {
  uint64_t next = 0;
  while (next < answers) {
    next = board.answers() + site.DrawPeace();
    if (!board.WaitForAnswers(std::min(next, answers), kPatience)) {
      return board.wrong().empty() ? "nothing is answered any more" : board.wrong();
    }
    if (next >= answers) continue;
    std::string wrong = site.Disturb(board);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

Round Play(Site& site, uint64_t seed, const std::string& name, uint64_t answers) {
  Board board({.name = name, .shared = site.shared()});
  std::atomic<bool> stop{false};
  std::vector<std::thread> clients;
  const double begin = Seconds();
  site.CalmDown(false);
  for (int i = 0; i < kUnaryClients + kPipelineClients; ++i) {
    const bool unary = i < kUnaryClients;
    const ClientOptions options{(unary ? "unary " : "pipeline ") + std::to_string(i),
                                Mix(seed + static_cast<uint64_t>(i)), site.ports(), &board, &stop};
    clients.emplace_back(
        [options, unary] { unary ? ServeUnary(options) : ServePipeline(options); });
  }
  Round round;
  round.wrong = Disturb(site, board, answers);
  round.seconds = Seconds() - begin;
  round.answers = board.answers();
  stop = true;
  for (std::thread& client : clients) client.join();
  site.CalmDown(true);
  if (round.wrong.empty()) {
    const ClientOptions options{"last look", seed, site.own_ports(), &board, &stop};
    if (!AskAll(options, board.LastLooks())) round.wrong = "a last look is not answered";
  }
  if (round.wrong.empty()) round.wrong = board.wrong();
  round.lost = board.lost();
  round.met = board.met();
  round.unanswered = board.unanswered();
  round.histories = board.Take();
  return round;
}

// --- Looking at what was told
// -----------------------------------------------------------------------

struct Totals {
  uint64_t calls = 0, answered = 0, keys = 0, trials = 0, lapses = 0, lost_effects = 0;
  uint64_t most_trials = 0;
};

// Calls `look` with every number below `count`, on as many threads as there are cores.
void InParallel(size_t count, const std::function<void(size_t)>& look) {
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back([&] {
      for (size_t at = next++; at < count; at = next++) look(at);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

uint64_t CallsThat(const KeyHistory& history, Ended ended) {
  return static_cast<uint64_t>(
      std::count_if(history.calls.begin(), history.calls.end(),
                    [ended](const Call& call) { return call.ended == ended; }));
}

void Check(const std::vector<KeyHistory>& histories, Tally& tally, Totals& totals) {
  std::vector<Verdict> verdicts(histories.size());
  InParallel(histories.size(), [&](size_t i) { verdicts[i] = FindOrder(histories[i]); });
  for (size_t i = 0; i < histories.size(); ++i) {
    const Verdict& verdict = verdicts[i];
    const uint64_t answered = CallsThat(histories[i], Ended::kAnswered);
    ++totals.keys;
    totals.calls += histories[i].calls.size();
    totals.answered += answered;
    totals.trials += verdict.trials;
    totals.most_trials = std::max(totals.most_trials, verdict.trials);
    totals.lapses += verdict.lapses;
    totals.lost_effects += verdict.lost_effects;
    if (verdict.wrong.empty()) {
      tally.Passed(answered);
    } else {
      tally.Failed(verdict.wrong);
    }
  }
}

// --- What must have been met
// ----------------------------------------------------------------------------

constexpr const char* kAnswers[] = {"reserve ACQUIRED",
                                    "reserve ALREADY_HELD",
                                    "reserve IN_PROGRESS",
                                    "reserve COMPLETED",
                                    "reserve UNRESOLVED",
                                    "reserve FINGERPRINT_MISMATCH",
                                    "reserve EXPIRED",
                                    "reserve TOO_OLD",
                                    "reserve ATTEMPT_FINISHED",
                                    "renew renewed",
                                    "renew LEASE_LAPSED",
                                    "renew ALREADY_COMPLETE",
                                    "renew STALE_FENCING_TOKEN",
                                    "renew UNKNOWN_FENCING_TOKEN",
                                    "renew OPERATION_NOT_FOUND",
                                    "complete COMPLETE",
                                    "complete FREED",
                                    "complete already",
                                    "complete ALREADY_COMPLETE",
                                    "complete STALE_FENCING_TOKEN",
                                    "complete ATTEMPT_FINISHED",
                                    "release FREED",
                                    "release UNRESOLVED",
                                    "release OUTCOME_UNKNOWN",
                                    "release ALREADY_COMPLETE",
                                    "release STALE_FENCING_TOKEN",
                                    "mark UNRESOLVED",
                                    "mark ALREADY_COMPLETE",
                                    "mark STALE_FENCING_TOKEN",
                                    "mark ATTEMPT_FINISHED",
                                    "get PENDING",
                                    "get COMPLETE",
                                    "get UNRESOLVED",
                                    "get EXPIRED",
                                    "get FREED",
                                    "get OPERATION_NOT_FOUND",
                                    "inspect PENDING",
                                    "inspect COMPLETE",
                                    "inspect UNRESOLVED",
                                    "inspect FREED",
                                    "resolve COMPLETE",
                                    "resolve FREED",
                                    "resolve LEASE_LIVE",
                                    "resolve NOT_SETTLED",
                                    "resolve WRONG_STATE",
                                    "delete deleted",
                                    "delete LEASE_LIVE",
                                    "delete WRONG_STATE",
                                    "namespace"};

// What this run has not met though it should have. Prints what it has.
std::string Missing(const std::map<std::string, uint64_t>& met, const Site& site,
                    const Totals& totals, uint64_t answers) {
  std::map<std::string, uint64_t> all = met;
  all.merge(site.met());
  all["order: lease or answer that ended"] = totals.lapses;
  all["order: lost reply of a call that took effect"] = totals.lost_effects;
  // The rarest of them comes once in 5,000 answers.
  constexpr uint64_t kEnoughForEach = 50'000;
  if (answers >= kEnoughForEach) {
    for (const char* answer : kAnswers) all[answer] += 0;
  }
  std::string missing;
  for (const auto& [what, count] : all) {
    std::printf("%8" PRIu64 "  %s\n", count, what.c_str());
    if (count == 0) missing += (missing.empty() ? "" : ", ") + what;
  }
  return missing;
}

void PrintUnanswered(const std::map<std::string, uint64_t>& unanswered) {
  for (const auto& [why, count] : unanswered) {
    std::printf("%8" PRIu64 "  not answered: %s\n", count, why.c_str());
  }
}

uint64_t NumberOf(const Settings& settings, const std::string& name, uint64_t otherwise) {
  const auto found = settings.others.find(name);
  return found == settings.others.end() ? otherwise
                                        : std::strtoull(found->second.c_str(), nullptr, 10);
}

// --- The runs
// -------------------------------------------------------------------------------------------

// What --engine names; RocksDB where it is not given.
std::optional<SiteOptions> WhatToStart(const Settings& settings) {
  SiteOptions options{.seed = settings.seed, .troubled = true};
  const auto engine = settings.others.find("engine");
  if (engine == settings.others.end() || engine->second == "rocksdb") return options;
  options.servers = NumberOf(settings, "servers", 3);
  if (options.servers < 2 || options.servers > 3) return std::nullopt;
  if (engine->second == "etcd") options.store = Store::kEtcd;
  if (engine->second == "postgres") options.store = Store::kPostgres;
  return options.store == Store::kRocksDb ? std::nullopt : std::optional(options);
}

int Prove(const Settings& settings, const SiteOptions& options) {
  Tally tally(settings);
  Site site(options);
  Totals totals;
  std::map<std::string, uint64_t> met, unanswered;
  uint64_t answers = 0, lost = 0;
  double seconds = 0;
  std::string wrong = site.Start();
  for (uint64_t number = 0; wrong.empty() && tally.GoesOn(); ++number) {
    const uint64_t left = settings.floor - std::min(settings.floor, tally.tried());
    const uint64_t enough = settings.seconds == 0 ? std::min(kAnswersARound, left) : kAnswersARound;
    const Round round =
        Play(site, Mix(settings.seed) + number * 1000, "round" + std::to_string(number), enough);
    wrong = round.wrong;
    answers += round.answers;
    seconds += round.seconds;
    lost += round.lost;
    for (const auto& [what, count] : round.met) met[what] += count;
    for (const auto& [why, count] : round.unanswered) unanswered[why] += count;
    if (wrong.empty()) Check(round.histories, tally, totals);
  }
  if (wrong.empty()) wrong = site.Drain(0);
  if (!wrong.empty()) tally.Failed(wrong);
  const std::string missing = Missing(met, site, totals, answers);
  if (!missing.empty()) tally.Failed("not met: " + missing);
  PrintUnanswered(unanswered);
  const double rate = seconds > 0 ? static_cast<double>(answers) / seconds : 0;
  std::printf(
      "%" PRIu64 " calls of %" PRIu64 " keys, %" PRIu64 " without an answer, over %" PRIu64
      " connections; %.0f answers/s of load; %" PRIu64 " trials, at most %" PRIu64 " for a key\n",
      totals.calls, totals.keys, lost, site.connections(), rate, totals.trials, totals.most_trials);
  const uint64_t least = NumberOf(settings, "rate", site.shared() ? 100 : 1000);
  if (rate < static_cast<double>(least)) {
    tally.Failed("fewer than " + std::to_string(least) + " answers a second");
  }
  return tally.Summary("answered calls");
}

constexpr uint64_t kControlAnswers = 6'000;
constexpr int kPlantsOfAKind = 40;
constexpr uint64_t kMaxLostInAPlant = 3;

// Whether every wrong answer of one kind is noticed.
bool Notices(const Plant& plant, const std::vector<KeyHistory>& histories, Random& random) {
  std::vector<KeyHistory> wrong;
  for (int i = 0; i < 100 * kPlantsOfAKind && wrong.size() < kPlantsOfAKind; ++i) {
    KeyHistory history = random.Any(histories);
    // To rule out every order takes long where much was lost.
    if (CallsThat(history, Ended::kLost) > kMaxLostInAPlant) continue;
    if (plant.put(random, history)) wrong.push_back(std::move(history));
  }
  std::vector<Verdict> verdicts(wrong.size());
  InParallel(wrong.size(), [&](size_t i) { verdicts[i] = FindOrder(wrong[i]); });
  const auto noticed = std::count_if(verdicts.begin(), verdicts.end(), [](const Verdict& verdict) {
    return !verdict.wrong.empty() && !verdict.undecided;
  });
  std::printf("%-24s noticed %td of %zu\n", plant.name.c_str(), noticed, wrong.size());
  for (size_t i = 0; i < wrong.size(); ++i) {
    if (!verdicts[i].wrong.empty() && !verdicts[i].undecided) continue;
    std::printf("not noticed: %s\n",
                verdicts[i].undecided ? verdicts[i].wrong.c_str() : wrong[i].key.c_str());
    return false;
  }
  return !wrong.empty();
}

// How many rounds it takes to notice a server that forgets at each kill; 0: it is not noticed.
int RoundsUntilNoticed(const Settings& settings) {
  // It does not notice by itself, either.
  Site site({.program = BesideThis("idempotency_forgetful_server"),
             .more_flags = {"--watermark_ms=0"},
             .seed = settings.seed,
             .blows = Blows::kKills});
  std::string wrong = site.Start();
  for (int round = 1; round <= 5 && wrong.empty(); ++round) {
    const Round played = Play(site, settings.seed + static_cast<uint64_t>(round),
                              "control" + std::to_string(round), kControlAnswers);
    wrong = played.wrong;
    for (const KeyHistory& history : played.histories) {
      const Verdict verdict = FindOrder(history);
      if (verdict.wrong.empty() || verdict.undecided) continue;
      std::printf("noticed in round %d:\n%s\n", round, verdict.wrong.c_str());
      return round;
    }
  }
  std::printf("a server that forgets: %s\n", wrong.empty() ? "not noticed" : wrong.c_str());
  return 0;
}

int Control(const Settings& settings) {
  int passed = 0, failed = 0;
  Random random(settings.seed, 3);
  std::vector<KeyHistory> histories;
  {
    Site site({.seed = settings.seed, .troubled = true});
    std::string wrong = site.Start();
    if (wrong.empty()) {
      Round round = Play(site, settings.seed, "true", kControlAnswers);
      wrong = round.wrong;
      histories = std::move(round.histories);
    }
    // What is wrong already would be noticed for that.
    for (const KeyHistory& history : histories) {
      if (wrong.empty()) wrong = FindOrder(history).wrong;
    }
    if (!wrong.empty()) std::printf("FAILED: %s\n", wrong.c_str());
    if (!wrong.empty()) histories.clear();
  }
  for (const Plant& plant : Plants()) {
    ++(!histories.empty() && Notices(plant, histories, random) ? passed : failed);
  }
  ++(RoundsUntilNoticed(settings) > 0 ? passed : failed);
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace idempotency::proof::network

int main(int argc, char** argv) {
  using namespace idempotency::proof;
  signal(SIGPIPE, SIG_IGN);
  const Settings settings =
      ReadSettings(argc, argv, network::kUsage,
                   {.floor = 100'000,
                    .others = {{"control", ""}, {"rate", ""}, {"engine", ""}, {"servers", ""}}});
  if (settings.has("control")) return network::Control(settings);
  const auto what = network::WhatToStart(settings);
  if (!what.has_value()) std::fprintf(stderr, "%s", network::kUsage);
  return what.has_value() ? network::Prove(settings, *what) : 2;
}
