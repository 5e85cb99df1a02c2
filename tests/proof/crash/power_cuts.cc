// Power cuts under the engine, at any call that changes the disk: in the middle of a commit, a
// flush, a compaction, an opening. Everything that was acknowledged is there afterwards, whatever
// else the disk has lost; nothing is shown that was not; tokens go on rising.
#include <atomic>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "keystore/engine/log_ahead.h"
#include "keystore/engine/rocksdb_engine.h"
#include "tests/proof/crash/hostile_disk.h"
#include "tests/proof/crash/program.h"
#include "tests/proof/crash/workload.h"
#include "tests/proof/sim/random.h"
#include "tests/support/temp_directory.h"

namespace idempotency::proof {
namespace {

namespace fs = std::filesystem;

constexpr char kUsage[] =
    "usage: idempotency_power_cuts [--seed=N] [--floor=N] [--seconds=N] [--jobs=N]\n"
    "                               [--keep=DIR] [--control]\n"
    "\n"
    "Cuts the power of a store's disk again and again, and checks what is left.\n"
    "\n"
    "  --seed=N      where to begin (1)\n"
    "  --floor=N     fewer cuts than this are a failure (5,000)\n"
    "  --seconds=N   go on for so long (PROOF_SECONDS in the environment); else until the floor\n"
    "  --jobs=N      how many stores at once (one a processor)\n"
    "  --keep=DIR    where to copy a store that broke a rule, as the cut has left it, and its log\n"
    "  --control     the disk only says that it syncs the log, or the epochs: not to notice that "
    "is\n"
    "                the failure\n";

constexpr size_t kMemtableBytes = size_t{64} * 1024;
// By turns: as many as fit, a page in front of most commits, none.
constexpr size_t kLogAheadBytes[] = {kMemtableBytes / 4, keystore::kMinLogAheadBytes, 0};
constexpr uint64_t kCutsPerStore = 25;
// Calls that change the disk: an opening takes about fifty, a commit two.
constexpr uint64_t kEarly = 80;
constexpr uint64_t kLate = 1500;

// Goes off at one call, and stays off.
class Power {
 public:
  void FailsAfter(uint64_t calls, bool half_done) {
    absl::MutexLock lock(&mutex_);
    left_ = calls;
    half_done_ = half_done;
    on_ = true;
  }
  bool on() const {
    absl::MutexLock lock(&mutex_);
    return on_;
  }
  DiskVerdict Judge(DiskCall call, const std::string& path) {
    absl::MutexLock lock(&mutex_);
    if (!Changes(call)) return {};
    // It goes off behind it instead, which leaves the same on the disk. Where the log cannot be
    // made while both families are full, RocksDB forgets that it holds one of them and ends in an
    // assertion when it is closed; the server does not close what has died (keystore/README.md).
    if (call == DiskCall::kCreate && path.ends_with(".log")) return {};
    const DiskVerdict failure{.status = rocksdb::IOStatus::IOError("the power is off")};
    if (!on_) return failure;
    if (left_-- > 0) return {};
    on_ = false;
    return {.status = failure.status, .half_done = half_done_};
  }

 private:
  mutable absl::Mutex mutex_;
  uint64_t left_ ABSL_GUARDED_BY(mutex_) = 0;
  bool half_done_ ABSL_GUARDED_BY(mutex_) = false;
  bool on_ ABSL_GUARDED_BY(mutex_) = true;
};

// One store and what happens to it.
class Story {
 public:
  // Syncs of files whose names end in `lies` do nothing; empty: all are true.
  explicit Story(uint64_t seed, const std::string& lies = "", const std::string& keep = "")
      : keep_(keep.empty() ? "" : keep + "/" + std::to_string(seed)),
        random_(seed),
        workload_(seed ^ 0xabcdef),
        disk_(directory_.path()) {
    disk_.LieAboutSyncs(lies);
    disk_.SetJudge(Judge());
    options_.engine.data_dir = directory_.file("store");
    options_.engine.memtable_bytes = kMemtableBytes;
    options_.engine.block_cache_bytes = 1 << 20;
    options_.engine.ballast_bytes = 0;
    options_.engine.min_free_bytes = 0;
    options_.engine.now = [this] { return now_; };
    if (!keep_.empty()) {
      fs::remove_all(keep_);
      fs::create_directories(keep_);
      options_.engine.log = [this](int, std::string_view line) { Note(line); };
    }
    options_.check_guards = false;
    options_.env = disk_.env();
    options_.watermark_interval = core::Duration::zero();
    now_ = workload_.now();
  }

