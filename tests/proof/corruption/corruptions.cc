// Damage at rest: one file of a closed or crashed store is flipped, cut, zeroed or deleted, and the
// store is opened again. Every answer is right, or the store is refused, or the key is DATA_LOSS;
// nothing that is older than the watermark is gone without a word.
#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "keystore/engine/rocksdb_engine.h"
#include "keystore/engine/watermark.h"
#include "tests/proof/crash/hostile_disk.h"
#include "tests/proof/crash/program.h"
#include "tests/proof/crash/workload.h"
#include "tests/proof/sim/random.h"
#include "tests/support/copy_directory.h"
#include "tests/support/temp_directory.h"

namespace idempotency::proof {
namespace {

namespace fs = std::filesystem;

constexpr char kUsage[] =
    "usage: idempotency_corruptions [--seed=N] [--floor=N] [--seconds=N] [--jobs=N] [--control]\n"
    "\n"
    "Damages stores at random, and checks that they answer rightly or say what is wrong.\n"
    "\n"
    "  --seed=N      where to begin (1)\n"
    "  --floor=N     fewer corruptions than this are a failure (2,000)\n"
    "  --seconds=N   go on for so long (PROOF_SECONDS in the environment); else until the floor\n"
    "  --jobs=N      how many stores at once (one a processor)\n"
    "  --control     with watermarks that promise nothing: no silent loss is the failure\n";

constexpr size_t kMemtableBytes = size_t{64} * 1024;
constexpr uint64_t kCorruptionsPerStore = 25;
constexpr uint64_t kPageBytes = 4096;

keystore::RocksDbOptions Options(const std::string& data_dir, HostileDisk& disk, core::Now now,
                                 bool log_ahead) {
  keystore::RocksDbOptions options;
  options.engine.data_dir = data_dir;
  options.engine.memtable_bytes = kMemtableBytes;
  options.engine.block_cache_bytes = 1 << 20;
  options.engine.ballast_bytes = 0;
  options.engine.min_free_bytes = 0;
  options.engine.log_ahead_bytes = log_ahead ? kMemtableBytes / 4 : 0;
  options.engine.now = [now] { return now; };
  options.check_guards = false;
  options.env = disk.env();
  options.watermark_interval = core::Duration::zero();
  return options;
}

// A store that has lived for a while, as a crash or a clean end leaves it.
class Original {
 public:
  explicit Original(uint64_t seed)
      : log_ahead_(seed % 2 == 0),
        random_(seed),
        workload_(seed ^ 0x5eed),
        disk_(directory_.path()) {}

  // "" or what went wrong.
  std::string Make() {
    const keystore::RocksDbOptions options =
        Options(directory_.file("store"), disk_, workload_.now(), log_ahead_);
    const uint64_t runs = 1 + random_.Below(3);
    for (uint64_t run = 1; run <= runs; ++run) {
      auto engine = keystore::RocksDbEngine::Open(options);
      if (!engine.ok()) return std::string(engine.status().message());
      if (!Work(**engine)) return "a commit failed";
      const bool crashes = run == runs && random_.OneIn(2);
      if (crashes) Crash();
      engine->reset();
      // What is closed has promised everything.
      if (!crashes) workload_.Promised();
      if (run == runs) kept_ = directory_.file(crashes ? "crashed" : "store");
    }
    return {};
  }

  void CopyTo(const std::string& path) const { CopyLiveDirectory(kept_, path); }
  const Workload& workload() const { return workload_; }
  bool log_ahead() const { return log_ahead_; }

 private:
  // From here on nothing changes any more, as after kill -9.
  void Crash() {
    disk_.SetJudge([](DiskCall call, const std::string&) {
      const bool stopped = Changes(call);
      return stopped ? DiskVerdict{.status = rocksdb::IOStatus::IOError("killed")} : DiskVerdict{};
    });
    CopyLiveDirectory(directory_.file("store"), directory_.file("crashed"));
  }

  bool Work(keystore::RocksDbEngine& engine) {
    for (uint64_t left = random_.Below(400); left > 0; --left) {
      if (!workload_.Commit(engine)) return false;
      if (random_.OneIn(10)) {
        if (!engine.SyncWatermark().ok()) return false;
        workload_.Promised();
      }
    }
    return true;
  }

