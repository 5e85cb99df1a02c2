// Every call that the engine and RocksDB make to the disk during a workload of 2,000 operations
// fails once, and in another run it and everything after it: with EIO, ENOSPC, or half a write.
// What was acknowledged is there afterwards, also where the power fails on top; after an error of
// the log nothing is acknowledged any more.
//
// Workers are processes of their own, so that one that dies of an assertion is a failure that has
// a name.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "keystore/engine/rocksdb_engine.h"
#include "tests/proof/crash/hostile_disk.h"
#include "tests/proof/crash/program.h"
#include "tests/proof/crash/workload.h"
#include "tests/proof/sim/random.h"
#include "tests/support/temp_directory.h"

namespace idempotency::proof {
namespace {

constexpr char kUsage[] =
    "usage: idempotency_io_faults [--seed=N] [--floor=N] [--all [--part=K/N]] [--jobs=N] "
    "[--case=N]\n"
    "                             [--control]\n"
    "\n"
    "Lets calls to the disk fail, one in each run of a workload, and checks what is left.\n"
    "\n"
    "  --seed=N     of the workload, and of which calls are tried (1)\n"
    "  --floor=N    how many runs (300); calls and faults are drawn\n"
    "  --all        every call with every fault that it can have, instead\n"
    "  --part=K/N   of --all, every Nth call only, beginning with the Kth\n"
    "  --jobs=N     how many at once (one a processor)\n"
    "  --case=N     only this one\n"
    "  --control    the disk does not sync the log: not to notice is the failure\n"
    "\n"
    "PROOF_SECONDS in the environment: goes on with the next seeds for so long.\n";

constexpr uint64_t kOperations = 2000;
constexpr size_t kMemtableBytes = size_t{64} * 1024;

struct Fault {
  const char* name;
  bool no_space;
  bool half;
  bool for_ever;
};
constexpr Fault kFaults[] = {
    {"EIO", false, false, false},           {"ENOSPC", true, false, false},
    {"short write", true, true, false},     {"EIO for ever", false, false, true},
    {"ENOSPC for ever", true, false, true}, {"short writes for ever", true, true, true},
};
constexpr uint64_t kFaultKinds = std::size(kFaults);

// Only a write can be half done.
bool Writes(DiskCall call) { return call == DiskCall::kAppend || call == DiskCall::kOverwrite; }

// The calls there were, and how many of them RocksDB did not make.
struct Calls {
  std::vector<DiskCall> all;
  uint64_t own = 0;
};

// Lets one call fail or, where there is no fault, notes them all.
class Saboteur {
 public:
  Saboteur(uint64_t call, const Fault* fault) : call_(call), fault_(fault) {}

  DiskVerdict Judge(DiskCall call, const std::string& path) {
    if (fault_ == nullptr) {
      Note(call, path);
      return {};
    }
    const uint64_t now = calls_++;
    if (now < call_ || (now > call_ && !fault_->for_ever)) return {};
    const bool writes = Writes(call);
    if (fault_->half && !writes && !struck_) {
      pointless_ = true;
      return {};
    }
    if (struck_.exchange(true) == false) what_ = Name(call) + " of " + path.substr(path.rfind('/'));
    return {.status = fault_->no_space ? rocksdb::IOStatus::NoSpace("planted")
                                       : rocksdb::IOStatus::IOError("planted"),
            .half_done = fault_->half && writes};
  }
  Calls noted() const {
    const absl::MutexLock lock(&mutex_);
    return noted_;
  }
  bool struck() const { return struck_; }
  // There is nothing to see in this run.
  bool pointless() const { return pointless_; }
  const std::string& what() const { return what_; }

 private:
  void Note(DiskCall call, const std::string& path) {
    const absl::MutexLock lock(&mutex_);
    noted_.all.push_back(call);
    if (path.find("/db") == std::string::npos) ++noted_.own;
  }
  static std::string Name(DiskCall call) {
    constexpr const char* kNames[] = {"create",         "append",        "overwrite", "sync",
                                      "truncate",       "close",         "rename",    "delete",
                                      "directory sync", "open for read", "read",      "look-up"};
    return kNames[static_cast<size_t>(call)];
  }

