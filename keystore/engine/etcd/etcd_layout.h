// Where things are in etcd, and what versions mean.
//
//   key       := prefix kind                      kind :=
//                  "o/" stored-key                  a record that is PENDING or UNRESOLVED
//                  "f/" stored-key                  any other record, or a tombstone
//                  "x/" minutes stored-key          when to look at what is under "f/"
//                  "k/" key-id                      a key that records may be sealed with
//                  "epoch"                          one for the whole store
//   stored-key:  codec/key_codec.h                 minutes := 8 bytes, highest first, since 1970
//   value of "o/", "f/" := a record (codec/record_codec.h)
//   tombstone := no bytes: the key was erased, and that has a version
//   value of "x/", "k/" := no bytes
//   value of "epoch" := format token-base swept lost-before loss-open
//     format := byte 1
//     token-base := varint      swept, lost-before := varint, ms since 1970; 0: never
//     loss-open := byte 0 or 1
//
// A key has a record under "o/" or under "f/", never both: one transaction moves it.
//
// The epoch is what in-flight writes are fenced by: each compares its mod_revision with the one
// that its read has seen (etcd_epoch.h).
//
//   version := mod_revision of "o/"     << 2 | 1
//            | mod_revision of "f/"     << 2 | 2   a tombstone's, too
//            | mod_revision of "epoch"  << 2       nothing is stored, as seen in that epoch
//            | 0                                   the same, in the epoch in which it was opened
//
// Thread safety: values and pure functions.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_LAYOUT_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "keystore/core/record.h"
#include "keystore/core/time.h"
#include "keystore/engine/engine.h"
#include "keystore/engine/stored_value.h"

namespace idempotency::keystore {

class EtcdLayout {
 public:
  explicit EtcdLayout(std::string prefix) : prefix_(std::move(prefix)) {}

  std::string RecordKey(Family family, std::string_view stored_key) const;
  // What all record keys of a family begin with.
  std::string FamilyPrefix(Family family) const;
  // The stored key of a record key of that family.
  std::string_view StoredKey(Family family, std::string_view record_key) const;

  std::string DueKey(core::Time due, std::string_view stored_key) const;
  // The due keys that were due by `now` are those from here up to and without the second.
  std::pair<std::string, std::string> DueRange(core::Time now) const;
  // Empty where it is none.
  std::string_view StoredKeyOfDue(std::string_view due_key) const;

  // Of a key that is needed; without an id, what all of them begin with.
  std::string NeededKey(std::string_view key_id) const;
  std::string_view KeyIdOf(std::string_view needed_key) const;

  std::string EpochKey() const;

 private:
  const std::string prefix_;
};

// When a record of the family `finished` is worth a look: its answer is to go, or all of it.
core::Time DueTime(const core::Record& record);

struct EpochValue {
  uint64_t token_base = 0;
  core::Time swept;
  // When a server found that etcd had gone back: of what was done before, it may know nothing.
  core::Time lost_before;
  // What was PENDING then has not been made unresolved yet.
  bool loss_open = false;

  friend bool operator==(const EpochValue&, const EpochValue&) = default;
};

std::string EncodeEpochValue(const EpochValue& value);
// nullopt for anything but what EncodeEpochValue makes.
std::optional<EpochValue> DecodeEpochValue(std::string_view bytes);

// What a version says. Revisions are positive.
struct VersionParts {
  enum class Kind : uint8_t { kAbsent = 0, kOpen = 1, kFinished = 2 };
  Kind kind = Kind::kAbsent;
  // mod_revision of the record; of the epoch where it is absent (0: of the first one).
  int64_t revision = 0;
};

Version VersionOfRecord(Family family, int64_t mod_revision);
Version VersionOfAbsence(int64_t epoch_revision, int64_t first_epoch_revision);
VersionParts PartsOf(Version version);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_LAYOUT_H_
