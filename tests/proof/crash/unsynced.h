// What of a disk is not durable yet, and what becomes of it when the power fails.
//
// Thread safety: all methods may be called from any thread.
#ifndef IDEMPOTENCY_TESTS_PROOF_CRASH_UNSYNCED_H_
#define IDEMPOTENCY_TESTS_PROOF_CRASH_UNSYNCED_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tests/proof/sim/random.h"

namespace idempotency::proof {

// What a file holds from there on, at most `size` bytes.
std::string BytesAt(const std::string& path, uint64_t offset, uint64_t size);

class Unsynced {
 public:
  explicit Unsynced(std::string graveyard) : graveyard_(std::move(graveyard)) {}

  // Each is called while the call is being done.
  void Appended(const std::string& path, uint64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  // Instead of what was `before` at this place.
  void Overwritten(const std::string& path, uint64_t offset, std::string before)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // In a file that several handles write to, wherever its end is: what of it lies beyond the end is
  // appended, and the rest replaces what was `before`.
  void Wrote(const std::string& path, uint64_t offset, uint64_t bytes, std::string before)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // `cut` was behind its new end.
  void Truncated(const std::string& path, uint64_t size, std::string cut)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Synced(const std::string& path) ABSL_LOCKS_EXCLUDED(mutex_);
  void SyncedDirectory(const std::string& directory) ABSL_LOCKS_EXCLUDED(mutex_);
  // These do what they say. False: it could not be done.
  bool MakeWay(const std::string& path) ABSL_LOCKS_EXCLUDED(mutex_);  // a new file begins
  void Created(const std::string& path) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Rename(const std::string& from, const std::string& to) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Delete(const std::string& path) ABSL_LOCKS_EXCLUDED(mutex_);

  // As it is now, whatever of it is durable; 0 where it is not known.
  uint64_t SizeOf(const std::string& path) const ABSL_LOCKS_EXCLUDED(mutex_);

  void PowerFails(Random& random) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Overwrite {
    uint64_t offset = 0;
    std::string before;
  };
  // An end that was cut off, and how much of the file was durable before.
  struct Cut {
    std::string bytes;
    uint64_t synced = 0;
  };
  struct File {
    uint64_t size = 0;
    uint64_t synced = 0;
    std::vector<Overwrite> overwrites;
    std::vector<Cut> cuts;
  };
  struct Change {
    enum class Kind : uint8_t { kCreated, kRenamed, kDeleted };
    Kind kind = Kind::kCreated;
    std::string path;   // kRenamed: as it is now
    std::string from;   // kRenamed: as it was
    std::string grave;  // kDeleted: where it is
  };

  bool Bury(const std::string& path) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Move(const std::string& from, const std::string& to) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Undo(const Change& change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void PutBack(const std::string& path, File& file);

  const std::string graveyard_;
  mutable absl::Mutex mutex_;
  std::map<std::string, File> files_ ABSL_GUARDED_BY(mutex_);
  std::vector<Change> changes_ ABSL_GUARDED_BY(mutex_);
  uint64_t graves_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_CRASH_UNSYNCED_H_