  const uint64_t call_;
  const Fault* const fault_;
  std::atomic<uint64_t> calls_{0};
  std::atomic<bool> struck_{false};
  std::atomic<bool> pointless_{false};
  std::string what_;
  mutable absl::Mutex mutex_;
  Calls noted_ ABSL_GUARDED_BY(mutex_);
};

class Run {
 public:
  Run(uint64_t seed, uint64_t call, const Fault* fault, bool log_ahead, bool control = false)
      : random_(seed, call),
        workload_(seed, {.keys = 60, .max_writes = 8, .max_body_bytes = 1500}),
        saboteur_(call, fault),
        for_ever_(fault != nullptr && fault->for_ever),
        disk_(directory_.path()) {
    if (control) disk_.LieAboutSyncs(".log");
    disk_.SetJudge([this](DiskCall call_made, const std::string& path) {
      return saboteur_.Judge(call_made, path);
    });
    options_.engine.data_dir = directory_.file("store");
    options_.engine.memtable_bytes = kMemtableBytes;
    options_.engine.block_cache_bytes = 1 << 20;
    options_.engine.ballast_bytes = 0;
    options_.engine.min_free_bytes = 0;
    options_.engine.log_ahead_bytes = log_ahead ? kMemtableBytes / 4 : 0;
    options_.engine.now = [now = workload_.now()] { return now; };
    options_.check_guards = false;
    options_.env = disk_.env();
    options_.watermark_interval = core::Duration::zero();
  }

  // "" or what is wrong.
  std::string Play() {
    std::string wrong = UnderFault();
    if (saboteur_.pointless()) return {};
    if (wrong.empty()) wrong = Afterwards();
    return wrong.empty() ? "" : wrong + " (" + saboteur_.what() + ")";
  }
  Calls noted() const { return saboteur_.noted(); }

 private:
  std::string UnderFault() {
    auto engine = keystore::RocksDbEngine::Open(options_);
    if (!engine.ok()) {
      return saboteur_.struck() ? "" : "does not open: " + std::string(engine.status().message());
    }
    bool compacted = false;
    while (workload_.operations() < kOperations && !saboteur_.pointless()) {
      if (!compacted && workload_.operations() > kOperations / 2) {
        compacted = true;
        (void)(*engine)->Compact();
      }
      if (random_.OneIn(20)) (void)(*engine)->SyncWatermark();
      const bool known = workload_.Commit(**engine);
      if (!workload_.broken().empty()) return workload_.broken();
      if (known) continue;
      if (!saboteur_.struck()) return "a commit failed without a fault";
      if (!(*engine)->pressure().alive) return IsSilent(**engine);
      // It could not be read; that passes.
      if (for_ever_) break;
    }
    return {};
  }

  // Once it is dead, nothing is acknowledged any more.
  std::string IsSilent(keystore::RocksDbEngine& engine) {
    for (int i = 0; i < 3; ++i) {
      if (workload_.Commit(engine)) return "acknowledged after an error";
    }
    return {};
  }

  std::string Afterwards() {
    disk_.SetJudge({});
    if (random_.OneIn(2)) disk_.PowerFails(random_);
    for (int run = 0; run < 2; ++run) {
      auto engine = keystore::RocksDbEngine::Open(options_);
      if (!engine.ok()) return "does not open again: " + std::string(engine.status().message());
      std::string wrong = workload_.Check(**engine);
      if (!wrong.empty()) return wrong;
      for (int i = 0; i < 5; ++i) {
        if (!workload_.Commit(**engine)) return "a commit fails afterwards";
      }
    }
    return workload_.broken();
  }

