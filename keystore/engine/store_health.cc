#include "keystore/engine/store_health.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace idempotency::keystore {
namespace {

// RocksDB refuses writes from here on. Below that (a compaction that found no space) it still
// takes them.
bool EndsWrites(const rocksdb::Status& error) {
  return error.severity() >= rocksdb::Status::Severity::kHardError;
}

}  // namespace

void StoreHealth::Die(std::string_view why) {
  if (!alive_.exchange(false)) return;
  log_(kLogError,
       absl::StrCat("the store takes no more writes; restart the process: ", std::string(why)));
}

void StoreHealth::OnStallConditionsChanged(const rocksdb::WriteStallInfo& info) {
  const bool stalled = info.condition.cur != rocksdb::WriteStallCondition::kNormal;
  if (stalled_.exchange(stalled) == stalled) return;
  log_(kLogWarning, absl::StrCat("writes to the family ", info.cf_name,
                                 stalled ? " are held up" : " run freely again"));
}

void StoreHealth::OnBackgroundError(rocksdb::BackgroundErrorReason /*reason*/,
                                    rocksdb::Status* error) {
  if (EndsWrites(*error)) {
    Die(error->ToString());
  } else {
    log_(kLogError, absl::StrCat("rocksdb goes on after an error: ", error->ToString()));
  }
}

void StoreHealth::OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason /*reason*/,
                                       rocksdb::Status error, bool* auto_recovery) {
  // What was acknowledged before such an error is told by a clean opening, not by a repair
  // behind our back.
  if (EndsWrites(error)) *auto_recovery = false;
}

}  // namespace idempotency::keystore
