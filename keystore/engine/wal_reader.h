// Looks at every record of RocksDB's write-ahead logs while they are replayed, for what RocksDB
// itself does not see: records that are missing in the middle. A log whose pages were zeroed, or
// one that ends early though another follows, is replayed without a word around the hole.
//
// Thread safety: none; RocksDB replays on the thread that opens the store.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_WAL_READER_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_WAL_READER_H_

#include <rocksdb/wal_filter.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace idempotency::keystore {

class WalReader final : public rocksdb::WalFilter {
 public:
  enum class Mode : uint8_t {
    kLook,    // nothing is replayed
    kReplay,  // everything in front of the first hole is replayed, and nothing behind it
  };

  // Of the logs in `directory`.
  WalReader(std::string directory, Mode mode) : directory_(std::move(directory)), mode_(mode) {}

  const char* Name() const override { return "idempotency.WalReader"; }
  void ColumnFamilyLogNumberMap(const std::map<uint32_t, uint64_t>& first_needed,
                                const std::map<std::string, uint32_t>& families) override;
  WalProcessingOption LogRecordFound(unsigned long long log_number, const std::string& log_file,
                                     const rocksdb::WriteBatch& batch,
                                     rocksdb::WriteBatch* new_batch, bool* batch_changed) override;

  bool found_any() const { return !logs_.empty(); }
  // The last write in front of the first hole; 0: none.
  uint64_t last_sequence() const { return last_sequence_; }
  // What is missing; empty: nothing that can be seen from here.
  const std::string& hole() const { return hole_; }
  // The oldest log that any family still needs; 0 where there are no logs.
  uint64_t first_needed() const { return first_needed_; }
  // Where a log from `first_needed` on holds bytes, and not one record, though a newer one was
  // written to, something is missing, unless what was read in front of it and behind it is
  // consecutive. Nothing of what was read is certain where it is the first one. Call after the
  // replay.
  void LookForSilentLogs(uint64_t first_needed);

 private:
  bool IsHole(uint64_t log_number, uint64_t sequence);

  const std::string directory_;
  const Mode mode_;
  uint64_t first_needed_ = 0;
  std::set<uint64_t> logs_;  // with at least one record
  uint64_t last_sequence_ = 0;
  std::string hole_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_WAL_READER_H_