  // Runs until the power fails, and lets it fail. "" or what is broken.
  std::string NextCut() {
    if (!keep_.empty()) {
      // As it is now it is opened next.
      fs::remove_all(keep_ + "/store");
      fs::copy(directory_.path(), keep_ + "/store", fs::copy_options::recursive);
      Note("--- the power is on again");
    }
    options_.engine.log_ahead_bytes = kLogAheadBytes[random_.Below(5) % std::size(kLogAheadBytes)];
    power_.FailsAfter(random_.Below(random_.OneIn(3) ? kEarly : kLate), random_.OneIn(2));
    std::string wrong = RunUntilCut();
    if (!wrong.empty()) return wrong;
    Note("--- the power fails");
    disk_.SetJudge({});
    disk_.PowerFails(random_);
    disk_.SetJudge(Judge());
    return wrong;
  }

  uint64_t operations() const { return workload_.operations(); }

  // Nothing broke it: nothing is kept.
  void Forget() const {
    if (!keep_.empty()) fs::remove_all(keep_);
  }

 private:
  DiskJudge Judge() {
    return [this](DiskCall call, const std::string& path) { return power_.Judge(call, path); };
  }

  void Note(std::string_view line) {
    if (keep_.empty()) return;
    absl::MutexLock lock(&log_mutex_);
    std::ofstream(keep_ + "/log", std::ios::app) << line << "\n";
  }

  std::string RunUntilCut() {
    absl::StatusOr<std::unique_ptr<keystore::RocksDbEngine>> engine =
        keystore::RocksDbEngine::Open(options_);
    if (!engine.ok()) {
      return power_.on() ? "does not open: " + std::string(engine.status().message()) : "";
    }
    std::string wrong = workload_.Check(**engine);
    if (!wrong.empty()) return power_.on() ? wrong : "";
    while (power_.on()) {
      if (random_.OneIn(20)) (void)(*engine)->SyncWatermark();
      const bool known = workload_.Commit(**engine);
      if (!known && power_.on()) return "a commit failed though the power was on";
      if (!workload_.broken().empty()) return workload_.broken();
      if (!known) break;
    }
    return {};
  }

  const std::string keep_;  // empty: nowhere
  absl::Mutex log_mutex_;
  TempDirectory directory_;
  Random random_;
  Workload workload_;
  core::Now now_;
  Power power_;
  HostileDisk disk_;
  keystore::RocksDbOptions options_;
};

// Until one cut breaks it. How many operations there were.
uint64_t ProveOne(uint64_t seed, const std::string& keep, Tally& tally) {
  Story story(seed, "", keep);
  bool broken = false;
  for (uint64_t cut = 0; cut < kCutsPerStore && tally.GoesOn(); ++cut) {
    const std::string wrong = story.NextCut();
    if (wrong.empty()) {
      tally.Passed();
      continue;
    }
    tally.Failed(wrong + " (cut " + std::to_string(cut + 1) + "; again: --jobs=1 --seed=" +
                 std::to_string(seed) + " --floor=" + std::to_string(cut + 1) + ")");
    broken = true;
    break;
  }
  if (!broken) story.Forget();
  return story.operations();
}

int Prove(const Settings& settings) {
  Tally tally(settings);
  std::atomic<uint64_t> operations{0};
  const std::string keep = settings.has("keep") ? settings.others.at("keep") : "";
  InTurns(JobsOf(settings, Processors()), [&](uint64_t number) {
    operations += ProveOne(settings.seed + number, keep, tally);
    return tally.GoesOn();
  });
  std::printf("%" PRIu64 " operations\n", operations.load());
  return tally.Summary("power cuts");
}

// A disk that lies has to be noticed, and soon.
bool IsNoticed(const Settings& settings, const std::string& lies) {
  for (uint64_t seed = settings.seed; seed < settings.seed + 20; ++seed) {
    Story story(seed, lies);
    for (uint64_t cut = 0; cut < kCutsPerStore; ++cut) {
      const std::string wrong = story.NextCut();
      if (wrong.empty()) continue;
      std::printf("%s: noticed at cut %llu of seed %llu: %s\n", lies.c_str(),
                  static_cast<unsigned long long>(cut + 1), static_cast<unsigned long long>(seed),
                  wrong.c_str());
      return true;
    }
  }
  std::printf("FAILED: a disk that does not sync %s was not noticed\n", lies.c_str());
  return false;
}

// The log, and what the epochs are written to.
int Control(const Settings& settings) {
  int noticed = 0;
  for (const char* lies : {".log", ".new"}) noticed += IsNoticed(settings, lies) ? 1 : 0;
  std::printf("%d passed, %d failed\n", noticed, 2 - noticed);
  return noticed == 2 ? 0 : 1;
}

}  // namespace
}  // namespace idempotency::proof

int main(int argc, char** argv) {
  using namespace idempotency::proof;
  const Settings settings = ReadSettings(
      argc, argv, kUsage, {.floor = 5000, .others = {{"control", ""}, {"jobs", ""}, {"keep", ""}}});
  PreferMemory();
  return settings.has("control") ? Control(settings) : Prove(settings);
}
