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

void StoreHealth::SetStalled(bool stalled) {
  if (stalled_.exchange(stalled) == stalled) return;
  log_(kLogWarning, stalled ? "writes to the store are held up: new keys are refused"
                            : "writes to the store run freely again");
}

void StoreHealth::OnStallConditionsChanged(const rocksdb::WriteStallInfo& /*info*/) {
  stall_hint_.store(true);
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
                                       rocksdb::Status /*error*/, bool* auto_recovery) {
  // What was acknowledged before an error that ends writes is told by a clean opening, not by a
  // repair behind our back. After the others there is nothing to recover: compactions are tried
  // again as long as they do not fit. And RocksDB 7.8 forgets to wake a store that waits for a
  // recovery to end: it would never close.
  *auto_recovery = false;
}

}  // namespace idempotency::keystore