  const bool log_ahead_;
  TempDirectory directory_;
  Random random_;
  Workload workload_;
  HostileDisk disk_;
  std::string kept_;
};

// What was done to which file.
struct Damage {
  std::string file;
  std::string what;
};

void Overwrite(const std::string& path, uint64_t offset, const std::string& bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(offset));
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void FlipBit(const std::string& path, uint64_t bit) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(bit / 8));
  const char byte = static_cast<char>(file.get() ^ (1 << (bit % 8)));
  file.seekp(static_cast<std::streamoff>(bit / 8));
  file.put(byte);
}

std::string KindOf(const fs::path& path) {
  const std::string name = path.filename();
  if (path.extension() == ".log") return "WAL";
  if (path.extension() == ".sst") return "SST";
  if (name.rfind("MANIFEST", 0) == 0) return "MANIFEST";
  return name == "CURRENT" ? "CURRENT" : "";
}

// Logs and tables by turns with the two others, whatever their number.
fs::path DrawFile(const std::string& db, Random& random) {
  std::map<std::string, std::vector<fs::path>> kinds;
  for (const auto& entry : fs::directory_iterator(db)) {
    const std::string kind = KindOf(entry.path());
    if (!kind.empty() && entry.file_size() > 0) kinds[kind].push_back(entry.path());
  }
  auto kind = kinds.begin();
  std::advance(kind, static_cast<ptrdiff_t>(random.Below(kinds.size())));
  std::sort(kind->second.begin(), kind->second.end());
  return random.Any(kind->second);
}

Damage DamageOne(const std::string& db, Random& random) {
  const fs::path path = DrawFile(db, random);
  const uint64_t size = fs::file_size(path);
  Damage damage{.file = path.filename()};
  switch (random.Below(4)) {
    case 0: {
      const uint64_t bit = random.Below(size * 8);
      FlipBit(path, bit);
      damage.what = "bit " + std::to_string(bit) + " of byte " + std::to_string(bit / 8);
      break;
    }
    case 1: {
      const uint64_t left = random.Below(size);
      fs::resize_file(path, left);
      damage.what = "cut to " + std::to_string(left);
      break;
    }
    case 2: {
      uint64_t begin = random.Below(size);
      if (random.OneIn(2)) begin -= begin % kPageBytes;
      const uint64_t bytes =
          std::min(size - begin,
                   random.OneIn(2) ? kPageBytes * (1 + random.Below(12)) : 1 + random.Below(size));
      Overwrite(path, begin, std::string(bytes, '\0'));
      damage.what = std::to_string(bytes) + " zeros at " + std::to_string(begin);
      break;
    }
    default:
      fs::remove(path);
      damage.what = "deleted";
  }
  damage.what += " of " + std::to_string(size) + " bytes";
  return damage;
}

// What came of it, counted by any thread.
class Outcomes {
 public:
  void Count(const fs::path& file, const std::string& what) {
    absl::MutexLock lock(&mutex_);
    ++counts_[KindOf(file) + " " + what];
  }
  void Print() const {
    absl::MutexLock lock(&mutex_);
    for (const auto& [what, count] : counts_) std::printf("%6" PRIu64 " %s\n", count, what.c_str());
  }

 private:
  mutable absl::Mutex mutex_;
  std::map<std::string, uint64_t> counts_ ABSL_GUARDED_BY(mutex_);
};

class Patient {
 public:
  Patient(const Original& original, uint64_t seed)
      : log_ahead_(original.log_ahead()),
        random_(seed),
        workload_(original.workload()),
        disk_(directory_.path()) {
    original.CopyTo(directory_.file("store"));
  }

  // From here on the store has promised nothing.
  bool ForgetPromise() {
    keystore::WatermarkFile file(directory_.file("store/WATERMARK"));
    auto loaded = file.Load();
    if (!loaded.ok() || !loaded->has_value()) return false;
    keystore::Watermark watermark = **loaded;
    watermark.sequence = watermark.wal_last = watermark.manifest.bytes = watermark.manifest.crc = 0;
    return file.Store(watermark).ok();
  }

