// Zeros in front of RocksDB's log, made ahead: a commit is written over bytes that are there and
// synced, so that its sync changes no size and no block map, and waits for no commit of the file
// system's journal.
//
//   | records, synced | being written | zeros, synced | a piece under way |
//                     ^ written       ^ claimed       ^ zeroed
//
// One thread makes them, in pieces with a sync each, through a handle of its own:
//
//   - It begins with the first write to a log. So a log that holds bytes has been written to, as
//     ever, which is what WalReader goes by.
//   - Whoever writes claims the place first. No piece begins in front of that; where the writer
//     catches up with the piece under way, it waits for it. So no zero is ever written over a
//     record.
//   - A log is left when the next one is made: by then every zero in it is synced.
//   - What fails is no error of the store: this log gets no more zeros, and grows as it would
//     without them.
//   - A log that is closed is cut to what was written. A crash leaves the zeros behind the records,
//     where RocksDB skips them: no record has a header of zeros.
//
// An error of writing back is told to each handle that has the file open (Linux 4.13 and later), so
// that a sync of zeros takes none away from the sync of a commit.
//
// Thread safety: all methods may be called from any thread.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_LOG_AHEAD_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_LOG_AHEAD_H_

#include <rocksdb/env.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "keystore/engine/engine_log.h"

namespace idempotency::keystore {

// Small, since a commit that syncs meanwhile waits for the piece, too.
inline constexpr uint64_t kZeroPieceBytes = uint64_t{256} * 1024;
inline constexpr uint64_t kMinLogAheadBytes = uint64_t{8} * 1024;

struct LogAheadOptions {
  // How many zeros there are in front of what is written, once they are made; at least
  // kMinLogAheadBytes. More are made when half of them are used up. 0: none, and no LogAhead.
  uint64_t bytes = 0;
  // Asked before each piece; where there is none, this log gets no more zeros. Unset: there is.
  std::function<bool()> has_room;
  // Told once why there are none. Unset: nobody is.
  LogFunction log;
};

class LogAhead {
 public:
  // `below` must outlive it.
  LogAhead(rocksdb::Env* below, LogAheadOptions options);
  // The database must be closed.
  ~LogAhead();
  LogAhead(const LogAhead&) = delete;
  LogAhead& operator=(const LogAhead&) = delete;

  // For one database. GetFileSize of a log that is being written to is what was written, so that a
  // backup copies that and nothing behind it.
  rocksdb::Env* env() { return env_.get(); }

 private:
  class Zeros;
  class File;
  class FileSystem;

  const std::shared_ptr<Zeros> zeros_;
  const std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_LOG_AHEAD_H_
