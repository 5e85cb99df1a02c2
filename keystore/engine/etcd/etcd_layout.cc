#include "keystore/engine/etcd/etcd_layout.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "keystore/codec/byte_io.h"

namespace idempotency::keystore {
namespace {

constexpr uint8_t kFormat = 1;
constexpr size_t kKindBytes = 2;
constexpr size_t kMinutesBytes = 8;
constexpr int kKindBits = 2;
constexpr uint64_t kKindMask = (uint64_t{1} << kKindBits) - 1;

std::string_view KindOf(Family family) { return family == Family::kOpen ? "o/" : "f/"; }

uint64_t Minutes(core::Time time) {
  return static_cast<uint64_t>(
      std::chrono::floor<std::chrono::minutes>(time.time_since_epoch()).count());
}

uint64_t Milliseconds(core::Time time) {
  return static_cast<uint64_t>(time.time_since_epoch().count());
}

core::Time FromMilliseconds(uint64_t ms) {
  return core::Time(core::Duration(static_cast<core::Duration::rep>(ms)));
}

std::string Join(std::string_view prefix, std::string_view kind, std::string_view rest) {
  std::string key;
  key.reserve(prefix.size() + kind.size() + rest.size());
  key.append(prefix).append(kind).append(rest);
  return key;
}

}  // namespace

std::string EtcdLayout::RecordKey(Family family, std::string_view stored_key) const {
  return Join(prefix_, KindOf(family), stored_key);
}

std::string EtcdLayout::FamilyPrefix(Family family) const {
  return Join(prefix_, KindOf(family), {});
}

std::string_view EtcdLayout::StoredKey(Family /*family*/, std::string_view record_key) const {
  return record_key.substr(prefix_.size() + kKindBytes);
}

std::string EtcdLayout::DueKey(core::Time due, std::string_view stored_key) const {
  std::string key = Join(prefix_, "x/", {});
  ByteWriter writer(&key);
  writer.Fixed64(Minutes(due));
  writer.Raw(stored_key);
  return key;
}

std::pair<std::string, std::string> EtcdLayout::DueRange(core::Time now) const {
  // The minute that has begun is not over: what it holds may be due later.
  return {DueKey(core::Time{}, {}), DueKey(now, {})};
}

std::string_view EtcdLayout::StoredKeyOfDue(std::string_view due_key) const {
  const size_t front = prefix_.size() + kKindBytes + kMinutesBytes;
  return due_key.size() < front ? std::string_view() : due_key.substr(front);
}

std::string EtcdLayout::NeededKey(std::string_view key_id) const {
  return Join(prefix_, "k/", key_id);
}

std::string_view EtcdLayout::KeyIdOf(std::string_view needed_key) const {
  return needed_key.substr(prefix_.size() + kKindBytes);
}

std::string EtcdLayout::EpochKey() const { return Join(prefix_, "epoch", {}); }

core::Time DueTime(const core::Record& record) {
  return record.state == core::State::kComplete ? record.response_expire_time : record.forget_time;
}

std::string EncodeEpochValue(const EpochValue& value) {
  std::string bytes;
  ByteWriter writer(&bytes);
  writer.Byte(kFormat);
  writer.Varint(value.token_base);
  writer.Varint(Milliseconds(value.swept));
  writer.Varint(Milliseconds(value.lost_before));
  writer.Byte(value.loss_open ? 1 : 0);
  return bytes;
}

std::optional<EpochValue> DecodeEpochValue(std::string_view bytes) {
  ByteReader reader(bytes);
  if (reader.Byte() != kFormat) return std::nullopt;
  EpochValue value;
  value.token_base = reader.Varint();
  value.swept = FromMilliseconds(reader.Varint());
  value.lost_before = FromMilliseconds(reader.Varint());
  const uint8_t loss_open = reader.Byte();
  if (!reader.ok() || !reader.AtEnd() || loss_open > 1) return std::nullopt;
  value.loss_open = loss_open == 1;
  return value;
}

Version VersionOfRecord(Family family, int64_t mod_revision) {
  const auto kind =
      family == Family::kOpen ? VersionParts::Kind::kOpen : VersionParts::Kind::kFinished;
  return static_cast<Version>(mod_revision) << kKindBits | static_cast<Version>(kind);
}

Version VersionOfAbsence(int64_t epoch_revision, int64_t first_epoch_revision) {
  if (epoch_revision == first_epoch_revision) return 0;
  return static_cast<Version>(epoch_revision) << kKindBits;
}

VersionParts PartsOf(Version version) {
  return VersionParts{.kind = static_cast<VersionParts::Kind>(version & kKindMask),
                      .revision = static_cast<int64_t>(version >> kKindBits)};
}

}  // namespace idempotency::keystore
