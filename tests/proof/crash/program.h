// What the harnesses have in common as programs: their settings, the seed as the first line, and
// "N passed, N failed" as the last.
#ifndef IDEMPOTENCY_TESTS_PROOF_CRASH_PROGRAM_H_
#define IDEMPOTENCY_TESTS_PROOF_CRASH_PROGRAM_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace idempotency::proof {

struct Settings {
  uint64_t seed = 1;
  // Less than this is a failure.
  uint64_t floor = 0;
  // Go on for so long; 0: until the floor is reached. PROOF_SECONDS in the environment.
  uint64_t seconds = 0;
  // What a program takes besides, by name.
  std::map<std::string, std::string> others;

  bool has(const std::string& name) const { return others.count(name) != 0; }
};

// Reads --seed=N, --floor=N, --seconds=N and --NAME[=VALUE] for each name in `defaults.others`.
// Prints the seed. Where it is not to go on (--help, or an argument that nobody knows) it prints
// `usage` and ends the process.
Settings ReadSettings(int argc, char** argv, const char* usage, const Settings& defaults);

// --jobs, which a program names among its others; `otherwise` where it is not given.
uint64_t JobsOf(const Settings& settings, uint64_t otherwise);
uint64_t Processors();

// Calls `work` with 0, 1, 2 ... on so many threads at once; each ends when it says false.
void InTurns(uint64_t jobs, const std::function<bool(uint64_t)>& work);

// Puts temporary directories into memory, where there is some and nobody has said where they are
// to be: for disks that only pretend to sync.
void PreferMemory();

// What has been tried so far.
//
// Thread safety: all methods may be called from any thread.
class Tally {
 public:
  explicit Tally(const Settings& settings);

  // Whether to go on: until the floor, or for as long as was asked.
  bool GoesOn() const ABSL_LOCKS_EXCLUDED(mutex_);
  void Passed(uint64_t count = 1) ABSL_LOCKS_EXCLUDED(mutex_);
  // Says what is wrong and how to see it again.
  void Failed(const std::string& what) ABSL_LOCKS_EXCLUDED(mutex_);

  uint64_t tried() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Prints the last line; the exit code.
  int Summary(const char* what) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const Settings settings_;
  const double begin_;
  mutable absl::Mutex mutex_;
  uint64_t passed_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t failed_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_CRASH_PROGRAM_H_