  TempDirectory directory_;
  Random random_;
  Workload workload_;
  Saboteur saboteur_;
  const bool for_ever_;
  HostileDisk disk_;
  keystore::RocksDbOptions options_;
};

// --- Cases and workers ---------------------------------------------------------------------------

// Case n is fault n % kFaultKinds at call n / kFaultKinds.
std::string PlayCase(uint64_t seed, uint64_t number) {
  const Fault& fault = kFaults[number % kFaultKinds];
  // Half of them, whichever part of all they are in.
  const bool log_ahead = Random(seed, ~number).OneIn(2);
  const std::string wrong = Run(seed, number / kFaultKinds, &fault, log_ahead).Play();
  return wrong.empty() ? "" : std::string(fault.name) + ": " + wrong;
}

// Between a worker and the parent, which outlives it.
struct Board {
  std::atomic<uint64_t> next{0};  // of the worker
  std::atomic<uint64_t> passed{0};
  std::atomic<uint64_t> failed{0};
};

class Workers {
 public:
  Workers(const Settings& settings, std::vector<uint64_t> cases, uint64_t jobs)
      : settings_(settings), cases_(std::move(cases)), jobs_(jobs) {
    void* memory = mmap(nullptr, jobs_ * sizeof(Board), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    boards_ = static_cast<Board*>(memory);
    for (uint64_t i = 0; i < jobs_; ++i) new (&boards_[i]) Board{.next = i};
  }

  void Work(Tally& tally) {
    std::vector<pid_t> workers;
    for (uint64_t i = 0; i < jobs_; ++i) workers.push_back(Start(i));
    for (uint64_t i = 0; i < jobs_; ++i) AwaitAll(i, workers[i], tally);
    for (uint64_t i = 0; i < jobs_; ++i) {
      tally.Passed(boards_[i].passed);
      for (uint64_t n = 0; n < boards_[i].failed; ++n) tally.Failed("told above");
    }
  }

 private:
  pid_t Start(uint64_t worker) {
    std::fflush(stdout);
    const pid_t pid = fork();
    if (pid != 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Board& board = boards_[worker];
    for (; board.next < cases_.size(); board.next += jobs_) {
      const uint64_t number = cases_[board.next];
      const std::string wrong = PlayCase(settings_.seed, number);
      ++(wrong.empty() ? board.passed : board.failed);
      if (wrong.empty()) continue;
      std::printf("case %llu: %s\n", static_cast<unsigned long long>(number), wrong.c_str());
      std::fflush(stdout);
    }
    _exit(0);
  }

  // A worker that dies goes on with its next case.
  void AwaitAll(uint64_t worker, pid_t pid, Tally& tally) {
    for (;;) {
      int status = 0;
      if (pid <= 0 || waitpid(pid, &status, 0) != pid) return tally.Failed("no worker");
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
      Board& board = boards_[worker];
      tally.Failed("case " + std::to_string(cases_[board.next]) + ": the process died of " +
                   std::to_string(WIFSIGNALED(status) ? WTERMSIG(status) : status));
      board.next += jobs_;
      pid = Start(worker);
    }
  }

  const Settings& settings_;
  const std::vector<uint64_t> cases_;
  const uint64_t jobs_;
  Board* boards_ = nullptr;
};

// The calls of the workload without a fault, where there are most of them.
Calls CallsHere(uint64_t seed) {
  Run run(seed, 0, nullptr, /*log_ahead=*/true);
  const std::string wrong = run.Play();
  if (wrong.empty()) return run.noted();
  std::printf("without a fault: %s\n", wrong.c_str());
  std::fflush(stdout);
  return {};
}

// The same, asked in a process of its own.
Calls CountCalls(uint64_t seed) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t pid = fork();
  if (pid == 0) {
    const Calls calls = CallsHere(seed);
    // A pipe takes 64 KiB: many times as much as there are calls.
    const auto bytes = static_cast<ssize_t>(calls.all.size());
    const bool told = write(ends[1], &calls.own, sizeof(calls.own)) == sizeof(calls.own) &&
                      write(ends[1], calls.all.data(), calls.all.size()) == bytes;
    _exit(told ? 0 : 1);
  }
  Calls calls;
  close(ends[1]);
  if (read(ends[0], &calls.own, sizeof(calls.own)) != sizeof(calls.own)) calls.own = 0;
  for (DiskCall call{}; read(ends[0], &call, sizeof(call)) == sizeof(call);) {
    calls.all.push_back(call);
  }
  close(ends[0]);
  waitpid(pid, nullptr, 0);
  std::printf("%zu calls, %" PRIu64 " of them not RocksDB's\n", calls.all.size(), calls.own);
  return calls;
}

// A disk that only says that it syncs has to be noticed, where the power fails on top.
int Control(const Settings& settings) {
  Random random(settings.seed);
  for (int run = 1; run <= 100; ++run) {
    const std::string wrong =
        Run(settings.seed, random.Below(1000), &kFaults[3], run % 2 == 0, /*control=*/true).Play();
    if (wrong.empty()) continue;
    std::printf("noticed in run %d: %s\n1 passed, 0 failed\n", run, wrong.c_str());
    return 0;
  }
  std::printf("FAILED: a disk that does not sync was not noticed\n0 passed, 1 failed\n");
  return 1;
}

// Of --all those of one part, K/N.
std::vector<uint64_t> AllCases(const std::vector<DiskCall>& calls, const std::string& part) {
  uint64_t k = 0;
  uint64_t n = 0;
  char rest = 0;
  if (std::sscanf(part.c_str(), "%" SCNu64 "/%" SCNu64 "%c", &k, &n, &rest) != 2 || k >= n) {
    std::fprintf(stderr, "--part is K/N, K from 0 to N - 1\n");
    std::exit(2);
  }
  std::vector<uint64_t> cases;
  for (uint64_t number = 0; number < calls.size() * kFaultKinds; ++number) {
    const uint64_t call = number / kFaultKinds;
    if (kFaults[number % kFaultKinds].half && !Writes(calls[call])) continue;
    if (call % n == k) cases.push_back(number);
  }
  return cases;
}

std::vector<uint64_t> DrawCases(const Settings& settings, uint64_t calls) {
  Random random(settings.seed, 7);
  std::vector<uint64_t> cases;
  while (calls > 0 && cases.size() < settings.floor) {
    cases.push_back(random.Below(calls * kFaultKinds));
  }
  return cases;
}

std::vector<uint64_t> CasesOf(const Settings& settings) {
  const auto option = [&](const char* name, const char* without) {
    const auto given = settings.others.find(name);
    return given == settings.others.end() ? without : given->second;
  };
  const Calls calls = CountCalls(settings.seed);
  // Where they go another way, nothing of the engine's own is tried.
  if (calls.own == 0) return {};
  if (settings.has("case")) return {std::stoull(option("case", ""))};
  if (settings.has("all")) return AllCases(calls.all, option("part", "0/1"));
  return DrawCases(settings, calls.all.size());
}

int Main(int argc, char** argv) {
  Settings settings = ReadSettings(
      argc, argv, kUsage,
      {.floor = 300,
       .others = {{"all", ""}, {"jobs", ""}, {"case", ""}, {"part", ""}, {"control", ""}}});
  PreferMemory();
  if (settings.has("control")) return Control(settings);
  const uint64_t jobs = JobsOf(settings, Processors());
  std::vector<uint64_t> cases = CasesOf(settings);
  if (settings.has("all") || settings.has("case")) {
    settings.floor = std::max<uint64_t>(cases.size(), 1);
  }
  Tally tally(settings);
  do {
    Workers(settings, std::move(cases), jobs).Work(tally);
    if (settings.seconds == 0 || settings.has("case")) break;
    ++settings.seed;
    cases = CasesOf(settings);
  } while (!cases.empty() && tally.GoesOn());
  return tally.Summary("runs with a fault");
}

}  // namespace
}  // namespace idempotency::proof

int main(int argc, char** argv) { return idempotency::proof::Main(argc, argv); }
