// Small files whose content is taken up when it changes, and kept while what is new is bad.
//
//   Watched<KeySet> keys({path}, [=] { return LoadKeys(path); });
//   absl::Status status = keys.Open();          // the first content has to be good
//   ...
//   switch (keys.Check().what) ...              // now and then
//   std::shared_ptr<const KeySet> now = keys.Get();
#ifndef IDEMPOTENCY_SERVICE_IDENTITY_WATCHED_FILE_H_
#define IDEMPOTENCY_SERVICE_IDENTITY_WATCHED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace idempotency::service {

// What tells one content of a file from another without reading it; links are followed, as
// mounted secrets are exchanged by changing one. All zero: there is no such file.
struct FileStamp {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t bytes = 0;
  int64_t changed_ns = 0;  // the later of content and inode

  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

FileStamp StampOf(const std::string& path);

// Errors name the path and say what to do. INVALID_ARGUMENT where it is larger than that.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path, size_t max_bytes);

// Thread safety: all methods may be called from any thread; Get never waits for a file.
template <typename Content>
class Watched {
 public:
  using Pointer = std::shared_ptr<const Content>;
  // Reads and checks; may be called from any thread that calls Open or Check.
  using Load = std::function<absl::StatusOr<Pointer>()>;

  enum class What : uint8_t { kNothing, kTakenUp, kKept };
  struct Checked {
    What what = What::kNothing;
    // Why what there was is kept.
    absl::Status status;
  };

  Watched(std::vector<std::string> paths, Load load)
      : paths_(std::move(paths)), load_(std::move(load)) {}

  absl::Status Open() { return Check().status; }

  // Looks whether a file has changed, and reads it then; also as long as the last content was bad,
  // which is told once.
  Checked Check() ABSL_LOCKS_EXCLUDED(check_mutex_, mutex_) {
    absl::MutexLock check_lock(&check_mutex_);
    // Taken before reading: a change in between is seen the next time.
    std::vector<FileStamp> stamps;
    for (const std::string& path : paths_) stamps.push_back(StampOf(path));
    if (trouble_.ok() && stamps == stamps_) return {};
    absl::StatusOr<Pointer> content = load_();
    stamps_ = std::move(stamps);
    const absl::Status before = std::exchange(trouble_, content.status());
    if (!trouble_.ok()) return {before == trouble_ ? What::kNothing : What::kKept, trouble_};
    absl::MutexLock lock(&mutex_);
    content_ = *std::move(content);
    return {What::kTakenUp, absl::OkStatus()};
  }

  // Null before the first good content.
  Pointer Get() const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return content_;
  }

 private:
  const std::vector<std::string> paths_;
  const Load load_;
  absl::Mutex check_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  std::vector<FileStamp> stamps_ ABSL_GUARDED_BY(check_mutex_);
  absl::Status trouble_ ABSL_GUARDED_BY(check_mutex_);
  mutable absl::Mutex mutex_;
  Pointer content_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_IDENTITY_WATCHED_FILE_H_
