// Space comes back by compaction, and only then and only where it may: what reads show never
// depends on it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "keystore/codec/record_codec.h"
#include "keystore/core/limits.h"
#include "keystore/core/record.h"
#include "keystore/core/transition.h"
#include "keystore/engine/engine.h"
#include "keystore/engine/expiry_filter.h"
#include "keystore/engine/stored_value.h"
#include "tests/keystore/engine/engine_calls.h"
#include "tests/keystore/engine/records.h"
#include "tests/keystore/engine/rocksdb_fixture.h"

namespace idempotency::keystore {
namespace {

using namespace std::chrono_literals;

// The default policy: a day of retention, then 30 days of memory.
constexpr core::Time kRetained = kStart + core::kDay;
constexpr core::Time kForgotten = kRetained + 30 * core::kDay;

class RocksDbExpiry : public ::testing::Test {
 protected:
  RocksDbEngine& engine() { return fixture_.engine(); }

  void CompactAt(const core::Now& now) {
    fixture_.surroundings().SetNow(now);
    const absl::Status status = engine().Compact();
    EXPECT_TRUE(status.ok()) << status;
  }

  core::Stored StoredAs(const std::string& key) { return ReadOne(engine(), PayKey(key)).stored; }
  std::optional<core::State> StateOf(const std::string& key) {
    const core::Stored stored = StoredAs(key);
    const auto* record = std::get_if<core::Record>(&stored);
    return record == nullptr ? std::nullopt : std::optional(record->state);
  }
  bool IsAbsent(const std::string& key) {
    return std::holds_alternative<core::Absent>(StoredAs(key));
  }