  // "" or what is wrong.
  std::string Examine(Outcomes& outcomes) {
    damage_ = DamageOne(directory_.file("store/db"), random_);
    keystore::RocksDbOptions options =
        Options(directory_.file("store"), disk_, workload_.now(), log_ahead_);
    std::string wrong;
    bool unreadable = false;
    auto engine = keystore::RocksDbEngine::Open(options);
    if (engine.ok()) {
      wrong = workload_.Check(**engine, {.since_promised = true, .unreadable = true});
      unreadable = wrong.rfind("cannot be ", 0) == 0;
      outcomes.Count(damage_.file, unreadable ? "not readable" : "opened");
      engine->reset();
    } else {
      outcomes.Count(damage_.file, "refused");
      wrong = Accept(options, engine.status());
    }
    // To say that it cannot be read is right.
    if (wrong.empty() || unreadable) return {};
    return damage_.file + ", " + damage_.what + ": " + wrong;
  }

 private:
  // Where the refusal says how, the loss can be accepted: nothing is pending then, and no token
  // comes again.
  std::string Accept(keystore::RocksDbOptions& options, const absl::Status& refusal) {
    const std::string message(refusal.message());
    const std::string flag = "--accept_loss=";
    const size_t at = message.find(flag);
    if (at == std::string::npos) return {};
    options.engine.accept_loss = std::stoull(message.substr(at + flag.size()));
    auto engine = keystore::RocksDbEngine::Open(options);
    // Damaged beyond what can be opened at all: it says so once more.
    if (!engine.ok()) return {};
    return workload_.CheckAccepted(**engine);
  }

  const bool log_ahead_;
  TempDirectory directory_;
  Random random_;
  Workload workload_;
  HostileDisk disk_;
  Damage damage_;
};

// All that is done to one store.
void ProveOne(uint64_t seed, Outcomes& outcomes, Tally& tally) {
  Original original(seed);
  if (std::string wrong = original.Make(); !wrong.empty()) {
    return tally.Failed("seed " + std::to_string(seed) + ": " + wrong);
  }
  for (uint64_t i = 0; i < kCorruptionsPerStore && tally.GoesOn(); ++i) {
    const std::string wrong = Patient(original, seed * 1000 + i).Examine(outcomes);
    if (wrong.empty()) {
      tally.Passed();
    } else {
      tally.Failed(wrong + " (corruption " + std::to_string(i + 1) + "; again: --jobs=1 --seed=" +
                   std::to_string(seed) + " --floor=" + std::to_string(i + 1) + ")");
    }
  }
}

int Prove(const Settings& settings) {
  Tally tally(settings);
  Outcomes outcomes;
  InTurns(JobsOf(settings, Processors()), [&](uint64_t number) {
    ProveOne(settings.seed + number, outcomes, tally);
    return tally.GoesOn();
  });
  outcomes.Print();
  return tally.Summary("corruptions");
}

// Without the watermark RocksDB loses records without a word, and the check has to see it.
int Control(const Settings& settings) {
  Outcomes outcomes;
  for (uint64_t seed = settings.seed; seed < settings.seed + 40; ++seed) {
    Original original(seed);
    if (!original.Make().empty()) break;
    for (uint64_t i = 0; i < kCorruptionsPerStore; ++i) {
      Patient patient(original, seed * 1000 + i);
      if (!patient.ForgetPromise()) break;
      const std::string wrong = patient.Examine(outcomes);
      if (wrong.empty()) continue;
      std::printf("noticed in store %llu: %s\n1 passed, 0 failed\n",
                  static_cast<unsigned long long>(seed), wrong.c_str());
      return 0;
    }
  }
  std::printf("FAILED: no silent loss was noticed\n0 passed, 1 failed\n");
  return 1;
}

}  // namespace
}  // namespace idempotency::proof

int main(int argc, char** argv) {
  using namespace idempotency::proof;
  const Settings settings =
      ReadSettings(argc, argv, kUsage, {.floor = 2000, .others = {{"control", ""}, {"jobs", ""}}});
  PreferMemory();
  return settings.has("control") ? Control(settings) : Prove(settings);
}
