#include "tests/keystore/engine/engine_calls.h"

#include <gtest/gtest.h>

#include <iterator>
#include <optional>
#include <utility>
#include <variant>

#include "absl/synchronization/notification.h"
#include "keystore/engine/transfer/record_export.h"
#include "keystore/engine/transfer/retirement.h"
#include "tests/keystore/engine/records.h"
#include "tests/support/becomes_true.h"

namespace idempotency::keystore {
namespace {

constexpr int kMaxTries = 1000;
constexpr int kMaxPages = 10'000;

bool IsStored(const core::Stored& stored, const core::RecordPtr& record) {
  if (record == nullptr) return std::holds_alternative<core::Absent>(stored);
  const auto* found = std::get_if<core::Record>(&stored);
  return found != nullptr && *found == *record;
}

}  // namespace

core::Key PayKey(std::string key) {
  return core::Key{.name_space = "pay", .scope = "acme", .key = std::move(key)};
}

absl::StatusOr<ReadResult> Read(Engine& engine, std::vector<core::Key> keys) {
  absl::Notification answered;
  absl::StatusOr<ReadResult> result;
  engine.Read(std::move(keys), [&](absl::StatusOr<ReadResult> got) {
    result = std::move(got);
    answered.Notify();
  });
  answered.WaitForNotification();
  return result;
}

std::vector<WriteOutcome> Commit(Engine& engine, std::vector<GuardedWrite> writes) {
  absl::Notification answered;
  std::vector<WriteOutcome> outcomes;
  engine.Commit(std::move(writes), [&](std::vector<WriteOutcome> got) {
    outcomes = std::move(got);
    answered.Notify();
  });
  answered.WaitForNotification();
  return outcomes;
}

absl::StatusOr<ScanResult> Scan(Engine& engine, ScanFilter filter, size_t limit,
                                std::string resume_key) {
  absl::Notification answered;
  absl::StatusOr<ScanResult> result;
  engine.Scan(std::move(filter), limit, std::move(resume_key), [&](absl::StatusOr<ScanResult> got) {
    result = std::move(got);
    answered.Notify();
  });
  answered.WaitForNotification();
  return result;
}

ReadEntry ReadOne(Engine& engine, const core::Key& key) {
  absl::StatusOr<ReadResult> result = Read(engine, {key});
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok() || result->entries.size() != 1) return ReadEntry{};
  return std::move(result->entries.front());
}

absl::StatusOr<ReadResult> ReadWhenAnswered(Engine& engine, const core::Key& key) {
  absl::StatusOr<ReadResult> read;
  BecomesTrue([&] {
    read = Read(engine, {key});
    return read.ok();
  });
  return read;
}

void Store(Engine& engine, const core::Key& key, const core::RecordPtr& record) {
  for (int i = 0; i < kMaxTries; ++i) {
    const ReadEntry before = ReadOne(engine, key);
    const WriteOutcome outcome =
        Commit(engine, {{.key = key, .expected = before.version, .record = record}}).at(0);
    if (outcome == WriteOutcome::kCommitted) return;
    if (outcome == WriteOutcome::kUnknown) {
      ASSERT_TRUE(engine.pressure().alive) << "the engine has died";
      if (IsStored(ReadOne(engine, key).stored, record)) return;
    }
  }
  FAIL() << "no write of " << key.key << " got through";
}

std::vector<ScanEntry> ScanAll(Engine& engine, const ScanFilter& filter, size_t limit) {
  std::vector<ScanEntry> entries;
  std::string resume_key;
  for (int page = 0; page < kMaxPages; ++page) {
    absl::StatusOr<ScanResult> result = Scan(engine, filter, limit, resume_key);
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return entries;
    EXPECT_LE(result->entries.size(), limit);
    std::move(result->entries.begin(), result->entries.end(), std::back_inserter(entries));
    resume_key = std::move(result->resume_key);
    if (resume_key.empty()) return entries;
  }
  ADD_FAILURE() << "the scan does not end";
  return entries;
}

absl::Status RetireBy(Engine& engine) {
  const auto never = [] { return false; };
  const auto totals = ReadTotals(&engine, never);
  if (!totals.ok()) return totals.status();
  const Retirement wanted{
      .time = kStart, .actor = "ann", .moved_to = "elsewhere", .digest = totals->digest};
  return Retire(&engine, wanted, never).status();
}

}  // namespace idempotency::keystore
