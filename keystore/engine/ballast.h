// A file that only takes up space: it is given up when the volume runs full, so that what has
// happened can still be written down.
//
// Thread safety: all methods may be called from any thread.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_BALLAST_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_BALLAST_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace idempotency::keystore {

class Ballast {
 public:
  // `bytes` zero: none is wanted, and one that an earlier run left is removed by Create.
  Ballast(std::string path, uint64_t bytes);

  uint64_t bytes() const { return bytes_; }
  // It is there with its full size.
  bool held() const { return held_.load(); }

  // Makes it, with its blocks allocated. UNAVAILABLE where that fails; then nothing is left of
  // it. Does nothing where it is held.
  absl::Status Create();

  // Removes it; true where it was there.
  bool Release();

 private:
  const std::string path_;
  const uint64_t bytes_;
  std::atomic<bool> held_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_BALLAST_H_
