#include "keystore/codec/record_codec.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "keystore/core/invariants.h"
#include "keystore/core/limits.h"
#include "tests/keystore/codec/golden_records.h"
#include "tests/keystore/codec/record_generator.h"

namespace idempotency::keystore {
namespace {

using core::Digest;
using core::Record;
using core::State;
using core::Time;
using ::testing::Each;
using ::testing::Gt;
using ::testing::Le;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr uint64_t kSeed = 20'261'129;

TEST(RecordCodecTest, EveryRecordComesBack) {
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  RecordGenerator generator(kSeed);
  std::map<State, int> seen;
  for (int i = 0; i < 3'000; ++i) {
    const Record record = generator.Next();
    const std::string bytes = Encoded(record);
    const std::optional<Record> decoded = DecodeRecord(bytes);
    ASSERT_TRUE(decoded.has_value()) << "record " << i << ": " << ToHex(bytes);
    ASSERT_TRUE(*decoded == record) << "record " << i << ": " << ToHex(bytes);
    ++seen[record.state];
  }
  // The generator must not have got stuck in some states.
  EXPECT_THAT(seen, SizeIs(5));
  EXPECT_THAT(seen, Each(Pair(::testing::_, Gt(100))));
}

TEST(RecordCodecTest, DifferentRecordsAreDifferentBytes) {
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  RecordGenerator generator(kSeed);
  std::map<std::string, int> seen;
  for (int i = 0; i < 1'000; ++i) {
    const auto [at, is_new] = seen.emplace(Encoded(generator.Next()), i);
    EXPECT_TRUE(is_new) << "records " << at->second << " and " << i;
  }
}

TEST(RecordCodecTest, AppendsToWhatIsThere) {
  const Record& record = GoldenRecords().front().record;
  std::string bytes = "before";
  EncodeRecord(record, &bytes);
  EncodeRecord(record, &bytes);
  EXPECT_EQ(bytes, "before" + Encoded(record) + Encoded(record));
}

// What a service with the defaults stores for a call that took a second: a fingerprint, a
// worker, the provider's id and a JSON body of 100 bytes.
Record LeanComplete() {
  constexpr Time kCreate{std::chrono::milliseconds(1'790'000'000'000)};
  Record record;
  record.state = State::kComplete;
  record.token = (uint64_t{3} << 32) + 1'234'567;
  record.attempt = 1;
  record.attempt_id = Digest{0x0123456789abcdef, 0xfedcba9876543210};
  record.changes = 2;
  record.fingerprint = {"sha256/jcs-1", std::string(32, '\x5a')};
  record.owner.worker = "worker-7";
  record.create_time = kCreate;
  record.complete_time = kCreate + std::chrono::milliseconds(1'034);
  record.update_time = record.complete_time;
  record.response_expire_time = record.complete_time + core::kDay;
  record.forget_time = record.response_expire_time + 30 * core::kDay;
  record.started = true;
  record.dispatched = true;
  record.verdict = core::Verdict::kSucceeded;
  record.response.bytes = core::Blob(std::string(100, 'x'));
  record.ended = {core::EndedAttempt{.token = record.token,
                                     .attempt = 1,
                                     .attempt_id = record.attempt_id,
                                     .verb = core::EndVerb::kCompleted,
                                     .content = Digest{0x1111, 0x2222}}};
  record.history = {core::Event{.kind = core::EventKind::kAcquired,
                                .time = record.create_time,
                                .attempt = 1,
                                .actor = "worker-7"},
                    core::Event{.kind = core::EventKind::kCompleted,
                                .time = record.complete_time,
                                .attempt = 1,
                                .actor = "worker-7"}};
  return record;
}

TEST(RecordCodecTest, ACompletedRecordIsLean) {
  const Record record = LeanComplete();
  ASSERT_EQ(core::BrokenRule(record), "");
  const std::string bytes = Encoded(record);
  ASSERT_TRUE(DecodeRecord(bytes).has_value());
  // Two digests, the fingerprint with the name of its algorithm, the worker's name.
  constexpr size_t kGiven = 100 + 2 * 16 + 12 + 32 + 8;
  EXPECT_THAT(bytes, SizeIs(Le(kGiven + 32))) << ToHex(bytes);
}

TEST(RecordCodecTest, AnAnswerOfTheGreatestSizeComesBack) {
  Record record = LeanComplete();
  RecordGenerator generator(kSeed);
  record.response.bytes = core::Blob(generator.Bytes(core::kMaxResponseBytes));
  const std::optional<Record> decoded = DecodeRecord(Encoded(record));
  ASSERT_TRUE(decoded.has_value());
  EXPECT_TRUE(*decoded == record);
}

TEST(RecordCodecTest, NoAnswerIsNotAnEmptyAnswer) {
  Record record = LeanComplete();
  for (const core::Blob& blob : {core::Blob(), core::Blob(std::string())}) {
    record.response.bytes = blob;
    const std::optional<Record> decoded = DecodeRecord(Encoded(record));
    ASSERT_TRUE(decoded.has_value());
    EXPECT_EQ(decoded->response.bytes.present(), blob.present());
  }
}

struct BrokenRow {
  const char* name;
  std::function<void(Record&)> break_it;
};

TEST(RecordCodecTest, RecordsThatBreakARuleAreNotRead) {
  const std::vector<BrokenRow> rows = {
      {"no token", [](Record& r) { r.token = 0; }},
      {"token beyond 2^53", [](Record& r) { r.token = core::kMaxFencingToken + 1; }},
      {"no attempt", [](Record& r) { r.attempt = 0; }},
      {"no change", [](Record& r) { r.changes = 0; }},
      {"no creation", [](Record& r) { r.create_time = Time{}; }},
      {"complete and pending", [](Record& r) { r.state = State::kPending; }},
      {"complete and unresolved", [](Record& r) { r.state = State::kUnresolved; }},
      {"complete and freed", [](Record& r) { r.state = State::kFreed; }},
      {"expired with its answer", [](Record& r) { r.state = State::kExpired; }},
      {"complete without a verdict", [](Record& r) { r.verdict = core::Verdict::kNone; }},
      {"complete at no time", [](Record& r) { r.complete_time = Time{}; }},
      {"complete for ever", [](Record& r) { r.response_expire_time = Time{}; }},
      {"complete and unknown", [](Record& r) { r.unknown.emplace(); }},
      {"complete with an earlier unknown", [](Record& r) { r.earlier.emplace(); }},
      {"never forgotten", [](Record& r) { r.forget_time = Time{}; }},
      {"newest attempt not ended", [](Record& r) { r.ended.clear(); }},
      {"ended attempt above the newest token", [](Record& r) { r.ended.back().token += 1; }},
      {"ended attempts of one token", [](Record& r) { r.ended.push_back(r.ended.back()); }},
      {"labels out of order",
       [](Record& r) {
         r.labels = {{"b", ""}, {"a", ""}};
       }},
      {"one event too many",
       [](Record& r) { r.history.resize(core::kMaxHistoryEvents + 1, r.history.back()); }},
      {"one ended attempt too many",
       [](Record& r) {
         r.ended.assign(core::kMaxEndedAttempts + 1, r.ended.back());
         for (size_t i = 0; i < r.ended.size(); ++i) r.ended[i].token -= r.ended.size() - 1 - i;
       }},
  };
  ASSERT_TRUE(DecodeRecord(Encoded(LeanComplete())).has_value());
  for (const BrokenRow& row : rows) {
    Record record = LeanComplete();
    row.break_it(record);
    EXPECT_NE(core::BrokenRule(record), "") << row.name;
    EXPECT_FALSE(DecodeRecord(Encoded(record)).has_value()) << row.name;
  }
}

}  // namespace
}  // namespace idempotency::keystore
