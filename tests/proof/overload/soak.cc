// A server that is used and left again, all the time: what it holds at the end is what it held
// once it was warm.
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "tests/bench/clock.h"
#include "tests/proof/crash/daemon.h"
#include "tests/proof/crash/program.h"
#include "tests/proof/overload/churn.h"
#include "tests/proof/overload/process.h"
#include "tests/proof/overload/steadiness.h"
#include "tests/support/temp_directory.h"

namespace idempotency::proof {
namespace {

constexpr char kUsage[] =
    "usage: idempotency_soak [--seed=N] [--floor=N] [--seconds=N] [--small] [--control]\n"
    "\n"
    "Connections, keys, streams, waits and configurations of idempotencyd come and go; its\n"
    "memory, threads and descriptors must stay, and its disk take no more than was written.\n"
    "IDEMPOTENCYD in the environment names another binary than the one beside this program.\n"
    "\n"
    "  --seed=N      of the clients' choices (1)\n"
    "  --floor=N     fewer rounds than this are a failure (60)\n"
    "  --seconds=N   go on for so long (PROOF_SECONDS in the environment); else for 60\n"
    "  --small       for a few seconds, in which memory and disk do not settle: they may grow "
    "more\n"
    "  --control     connections and operations that stay open: not to notice is the failure\n";

constexpr uint64_t kSeconds = 60;
constexpr uint64_t kSmallestMemtableMib = 1;
constexpr int64_t kSampleNanos = 250 * bench::kNanosPerMilli;

// --- What may grow between the second third and the last -----------------------------------------

// Two families of up to three memtables of 1 MiB, filled and flushed at their own times, and what
// the allocator keeps of pieces. A leak of 100 bytes an operation is more within a minute.
constexpr double kMemoryMib = 8;
// gRPC makes a thread where all are busy, and ends it when it was idle.
constexpr double kThreads = 2;
// Descriptors, of which a connection has two; some may be closing while they are counted.
constexpr double kConnections = 6;
// Tables of the store: each level has a few.
constexpr double kFiles = 16;
// What has expired stays on the disk for an hour (kReclaimMargin of
// keystore/engine/expiry_filter.h), so that it takes what the operations have left, compressed,
// which is less than the answers of half of them; and it is compacted in steps. Logs and tables
// that were never removed are several times that.
constexpr double kDiskMib = 24;
constexpr double kDiskBytesOfAnOperation = 500;
constexpr double kSmallTimes = 4;
constexpr size_t kEnoughSamples = 20;

constexpr char kConfig[] =
    "unlisted_namespaces: REFUSE\n"
    "namespaces:\n"
    "  short: {retention: 1s, max_retention: 1s, expired_memory: 1s}\n"
    "  kept: {retention: 24h}\n"
    "  rerun: {unknown_outcome: RERUN, retention: 1s, max_retention: 1s, expired_memory: 1s}\n";

struct Samples {
  std::vector<double> memory, threads, connections, files, disk, operations;

  void Add(const Holdings& holdings, double disk_mib, uint64_t operations_so_far) {
    operations.push_back(static_cast<double>(operations_so_far));
    memory.push_back(holdings.memory_mib);
    threads.push_back(holdings.threads);
    connections.push_back(holdings.connections);
    files.push_back(holdings.files);
    disk.push_back(disk_mib);
  }

  // Memory and disk may grow so many times more.
  std::vector<std::string> Judge(double times) const {
    std::vector<std::string> wrong;
    for (std::string text :
         {Unsteady("memory (MiB)", memory, times * kMemoryMib),
          Unsteady("threads", threads, kThreads),
          Unsteady("connections", connections, kConnections), Unsteady("open files", files, kFiles),
          Unsteady("disk (MiB)", disk, times * kDiskMib + DiskOfOperations())}) {
      if (!text.empty()) wrong.push_back(std::move(text));
    }
    return wrong;
  }

  // MiB, between the two halves that are compared.
  double DiskOfOperations() const {
    const double more = LastMedian(operations) - FirstMedian(operations);
    return more * kDiskBytesOfAnOperation / (1024 * 1024);
  }

  void Print() const {
    std::printf(
        "warm -> end: memory %.1f -> %.1f MiB, threads %.0f -> %.0f, connections %.0f -> "
        "%.0f, files %.0f -> %.0f, disk %.1f -> %.1f MiB\n",
        FirstMedian(memory), LastMedian(memory), FirstMedian(threads), LastMedian(threads),
        FirstMedian(connections), LastMedian(connections), FirstMedian(files), LastMedian(files),
        FirstMedian(disk), LastMedian(disk));
  }
};

class Soak {
 public:
  Soak(const Settings& settings, bool hoards)
      : daemon_(Daemon::Program(),
                {"--data_dir=" + directory_.file("store"), "--ballast_mb=0",
                 "--memtable_mb=" + std::to_string(kSmallestMemtableMib), "--block_cache_mb=4",
                 "--log_level=warning", "--config=" + directory_.file("config.yaml")}),
        churn_(
            settings.seed, [this] { return daemon_.Connect(); }, hoards) {
    WriteConfig();
  }

