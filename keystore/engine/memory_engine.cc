#include "keystore/engine/memory_engine.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "keystore/codec/key_codec.h"
#include "keystore/codec/record_codec.h"
#include "keystore/core/invariants.h"
#include "keystore/engine/scan.h"

namespace idempotency::keystore {
namespace {

absl::Status DeadError() {
  return absl::UnavailableError("the engine has stopped after a failed write; restart the process");
}

}  // namespace

class MemoryEngine::Source final : public ScanSource {
 public:
  // Used under the engine's lock.
  explicit Source(const Entries& entries) : entries_(entries), at_(entries.begin()) {}

  void Seek(std::string_view target) override { at_ = entries_.lower_bound(target); }
  void Next() override { ++at_; }
  bool Valid() const override { return at_ != entries_.end(); }
  std::string_view key() const override { return at_->first; }
  core::Stored Load(size_t* bytes) const override {
    const core::Record& record = *at_->second.record;
    *bytes = at_->first.size() + sizeof(record) + record.response.bytes.view().size();
    return record;
  }

 private:
  const Entries& entries_;
  Entries::const_iterator at_;
};

void MemoryEngine::Read(std::vector<core::Key> keys, ReadDone done) {
  absl::StatusOr<ReadResult> result = DeadError();
  {
    absl::MutexLock lock(&mutex_);
    if (alive_) {
      result = ReadResult{.entries = {}, .token_floor = token_floor_};
      result->entries.reserve(keys.size());
      for (const core::Key& key : keys) {
        const auto found = entries_.find(EncodeKey(key));
        if (found == entries_.end()) {
          result->entries.emplace_back();
        } else {
          result->entries.push_back(
              {.stored = *found->second.record, .version = found->second.version});
        }
      }
    }
  }
  std::move(done)(std::move(result));
}

void MemoryEngine::Commit(std::vector<GuardedWrite> writes, CommitDone done) {
  std::vector<WriteOutcome> outcomes;
  {
    absl::MutexLock lock(&mutex_);
    outcomes = Apply(writes);
  }
  std::move(done)(std::move(outcomes));
}

std::vector<WriteOutcome> MemoryEngine::Apply(const std::vector<GuardedWrite>& writes) {
  for (const GuardedWrite& write : writes) {
    if (!alive_ || write.record == nullptr) continue;
    const std::string_view broken = core::BrokenRule(*write.record);
    if (broken.empty()) continue;
    log_(kLogError,
         absl::StrCat("a record breaks a rule and is not written: ", std::string(broken)));
    alive_ = false;
  }
  std::vector<WriteOutcome> outcomes(writes.size(), WriteOutcome::kUnknown);
  if (!alive_) return outcomes;
  std::transform(writes.begin(), writes.end(), outcomes.begin(), [this](const GuardedWrite& write) {
    mutex_.AssertHeld();
    return ApplyOne(write);
  });
  return outcomes;
}

WriteOutcome MemoryEngine::ApplyOne(const GuardedWrite& write) {
  std::string key = EncodeKey(write.key);
  const auto found = entries_.find(key);
  const Version stored = found == entries_.end() ? 0 : found->second.version;
  if (stored != write.expected) return WriteOutcome::kLostRace;
  if (write.record == nullptr) {
    if (found != entries_.end()) entries_.erase(found);
    return WriteOutcome::kCommitted;
  }
  token_floor_ = std::max(token_floor_, write.record->token + 1);
  entries_[std::move(key)] = Entry{.record = write.record, .version = ++last_version_};
  return WriteOutcome::kCommitted;
}

void MemoryEngine::Scan(ScanFilter filter, size_t limit, std::string resume_key, ScanDone done) {
  if (limit == 0) {
    std::move(done)(absl::InvalidArgumentError("a scan needs a limit above zero"));
    return;
  }
  absl::StatusOr<ScanRange> range = ScanRange::Make(std::move(filter), resume_key);
  if (!range.ok()) {
    std::move(done)(range.status());
    return;
  }
  absl::StatusOr<ScanResult> page = DeadError();
  {
    absl::MutexLock lock(&mutex_);
    Source source(entries_);
    if (alive_) page = RunScan(*range, limit, source);
  }
  std::move(done)(std::move(page));
}

Pressure MemoryEngine::pressure() const {
  absl::MutexLock lock(&mutex_);
  return Pressure{.alive = alive_};
}

std::optional<uint64_t> MemoryEngine::StoredBytes(std::string_view name_space,
                                                  std::optional<std::string_view> scope) const {
  const std::string prefix =
      scope ? ScopePrefix(name_space, *scope, "") : NamespacePrefix(name_space);
  uint64_t bytes = 0;
  std::string encoded;
  absl::MutexLock lock(&mutex_);
  for (auto entry = entries_.lower_bound(prefix);
       entry != entries_.end() && entry->first.compare(0, prefix.size(), prefix) == 0; ++entry) {
    encoded.clear();
    EncodeRecord(*entry->second.record, &encoded);
    bytes += entry->first.size() + encoded.size();
  }
  return bytes;
}

EngineCheck MemoryEngine::CheckStore() {
  constexpr NamedCheck kDurable("memory.durability",
                                "What was acknowledged is to be there after a crash.");
  return {.engine = "memory",
          .findings = {kDurable.Fails("everything is lost when the process ends",
                                      "use it for tests; start with --engine=rocksdb, etcd or "
                                      "postgres for anything else")}};
}

}  // namespace idempotency::keystore
