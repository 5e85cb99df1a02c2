// What is stored, apart from what would survive: the truth under every simulated engine.
//
// Writes are applied in order and safe once synced. A crash takes back what is not, from the
// newest on. A database of several replicas syncs with every write, and may still be on its way
// to apply writes that it was asked for: those come later, or never.
//
// Thread safety: none; one history is one thread's.
#ifndef IDEMPOTENCY_TESTS_PROOF_SIM_DISK_H_
#define IDEMPOTENCY_TESTS_PROOF_SIM_DISK_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "keystore/core/record.h"
#include "keystore/core/time.h"
#include "keystore/engine/engine.h"
#include "tests/proof/sim/history.h"

namespace idempotency::proof {

struct Row {
  core::RecordPtr record;  // null: nothing
  // Of nothing, too, once something has been erased: a write for "nothing is stored" that was on
  // its way for long must not find another nothing.
  keystore::Version version = 0;
};

// A write that an engine was asked for.
struct AskedWrite {
  size_t key = 0;
  size_t replica = 0;
  keystore::Version expected = 0;
  core::RecordPtr record;
  Seq asked = 0;
  core::Duration asked_at{0};
  bool by_filter = false;
};

class SimDisk {
 public:
  // nothing_is_nothing: what is erased has no version, as a wrong engine would have it.
  SimDisk(History* history, bool nothing_is_nothing)
      : history_(history), nothing_is_nothing_(nothing_is_nothing), rows_(history->keys.size()) {}

  const Row& row(size_t key) const { return rows_[key]; }
  // As a crash would leave it now.
  Row DurableRow(size_t key) const;
  // As it was `back` changes ago, or at the beginning.
  Row OldRow(size_t key, size_t back) const;

  void Apply(const AskedWrite& write);
  // Where nothing else is stored than the write expects; says whether.
  bool ApplyIfExpected(const AskedWrite& write);
  void Sync();
  size_t unsynced() const { return unsynced_.size(); }
  // What is not synced is gone, but for the `survivors` that were written first.
  void Crash(size_t survivors);

  // Above every token that was ever written, or tried.
  uint64_t token_floor() const { return highest_token_ + 1; }
  // Above every token that a record holds now.
  uint64_t stored_token_floor() const;

  // Writes that the database has not got to yet.
  std::vector<AskedWrite>& on_their_way() { return on_their_way_; }

 private:
  History* const history_;
  const bool nothing_is_nothing_;
  std::vector<Row> rows_;
  std::vector<size_t> unsynced_;  // changes, the oldest first
  std::vector<AskedWrite> on_their_way_;
  keystore::Version last_version_ = 0;
  uint64_t highest_token_ = 0;
};

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_SIM_DISK_H_
