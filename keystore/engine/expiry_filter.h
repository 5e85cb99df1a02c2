// Gives back the space of what time has ended, while RocksDB compacts the family `finished`.
// It decides nothing: it asks core::Observe, as every read does, about a moment an hour ago,
// so that a clock that is a little wrong costs space and not records.
//
//   COMPLETE whose retention is over      shrinks to its EXPIRED tombstone, in place
//   what is forgotten                     is removed
//   everything else                       stays: open states, bytes that cannot be read,
//                                         namespaces that must not be reclaimed, and all of it
//                                         while the clock is in doubt
//
// Thread safety: the factory is asked from any thread; RocksDB uses each filter on one.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_EXPIRY_FILTER_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_EXPIRY_FILTER_H_

#include <rocksdb/compaction_filter.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "keystore/core/time.h"
#include "keystore/engine/record_sealer.h"

namespace idempotency::keystore {

inline constexpr core::Duration kReclaimMargin = std::chrono::hours(1);

using NowFunction = std::function<core::Now()>;
// Whether expired records of a namespace may be given up.
using MayReclaimFunction = std::function<bool(std::string_view name_space)>;

// The filter of one compaction. Must not throw: RocksDB cannot bear it.
class ExpiryFilter final : public rocksdb::CompactionFilter {
 public:
  // `now` is when the compaction began; `may_reclaim` must outlive the filter.
  ExpiryFilter(const core::Now& now, const MayReclaimFunction& may_reclaim);

  const char* Name() const override { return "idempotency.ExpiryFilter"; }
  Decision FilterV2(int level, const rocksdb::Slice& key, ValueType value_type,
                    const rocksdb::Slice& existing_value, std::string* new_value,
                    std::string* skip_until) const noexcept override;

 private:
  Decision Judge(std::string_view key, std::string_view value, std::string* new_value) const;

  const core::Now then_;
  const MayReclaimFunction& may_reclaim_;
  // Without keys: what it writes has nothing that is sealed.
  const RecordSealer no_sealer_;
};

class ExpiryFilterFactory final : public rocksdb::CompactionFilterFactory {
 public:
  ExpiryFilterFactory(NowFunction now, MayReclaimFunction may_reclaim)
      : now_(std::move(now)), may_reclaim_(std::move(may_reclaim)) {}

  const char* Name() const override { return "idempotency.ExpiryFilterFactory"; }
  std::unique_ptr<rocksdb::CompactionFilter> CreateCompactionFilter(
      const rocksdb::CompactionFilter::Context& context) noexcept override;

 private:
  const NowFunction now_;
  const MayReclaimFunction may_reclaim_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_EXPIRY_FILTER_H_
