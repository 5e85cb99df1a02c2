#include "keystore/engine/stored_value.h"

#include <algorithm>
#include <utility>

#include "keystore/codec/byte_io.h"

namespace idempotency::keystore {
namespace {

constexpr int kFamilyBits = 2;

uint64_t CommitNumber(const Find& find) {
  // Fails to zero.
  return find.kind == Find::Kind::kBytes ? ByteReader(find.bytes).Varint() : 0;
}

std::optional<StoredValue> Decode(const Place& place, const Find& find) {
  return find.kind == Find::Kind::kBytes ? DecodeValue(place, find.bytes) : std::nullopt;
}

}  // namespace

Family FamilyOf(core::State state) {
  switch (state) {
    case core::State::kPending:
    case core::State::kUnresolved:
      return Family::kOpen;
    case core::State::kComplete:
    case core::State::kExpired:
    case core::State::kFreed:
      return Family::kFinished;
  }
  return Family::kOpen;
}

Family OtherFamily(Family family) {
  return family == Family::kOpen ? Family::kFinished : Family::kOpen;
}

bool EncodeValue(const Place& place, uint64_t commit_number, const core::Record& record,
                 std::string* out) {
  ByteWriter(out).Varint(commit_number);
  return place.sealer.Encode(place.stored_key, record, out);
}

std::optional<StoredValue> DecodeValue(const Place& place, std::string_view bytes) noexcept {
  ByteReader reader(bytes);
  const uint64_t commit_number = reader.Varint();
  if (!reader.ok()) return std::nullopt;
  std::optional<OpenedRecord> opened =
      place.sealer.Decode(place.stored_key, bytes.substr(bytes.size() - reader.left()));
  if (!opened.has_value()) return std::nullopt;
  return StoredValue{.commit_number = commit_number,
                     .record = std::move(opened->record),
                     .key_id = opened->key_id,
                     .key_missing = opened->key_missing};
}

ReadEntry Combine(const Place& place, const Find& open, const Find& finished) {
  const Version version = VersionOf(open, finished);
  if (version == 0) return ReadEntry{};
  std::optional<StoredValue> in_open = Decode(place, open);
  std::optional<StoredValue> in_finished = Decode(place, finished);
  if ((Holds(version, Family::kOpen) && !in_open.has_value()) ||
      (Holds(version, Family::kFinished) && !in_finished.has_value())) {
    return ReadEntry{.stored = core::Unreadable{}, .version = version};
  }
  const bool open_stands =
      in_open.has_value() &&
      (!in_finished.has_value() || in_open->commit_number >= in_finished->commit_number);
  return ReadEntry{.stored = std::move(open_stands ? in_open : in_finished)->record,
                   .version = version};
}

Version VersionOf(const Find& open, const Find& finished) {
  Version families = 0;
  if (open.kind != Find::Kind::kNothing) families |= static_cast<Version>(Family::kOpen);
  if (finished.kind != Find::Kind::kNothing) families |= static_cast<Version>(Family::kFinished);
  const uint64_t number = std::max(CommitNumber(open), CommitNumber(finished));
  return number << kFamilyBits | families;
}

bool Holds(Version version, Family family) { return (version & static_cast<Version>(family)) != 0; }

}  // namespace idempotency::keystore
