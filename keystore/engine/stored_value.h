// What a family of RocksDB holds under a stored key, and which version that is.
//
//   stored value := varint(commit number) record        record: codec/record_codec.h, plain or
//   sealed
//
// Commit numbers rise over the life of a store and are used once, so that they name what is
// stored: a version is the commit number with the families that hold the key in its two lowest
// bits. A later write thereby knows what it has to remove, without asking. The number costs
// three to five bytes; a record's token and count of changes would repeat if a key were erased
// and the same record written again.
//
// A key is in one family at a time. Where damage or a bug has left it in both, the higher
// commit number stands if both can be read, and the key is unreadable if not. The next write
// removes the other.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_STORED_VALUE_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_STORED_VALUE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "keystore/core/record.h"
#include "keystore/engine/engine.h"
#include "keystore/engine/record_sealer.h"

namespace idempotency::keystore {

// Values are bits of a version.
enum class Family : uint8_t {
  kOpen = 1,      // PENDING and UNRESOLVED as stored
  kFinished = 2,  // COMPLETE, EXPIRED and FREED as stored
};

Family FamilyOf(core::State state);
Family OtherFamily(Family family);

// What a read found under a key in one family.
struct Find {
  enum class Kind : uint8_t { kNothing, kBytes, kDamaged };
  Kind kind = Kind::kNothing;
  std::string_view bytes;
};

// A key as it is stored, and what seals and opens the records under it.
struct Place {
  const RecordSealer& sealer;
  std::string_view stored_key;
};

struct StoredValue {
  uint64_t commit_number = 0;
  core::Record record;
  // As OpenedRecord's.
  std::string_view key_id;
  bool key_missing = false;
};

// Appends; the record must keep every rule of core/invariants.h. False for lack of memory.
[[nodiscard]] bool EncodeValue(const Place& place, uint64_t commit_number,
                               const core::Record& record, std::string* out);
// nullopt for anything but exactly what EncodeValue makes there.
std::optional<StoredValue> DecodeValue(const Place& place, std::string_view bytes) noexcept;

ReadEntry Combine(const Place& place, const Find& open, const Find& finished);
// The version alone, without decoding the record.
Version VersionOf(const Find& open, const Find& finished);
bool Holds(Version version, Family family);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_STORED_VALUE_H_
