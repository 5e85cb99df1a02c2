// Writes what RecordExport read into another store, or only says what it would do:
//
//   Begin -> Take each chunk, in order -> End
//
// A store that is empty is filled. While that is not at its end a mark is in it (import_mark.h),
// and whoever sends the same again goes on: what is there and equal stays. A store without a mark
// that is not empty is only compared. In neither is anything ever written over or removed.
//
// Thread safety: used by one thread; calls block. Nothing more is to be asked after an error.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_TRANSFER_RECORD_IMPORT_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_TRANSFER_RECORD_IMPORT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keystore/core/record.h"
#include "keystore/core/time.h"
#include "keystore/engine/engine.h"
#include "keystore/engine/transfer/moved_records.h"
#include "keystore/engine/transfer/waiting_engine.h"

namespace idempotency::keystore {

// A clock that is further behind the source's would let leases go on for longer than was promised
// to whoever waits for their end.
inline constexpr core::Duration kMaxImportClockBehind = std::chrono::seconds(5);
// What sealing and a store's own numbers may add to a record.
inline constexpr size_t kStoredRecordRoom = 1024;

struct ImportPlan {
  TransferFacts facts;
  bool dry_run = false;
  // Responses that are too large for the store are kept without their body; else they are refused.
  bool omit_large_bodies = false;
  // Also what was exported of a store that had been moved away by then; else that is refused.
  bool of_retired_store = false;
};

// With dry_run: what would be so.
struct ImportCounts {
  uint64_t written = 0;
  uint64_t present = 0;  // there already, and equal
  uint64_t bodies_omitted = 0;

  friend bool operator==(const ImportCounts&, const ImportCounts&) = default;
};

class RecordImport {
 public:
  // The engine must outlive it.
  RecordImport(Engine* engine, ImportPlan plan)
      : engine_(engine), plan_(std::move(plan)), limits_(engine->traits()) {}

  // `now`: by the store's clock. FAILED_PRECONDITION where it is behind, the store is retired or
  // holds a part of another import, or the source was retired and that is not wanted;
  // INVALID_ARGUMENT for facts that no store has.
  absl::Status Begin(core::Time now);

  // DATA_LOSS for anything but the next chunk, exactly as it was made: nothing of it is written.
  // ALREADY_EXISTS where a key holds another record, which conflict() names; FAILED_PRECONDITION
  // for a response that is too large, whose operation it names, and where the store was not empty
  // and lacks a record; RESOURCE_EXHAUSTED where the store is almost full.
  absl::Status Take(const RecordChunk& chunk);

  // Reads the store back, and gives what it holds. DATA_LOSS where what came is not what was
  // promised; ABORTED where the store holds anything else; CANCELLED where it was stopped.
  absl::StatusOr<RecordTotals> End(const RecordTotals& promised,
                                   const std::function<bool()>& stopped);

  const ImportCounts& counts() const { return counts_; }
  const std::optional<core::Key>& conflict() const { return conflict_; }

 private:
  // What is to be stored, and under which key.
  struct Wanted {
    core::Key key;
    core::RecordPtr record;
  };

  absl::Status BeginFilling(bool marked);
  absl::StatusOr<std::vector<Wanted>> Check(const RecordChunk& chunk);
  absl::StatusOr<Wanted> Fit(const MovedRecord& moved, UnpackedRecord unpacked);
  absl::Status Place(const std::vector<Wanted>& batch);
  // Writes what is not there yet; again where a race was lost, or nobody knows.
  absl::Status Write(std::vector<Wanted> batch);
  // Sorts out what is stored of the batch by now: gives what is not.
  absl::StatusOr<std::vector<GuardedWrite>> Missing(const std::vector<Wanted>& batch);
  absl::Status CheckFloor();
  absl::Status EndMark();
  // What stays of the mark; null: nothing.
  core::RecordPtr LastMark() const;

  const WaitingEngine engine_;
  const ImportPlan plan_;
  const Traits limits_;
  // It was not empty, and no import is under way: nothing is written.
  bool only_compares_ = false;
  uint64_t next_chunk_ = 0;
  std::string last_key_;
  RecordTally came_;
  RecordTally wanted_;  // what came, without the bodies that are omitted
  ImportCounts counts_;
  std::optional<core::Key> conflict_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_TRANSFER_RECORD_IMPORT_H_