  std::string Start() { return daemon_.Start(); }

  // "" or what is wrong.
  std::string Next() {
    const std::string wrong = churn_.Round();
    if (!wrong.empty()) return wrong;
    // Every other file is a wrong one, and changes nothing.
    WriteConfig();
    if (++rounds_ % 2 == 0)
      std::ofstream(directory_.file("config.yaml"), std::ios::app) << "x: y\n";
    daemon_.Signal(SIGHUP);
    const int64_t now = bench::MonotonicNanos();
    if (now - sampled_ < kSampleNanos) return "";
    sampled_ = now;
    samples_.Add(HoldingsOf(daemon_.pid()), SizeOf(directory_.file("store")), churn_.operations());
    return "";
  }

  std::string Finish() {
    daemon_.Signal(SIGTERM);
    const int code = daemon_.Wait();
    const std::string log = daemon_.Log();
    if (code != 0) return "exit code " + std::to_string(code) + "\n" + log;
    // One client at a time does not fill a queue: only a store that stalls is a reason.
    const bool stalled = log.find("writes to the store are held up") != std::string::npos;
    if (churn_.overloaded() > 0 && !stalled) return "OVERLOADED without a stall\n" + log;
    return "";
  }

  const Samples& samples() const { return samples_; }
  uint64_t operations() const { return churn_.operations(); }
  uint64_t overloaded() const { return churn_.overloaded(); }

 private:
  void WriteConfig() const { std::ofstream(directory_.file("config.yaml")) << kConfig; }

  const TempDirectory directory_;
  Daemon daemon_;
  Churn churn_;
  Samples samples_;
  uint64_t rounds_ = 0;
  int64_t sampled_ = 0;
};

// Always by time: it is the samples that prove something.
Settings ByTime(Settings settings) {
  if (settings.seconds == 0) settings.seconds = kSeconds;
  return settings;
}

int Prove(const Settings& settings) {
  Tally tally(settings);
  Soak soak(settings, false);
  std::string wrong = soak.Start();
  // However slow the machine is: there have to be enough samples to compare.
  while (wrong.empty() && (tally.GoesOn() || soak.samples().memory.size() < kEnoughSamples)) {
    wrong = soak.Next();
    if (wrong.empty()) tally.Passed();
  }
  if (wrong.empty()) {
    soak.samples().Print();
    for (const std::string& complaint :
         soak.samples().Judge(settings.has("small") ? kSmallTimes : 1))
      tally.Failed(complaint);
    wrong = soak.Finish();
  }
  if (!wrong.empty()) tally.Failed(wrong);
  std::printf("%llu operations, %llu told OVERLOADED while the store stalled\n",
              static_cast<unsigned long long>(soak.operations()),
              static_cast<unsigned long long>(soak.overloaded()));
  return tally.Summary("rounds");
}

int Control(const Settings& settings) {
  Tally tally(settings);
  Soak soak(settings, true);
  std::string wrong = soak.Start();
  while (wrong.empty() && tally.GoesOn()) {
    wrong = soak.Next();
    if (wrong.empty()) tally.Passed();
  }
  soak.samples().Print();
  const std::vector<std::string> complaints = soak.samples().Judge(1);
  const auto noticed = [&](const char* what) {
    return std::any_of(complaints.begin(), complaints.end(), [what](const std::string& complaint) {
      return complaint.rfind(what, 0) == 0;
    });
  };
  for (const std::string& complaint : complaints) std::printf("noticed: %s\n", complaint.c_str());
  if (wrong.empty() && noticed("connections grew") && noticed("memory (MiB) grew")) {
    std::printf("1 passed, 0 failed\n");
    return 0;
  }
  std::printf("FAILED: what was kept was not noticed %s\n0 passed, 1 failed\n", wrong.c_str());
  return 1;
}

}  // namespace
}  // namespace idempotency::proof

int main(int argc, char** argv) {
  using namespace idempotency::proof;
  const Settings settings = ByTime(
      ReadSettings(argc, argv, kUsage, {.floor = 60, .others = {{"control", ""}, {"small", ""}}}));
  return settings.has("control") ? Control(settings) : Prove(settings);
}
