// How a scan walks over stored keys: the same for every engine that keeps them in order.
//
//   resume key := checksum of (filter, stored key)   4 bytes, lowest first
//                 stored key                         the last one that was looked at
//
// The checksum binds a resume key to its filter and keeps out what no scan has made.
//
// Thread safety: values; a ScanSource is used by one caller.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_SCAN_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_SCAN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "keystore/core/record.h"
#include "keystore/core/transition.h"
#include "keystore/engine/engine.h"

namespace idempotency::keystore {

// A page ends after this many stored keys for each entry asked for, matching or not, and after
// this many bytes, so that no call runs for long or takes much memory.
inline constexpr size_t kScanVisitsPerEntry = 20;
inline constexpr size_t kMaxScanBytes = size_t{4} * 1024 * 1024;

// What to do about one stored key.
struct ScanVerdict {
  enum class Kind : uint8_t {
    kTake,  // it matches, as far as keys can tell; `key` is set
    kSeek,  // it does not, and nothing before `seek` does
    kDone,  // neither it nor anything behind it matches
  };
  Kind kind = Kind::kDone;
  core::Key key;
  std::string seek;
};

class ScanRange {
 public:
  // INVALID_ARGUMENT where the filter contradicts itself, or the resume key is not one of its.
  static absl::StatusOr<ScanRange> Make(ScanFilter filter, std::string_view resume_key);

  // The first stored key to look at.
  const std::string& start() const { return start_; }
  bool open_only() const { return filter_.open_only; }
  // `stored_key` is not below start().
  ScanVerdict Judge(std::string_view stored_key) const;
  // The resume key to go on behind `stored_key`.
  std::string ResumeBehind(std::string_view stored_key) const;

 private:
  explicit ScanRange(ScanFilter filter);
  uint32_t Checksum(std::string_view stored_key) const;
  absl::Status StartBehind(std::string_view resume_key);

  ScanFilter filter_;
  std::string start_;
  std::string end_;  // the first stored key behind the range; empty: none
};

// Stored keys in order, at one moment.
class ScanSource {
 public:
  virtual ~ScanSource() = default;
  // Goes to the first stored key that is not below `target`.
  virtual void Seek(std::string_view target) = 0;
  virtual void Next() = 0;
  virtual bool Valid() const = 0;
  // Valid until the source is moved.
  virtual std::string_view key() const = 0;
  // What is stored under key(), and how many bytes it takes.
  virtual core::Stored Load(size_t* bytes) const = 0;
};

// One page. `limit` is above zero.
ScanResult RunScan(const ScanRange& range, size_t limit, ScanSource& source);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_SCAN_H_
