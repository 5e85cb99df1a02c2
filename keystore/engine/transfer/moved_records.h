// Records on their way from one store to another: as bytes that no engine has a part in, and what
// a sequence of them comes to.
//
//   digest of records := SHA-256( { length(key) key length(record) record } )   in order of keys
//     length := 4 bytes, lowest first
//     key    := codec/key_codec.h         record := codec/record_codec.h, plain
//
// Stored keys have one order in every engine, and a record has one encoding: so the same records
// have the same digest wherever they are kept, however they are sealed there.
//
// Thread safety: values; a tally is used by one thread.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_TRANSFER_MOVED_RECORDS_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_TRANSFER_MOVED_RECORDS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "keystore/core/record.h"
#include "keystore/core/time.h"

namespace idempotency::keystore {

inline constexpr size_t kTransferDigestBytes = 32;

struct MovedRecord {
  std::string key;
  std::string bytes;

  friend bool operator==(const MovedRecord&, const MovedRecord&) = default;
};

struct UnpackedRecord {
  core::Key key;
  core::Record record;
};

// The record must keep every rule of core/invariants.h.
MovedRecord Pack(const core::Key& key, const core::Record& record);
// nullopt for anything but exactly what Pack makes.
std::optional<UnpackedRecord> Unpack(const MovedRecord& moved) noexcept;

// Records that travel together.
struct RecordChunk {
  uint64_t number = 0;  // from 0
  std::vector<MovedRecord> records;
  // Over all records up to the last of these.
  std::string digest;
};

struct RecordTotals {
  // By the state that they are stored in.
  uint64_t pending = 0;
  uint64_t unresolved = 0;
  uint64_t complete = 0;
  uint64_t expired = 0;
  uint64_t freed = 0;
  uint64_t bytes = 0;  // of keys and records
  std::string digest;

  uint64_t records() const { return pending + unresolved + complete + expired + freed; }
  friend bool operator==(const RecordTotals&, const RecordTotals&) = default;
};

// SHA-256 of what was added. Ends the process where there is no memory for that.
class TransferDigest {
 public:
  TransferDigest();
  ~TransferDigest();
  TransferDigest(const TransferDigest&) = delete;
  TransferDigest& operator=(const TransferDigest&) = delete;

  void Add(std::string_view bytes);
  // Of all that was added so far; more may be.
  std::string Value() const;

 private:
  struct Context;
  const std::unique_ptr<Context> context_;
};

class RecordTally {
 public:
  void Add(const MovedRecord& moved, core::State state);
  RecordTotals totals() const;
  // Without making the digest.
  uint64_t records() const { return counted_.records(); }

 private:
  RecordTotals counted_;  // without the digest
  TransferDigest digest_;
};

// What a store says of itself whose records were moved away (retirement.h).
struct Retirement {
  core::Time time;
  // Who has decided, and where the records are now, in their words.
  std::string actor;
  std::string moved_to;
  // Of all records of the store, as they were exported.
  std::string digest;

  friend bool operator==(const Retirement&, const Retirement&) = default;
};

// What is known of a store as a whole, besides its records.
struct TransferFacts {
  std::string engine;
  // Above every token that was given.
  uint64_t token_floor = 1;
  // The source's clock.
  core::Time made;
  // As Traits::lost_before.
  core::Time lost_before;
  // It was moved away before: what was granted since is not in it.
  std::optional<Retirement> retired = std::nullopt;

  friend bool operator==(const TransferFacts&, const TransferFacts&) = default;
};
std::string DigestOf(const TransferFacts& facts);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_TRANSFER_MOVED_RECORDS_H_
