// RocksDB's engine, in batches: synced commits, and reads of keys that are there or not.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "keystore/engine/rocksdb_engine.h"
#include "tests/bench/micro/ingredients.h"
#include "tests/bench/micro/scenario.h"
#include "tests/bench/micro/scratch_store.h"

namespace idempotency::bench {
namespace {

using keystore::GuardedWrite;
using keystore::ReadEntry;

constexpr size_t kBatches[] = {1, 32, 256, 1024};
// No key that is loaded has a number as high.
constexpr uint64_t kNeverStored = uint64_t{1} << 40;

// The batch of a fresh Reserve each.
class CommitReserveScenario : public Scenario {
 public:
  CommitReserveScenario(const Settings& settings, size_t batch)
      : Scenario(batch), store_(settings) {}

  void Prepare() override {
    writes_.clear();
    for (size_t i = 0; i < operations(); ++i, ++number_) {
      writes_.push_back({KeyOf(number_), 0, PendingRecord(number_, 1 + number_)});
    }
  }
  void Run() override { store_.Commit(std::move(writes_)); }

 private:
  ScratchStore store_;
  uint64_t number_ = 0;
  std::vector<GuardedWrite> writes_;
};

// The batch of a Complete each, which moves the record to the other family.
class CommitCompleteScenario : public Scenario {
 public:
  CommitCompleteScenario(const Settings& settings, size_t batch)
      : Scenario(batch), store_(settings) {}

  void Prepare() override {
    const uint64_t first = number_;
    std::vector<GuardedWrite> reserved;
    std::vector<core::Key> keys;
    for (size_t i = 0; i < operations(); ++i, ++number_) {
      keys.push_back(KeyOf(number_));
      reserved.push_back({keys.back(), 0, PendingRecord(number_, 1 + number_)});
    }
    store_.Commit(std::move(reserved));
    const std::vector<ReadEntry> entries = store_.Read(keys);
    writes_.clear();
    for (size_t i = 0; i < operations(); ++i) {
      const uint64_t number = first + i;
      writes_.push_back(
          {std::move(keys[i]), entries[i].version, CompleteRecord(number, 1 + number)});
    }
  }
  void Run() override { store_.Commit(std::move(writes_)); }

 private:
  ScratchStore store_;
  uint64_t number_ = 0;
  std::vector<GuardedWrite> writes_;
};

enum class Place { kAbsent, kMemtable, kTable };

// Batches of keys all over a store of complete records.
class ReadScenario : public Scenario {
 public:
  ReadScenario(const Settings& settings, size_t batch, Place place)
      : Scenario(batch), stored_(settings.keys), place_(place), store_(settings) {
    store_.Load(stored_);
    // What is absent is looked for where the others are: in tables, with memtables to pass.
    if (place != Place::kMemtable) {
      const absl::Status status = store_.engine().Compact();
      Require(status.ok(), status.ToString());
    }
  }

  void Prepare() override {
    keys_.clear();
    for (size_t i = 0; i < operations(); ++i) {
      // A prime: strides over all keys, and meets none twice in a batch.
      number_ = (number_ + 7919) % stored_;
      keys_.push_back(KeyOf(place_ == Place::kAbsent ? kNeverStored + ++asked_ : number_));
    }
  }
  void Run() override {
    const bool absent = place_ == Place::kAbsent;
    for (const ReadEntry& entry : store_.Read(std::move(keys_))) {
      Require(std::holds_alternative<core::Absent>(entry.stored) == absent,
              "a read found something else");
    }
  }

 private:
  const uint64_t stored_;
  const Place place_;
  ScratchStore store_;
  uint64_t number_ = 0;
  uint64_t asked_ = 0;
  std::vector<core::Key> keys_;
};

template <typename Kind, typename... More>
void AddBatches(ScenarioEntries& entries, const std::string& name, More... more) {
  for (const size_t batch : kBatches) {
    entries.push_back({name + "/" + std::to_string(batch), [=](const Settings& settings) {
                         return std::unique_ptr<Scenario>(
                             std::make_unique<Kind>(settings, batch, more...));
                       }});
  }
}

}  // namespace

void AddEngineScenarios(ScenarioEntries& entries) {
  AddBatches<CommitReserveScenario>(entries, "engine/commit_reserve");
  AddBatches<CommitCompleteScenario>(entries, "engine/commit_complete");
  AddBatches<ReadScenario>(entries, "engine/read_absent", Place::kAbsent);
  AddBatches<ReadScenario>(entries, "engine/read_memtable", Place::kMemtable);
  AddBatches<ReadScenario>(entries, "engine/read_table", Place::kTable);
}

}  // namespace idempotency::bench
