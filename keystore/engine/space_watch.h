// Watches the free space of the store's volume and gives up the ballast before it runs out.
//
//   free < min_free                    full: new keys are refused, finishing verbs still land
//   free < min_free / 4                the ballast is released
//
// Once the ballast is gone its bytes count as taken, so that what it made room for is not
// filled with new keys. It is made again when the store is next opened with enough room.
//
// Thread safety: all methods may be called from any thread.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_SPACE_WATCH_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_SPACE_WATCH_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "keystore/engine/ballast.h"
#include "keystore/engine/engine_log.h"

namespace idempotency::keystore {

// Free bytes for this process on the volume of `path`; nullopt where the system does not say.
std::optional<uint64_t> FreeBytes(const std::string& path);

class SpaceWatch {
 public:
  using FreeBytesFunction = std::function<std::optional<uint64_t>()>;

  SpaceWatch(Ballast* ballast, uint64_t min_free_bytes, FreeBytesFunction free_bytes,
             LogFunction log);

  // Looks at the volume. Where the system does not say, nothing changes.
  void Check();
  // Makes the ballast where that leaves min_free_bytes. A failure is logged.
  void MakeBallast();
  // A write has found no space.
  void RanOut();

  bool full() const { return full_.load(); }

 private:
  void ReleaseBallast();

  Ballast& ballast_;
  const uint64_t min_free_bytes_;
  const FreeBytesFunction free_bytes_;
  const LogFunction log_;
  std::atomic<bool> full_{false};
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_SPACE_WATCH_H_
