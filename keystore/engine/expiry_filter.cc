#include "keystore/engine/expiry_filter.h"

#include <optional>

#include "keystore/codec/key_codec.h"
#include "keystore/core/invariants.h"
#include "keystore/core/record.h"
#include "keystore/core/transition.h"
#include "keystore/engine/stored_value.h"

namespace idempotency::keystore {
namespace {

core::Now Earlier(core::Now now, core::Duration span) {
  now.earliest -= span;
  now.latest -= span;
  now.wall -= span;
  return now;
}

}  // namespace

ExpiryFilter::ExpiryFilter(const core::Now& now, const MayReclaimFunction& may_reclaim)
    : then_(Earlier(now, kReclaimMargin)), may_reclaim_(may_reclaim) {}

rocksdb::CompactionFilter::Decision ExpiryFilter::FilterV2(
    int /*level*/, const rocksdb::Slice& key, ValueType value_type,
    const rocksdb::Slice& existing_value, std::string* new_value,
    std::string* /*skip_until*/) const noexcept {
  if (then_.in_doubt || value_type != ValueType::kValue) return Decision::kKeep;
  const std::optional<core::Key> name = DecodeKey({key.data(), key.size()});
  if (!name.has_value() || !may_reclaim_(name->name_space)) return Decision::kKeep;
  return Judge({key.data(), key.size()}, {existing_value.data(), existing_value.size()}, new_value);
}

rocksdb::CompactionFilter::Decision ExpiryFilter::Judge(std::string_view key,
                                                        std::string_view value,
                                                        std::string* new_value) const {
  const Place place{no_sealer_, key};
  std::optional<StoredValue> stored = DecodeValue(place, value);
  // Never what is open, wherever it has got to; never what cannot be read.
  if (!stored.has_value() || FamilyOf(stored->record.state) != Family::kFinished) {
    return Decision::kKeep;
  }
  const core::State state = stored->record.state;
  const std::optional<core::Record> record = core::Observe(std::move(stored->record), then_);
  if (!record.has_value()) return Decision::kRemove;
  if (state != core::State::kComplete || record->state != core::State::kExpired ||
      !core::BrokenRule(*record).empty()) {
    return Decision::kKeep;
  }
  // The same commit number: what is stored means the same as before.
  new_value->clear();
  return EncodeValue(place, stored->commit_number, *record, new_value) ? Decision::kChangeValue
                                                                       : Decision::kKeep;
}

std::unique_ptr<rocksdb::CompactionFilter> ExpiryFilterFactory::CreateCompactionFilter(
    const rocksdb::CompactionFilter::Context& /*context*/) noexcept {
  return std::make_unique<ExpiryFilter>(now_(), may_reclaim_);
}

}  // namespace idempotency::keystore