  RocksDbFixture fixture_;
};

TEST_F(RocksDbExpiry, IsSeenOnReadWithCompactionOff) {
  fixture_.options.disable_auto_compactions = true;
  ASSERT_NE(fixture_.Open(), nullptr);
  Store(engine(), PayKey("a"), CompleteRecord());
  fixture_.surroundings().SetNow(core::At(kForgotten));
  // It is stored as it was written; what it is now, Observe says.
  const core::Stored stored = StoredAs("a");
  ASSERT_TRUE(std::holds_alternative<core::Record>(stored));
  const auto& record = std::get<core::Record>(stored);
  EXPECT_EQ(record, *CompleteRecord());
  EXPECT_EQ(core::Observe(record, core::At(kRetained))->state, core::State::kExpired);
  EXPECT_EQ(core::Observe(record, core::At(kForgotten)), std::nullopt);
}

struct Moment {
  std::string name;
  core::Now now;
  std::optional<core::State> expected;
};

TEST_F(RocksDbExpiry, ShrinksWhatExpiredAndRemovesWhatIsForgottenAnHourLate) {
  const std::vector<Moment> moments = {
      {"before retention ends", core::At(kRetained - 1ms), core::State::kComplete},
      {"an hour less 1 ms after it", core::At(kRetained + 1h - 1ms), core::State::kComplete},
      {"an hour after it", core::At(kRetained + 1h), core::State::kExpired},
      {"an hour and 1 ms after it", core::At(kRetained + 1h + 1ms), core::State::kExpired},
      {"just before the memory ends", core::At(kForgotten + 1h - 1ms), core::State::kExpired},
      {"an hour after the memory ended", core::At(kForgotten + 1h), std::nullopt},
  };
  ASSERT_NE(fixture_.Open(), nullptr);
  Store(engine(), PayKey("a"), CompleteRecord(1, std::string(1000, 'b')));
  for (const Moment& moment : moments) {
    CompactAt(moment.now);
    EXPECT_EQ(StateOf("a"), moment.expected) << moment.name;
  }
  EXPECT_EQ(fixture_.Stored(Family::kFinished, PayKey("a")), std::nullopt);
}

TEST_F(RocksDbExpiry, RemovesAtOnceWhatWasForgottenUncompacted) {
  ASSERT_NE(fixture_.Open(), nullptr);
  Store(engine(), PayKey("a"), CompleteRecord());
  CompactAt(core::At(kForgotten + 1h));
  EXPECT_TRUE(IsAbsent("a"));
}

TEST_F(RocksDbExpiry, TheTombstoneIsWhatObserveMakesAndTakesLessSpace) {
  ASSERT_NE(fixture_.Open(), nullptr);
  const core::RecordPtr complete = CompleteRecord(1, std::string(1000, 'b'));
  Store(engine(), PayKey("a"), complete);
  const Version version = ReadOne(engine(), PayKey("a")).version;
  const size_t before = fixture_.Stored(Family::kFinished, PayKey("a"))->size();
  CompactAt(core::At(kRetained + 1h));
  const ReadEntry entry = ReadOne(engine(), PayKey("a"));
  EXPECT_EQ(std::get<core::Record>(entry.stored), *core::Observe(*complete, core::At(kRetained)));
  // It means the same as before, so that a guard from before still holds.
  EXPECT_EQ(entry.version, version);
  const size_t after = fixture_.Stored(Family::kFinished, PayKey("a"))->size();
  EXPECT_LT(after + 1000, before);
}

TEST_F(RocksDbExpiry, GivesBackTheSpaceOnDisk) {
  ASSERT_NE(fixture_.Open(), nullptr);
  for (int i = 0; i < 200; ++i) {
    std::string body;
    for (int j = 0; j < 1000; ++j) body.push_back(static_cast<char>((i * 131 + j * j * 7) % 251));
    Store(engine(), PayKey(std::to_string(i)), CompleteRecord(1, body));
  }
  CompactAt(core::At(kStart));
  const uint64_t full = engine().stats().table_bytes;
  CompactAt(core::At(kRetained + 1h));
  const uint64_t shrunk = engine().stats().table_bytes;
  CompactAt(core::At(kForgotten + 1h));
  const uint64_t forgotten = engine().stats().table_bytes;
  EXPECT_LT(shrunk, full / 2);
  EXPECT_LT(forgotten, shrunk / 4);
  EXPECT_EQ(engine().stats().estimated_keys, 0u);
}

TEST_F(RocksDbExpiry, NeverTouchesWhatIsOpen) {
  ASSERT_NE(fixture_.Open(), nullptr);
  core::Policy rerun;
  rerun.terms.unknown_outcome = core::UnknownOutcome::kRerun;
  // This one is forgotten by now, and the sweeper's to remove.
  const core::RecordPtr to_be_forgotten = Story(kStart, rerun).Reserve().Mark().ptr();
  Store(engine(), PayKey("pending"), PendingRecord());
  Store(engine(), PayKey("unresolved"), UnresolvedRecord());
  Store(engine(), PayKey("to be forgotten"), to_be_forgotten);
  CompactAt(core::At(kStart + 400 * core::kDay));
  EXPECT_EQ(std::get<core::Record>(StoredAs("pending")), *PendingRecord());
  EXPECT_EQ(std::get<core::Record>(StoredAs("unresolved")), *UnresolvedRecord());
  EXPECT_EQ(std::get<core::Record>(StoredAs("to be forgotten")), *to_be_forgotten);
}

TEST_F(RocksDbExpiry, NeverTouchesWhatIsOpenWhereverItHasGotTo) {
  ASSERT_NE(fixture_.Open(), nullptr);
  core::Policy rerun;
  rerun.terms.unknown_outcome = core::UnknownOutcome::kRerun;
  const core::RecordPtr record = Story(kStart, rerun).Reserve().Mark().ptr();
  std::string value;
  ASSERT_TRUE(EncodeValue({RecordSealer(), ""}, 1, *record, &value));
  fixture_.Plant(Family::kFinished, PayKey("a"), value);
  CompactAt(core::At(kStart + 400 * core::kDay));
  EXPECT_EQ(std::get<core::Record>(StoredAs("a")), *record);
}

TEST_F(RocksDbExpiry, FreedRecordsGoWhenTheyAreForgotten) {
  ASSERT_NE(fixture_.Open(), nullptr);
  Store(engine(), PayKey("a"), Story().Reserve().Release().ptr());
  CompactAt(core::At(kStart + core::kFreedMemory + 1h - 1ms));
  EXPECT_EQ(StateOf("a"), core::State::kFreed);
  CompactAt(core::At(kStart + core::kFreedMemory + 1h));
  EXPECT_TRUE(IsAbsent("a"));
}

TEST_F(RocksDbExpiry, StandsStillWhileTheClockIsInDoubt) {
  ASSERT_NE(fixture_.Open(), nullptr);
  Store(engine(), PayKey("a"), CompleteRecord());
  core::Now now = core::At(kForgotten + 400 * core::kDay);
  now.in_doubt = true;
  CompactAt(now);
  EXPECT_EQ(StateOf("a"), core::State::kComplete);
  now.in_doubt = false;
  CompactAt(now);
  EXPECT_TRUE(IsAbsent("a"));
}

TEST_F(RocksDbExpiry, KeepsWhatMustNotBeReclaimed) {
  fixture_.options.engine.may_reclaim = [](std::string_view name_space) {
    return name_space != "retired";
  };
  ASSERT_NE(fixture_.Open(), nullptr);
  const core::Key retired{"retired", "s", "a"};
  const core::Key active{"active", "s", "a"};
  Store(engine(), retired, CompleteRecord());
  Store(engine(), active, CompleteRecord());
  CompactAt(core::At(kForgotten + 1h));
  EXPECT_EQ(std::get<core::Record>(ReadOne(engine(), retired).stored), *CompleteRecord());
  EXPECT_TRUE(std::holds_alternative<core::Absent>(ReadOne(engine(), active).stored));
}

TEST_F(RocksDbExpiry, KeepsWhatItCannotRead) {
  ASSERT_NE(fixture_.Open(), nullptr);
  std::string flipped;
  ASSERT_TRUE(EncodeValue({RecordSealer(), ""}, 5, *CompleteRecord(), &flipped));
  flipped.back() ^= 1;
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"empty", ""}, {"noise", "\xff\xff\xff"}, {"a flipped bit", flipped}};
  for (const auto& [name, bytes] : rows) fixture_.Plant(Family::kFinished, PayKey(name), bytes);
  CompactAt(core::At(kForgotten + 400 * core::kDay));
  for (const auto& [name, bytes] : rows) {
    EXPECT_TRUE(std::holds_alternative<core::Unreadable>(StoredAs(name))) << name;
    EXPECT_EQ(fixture_.Stored(Family::kFinished, PayKey(name)), bytes) << name;
  }
}

TEST_F(RocksDbExpiry, DoesNotBringBackWhatANewerWriteReplaced) {
  ASSERT_NE(fixture_.Open(), nullptr);
  Store(engine(), PayKey("a"), CompleteRecord(1));
  CompactAt(core::At(kStart));
  // Forgotten and taken up anew: the old record lies below the new one's removal.
  Store(engine(), PayKey("a"), PendingRecord(2));
  CompactAt(core::At(kForgotten + 1h));
  EXPECT_EQ(std::get<core::Record>(StoredAs("a")), *PendingRecord(2));
  Store(engine(), PayKey("a"), nullptr);
  CompactAt(core::At(kForgotten + 1h));
  EXPECT_TRUE(IsAbsent("a"));
}

}  // namespace
}  // namespace idempotency::keystore
