// A rocksdb::Env on the real file system that fails when told to, and knows what of the
// write-ahead logs would be left by a power cut.
//
// Thread safety: all methods may be called from any thread.
#ifndef IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_FAULT_ENV_H_
#define IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_FAULT_ENV_H_

#include <rocksdb/env.h>

#include <cstdint>
#include <memory>
#include <string>

namespace idempotency::keystore {

enum class Fault : uint8_t {
  kNone,
  kSyncFails,   // as EIO from fdatasync: what was written may be there or not
  kNoSpace,     // as ENOSPC from write
  kReadFails,   // as EIO from read
  kWritesWait,  // until the fault is another one
};

class FaultEnv {
 public:
  FaultEnv();
  ~FaultEnv();

  rocksdb::Env* env() { return env_.get(); }

  // From now on, for files whose names end in `suffix` (".log": the write-ahead logs; ".sst").
  void Set(Fault fault, std::string suffix);
  void Clear() { Set(Fault::kNone, ""); }

  // Cuts every write-ahead log to what was synced, as a power cut may. The store must be closed.
  void DropUnsynced();

 private:
  class FileSystem;
  std::shared_ptr<FileSystem> file_system_;
  std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_FAULT_ENV_H_
