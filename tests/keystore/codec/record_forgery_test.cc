// Bytes whose checksum is right and whose content nobody wrote: what stands between the
// decoder and them is the grammar alone.
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "keystore/codec/record_codec.h"
#include "keystore/core/invariants.h"
#include "keystore/core/transition.h"
#include "tests/keystore/codec/golden_records.h"
#include "tests/keystore/codec/record_generator.h"

namespace idempotency::keystore {
namespace {

using core::Record;

constexpr uint64_t kSeed = 112'620;

// Whether `body` is read. What is read must be written as exactly that, and keep the rules.
bool IsRead(const std::string& body) {
  const std::string bytes = WithCrc(body);
  const std::optional<Record> record = DecodeRecord(bytes);
  if (!record.has_value()) return false;
  EXPECT_EQ(core::BrokenRule(*record), "") << ToHex(bytes);
  EXPECT_EQ(ToHex(Encoded(*record)), ToHex(bytes));
  return true;
}

const Record& Golden(std::string_view name) {
  for (const GoldenRecord& golden : GoldenRecords()) {
    if (golden.name == name) return golden.record;
  }
  std::abort();
}

struct Forgery {
  std::string_view name;
  std::string_view golden;
  // Hexadecimal, and once in the golden bytes.
  std::string_view was;
  std::string_view is;
};

// The heads of a record, what identifies it, and its times.
constexpr Forgery kForgedFronts[] = {
    {"state 0", "as little as possible", "0101a0", "0100a0"},
    {"state 6", "as little as possible", "0101a0", "0106a0"},
    {"state 7", "as little as possible", "0101a0", "0107a0"},
    {"resolution 5", "complete", "010ad666", "01aad666"},
    {"resolution 7", "complete", "010ad666", "01ead666"},
    {"unknown flag, the next free one", "as little as possible", "0101a0808823", "0101a08088a302"},
    {"unknown flag, the highest", "as little as possible", "0101a0808823",
     "0101a08088a3808080808001"},
    {"time code 3", "as little as possible", "0101a0808823", "0101a0808c23"},
    {"flags not in their shortest form", "as little as possible", "0101a0808823", "0101a08088a300"},
    {"token not in its shortest form", "as little as possible", "0101a080882301",
     "0101a08088238100"},
    {"token of 65 bits", "as little as possible", "0101a080882301",
     "0101a080882381808080808080808002"},
    {"changes of 65 bits", "as little as possible", "0101a08088230101",
     "0101a08088230180808080808080808002"},
    {"attempt written though it is the usual one", "as little as possible", "0101a08088230101",
     "0101a0808833010101"},
    {"attempt_id written though there is none", "as little as possible", "0101a08088230101",
     "0101a0808803010100000000000000000000000000000000"},
    {"fingerprint written though there is none", "as little as possible", "0101a08088230101",
     "0101a082882301010000"},
    {"worker written though there is none", "as little as possible", "0101a08088230101",
     "0101a0848823010100"},
    {"worker of 2^62 bytes", "as little as possible", "0101a08088230101",
     "0101a08488230101808080808080808040"},
    {"worker of 2^64 - 1 bytes", "as little as possible", "0101a08088230101",
     "0101a08488230101ffffffffffffffffff01"},
    {"time written though it is as expected", "as little as possible",
     "0101a0808823010180b083c59868a0dbffc4986880b083c59868",
     "0101a0808a23010180b083c5986800dfd40380b083c59868"},
    {"time written though it is not set", "as little as possible",
     "0101a0808823010180b083c59868a0dbffc4986880b083c59868",
     "0101a0808a23010180b083c59868ffaf83c59868a0dbffc4986880b083c59868"},
};

// The parts behind them.
constexpr Forgery kForgedParts[] = {
    {"terms written though they are the usual ones", "as little as possible",
     "0101a0808823010180b083c59868a0dbffc4986880b083c59868",
     "0101a0809823010180b083c59868a0dbffc4986880b083c5986801"},
    {"terms with unknown_outcome 0", "unresolved, retried", "fe80f0b252", "fc80f0b252"},
    {"terms with a window written though it is zero", "unresolved, retried", "fe80f0b252", "fe00"},
    {"labels written though there are none", "as little as possible",
     "0101a0808823010180b083c59868a0dbffc4986880b083c59868",
     "0101a080a823010180b083c59868a0dbffc4986880b083c5986800"},
    {"2^60 labels", "as little as possible", "0101a0808823010180b083c59868a0dbffc4986880b083c59868",
     "0101a080a823010180b083c59868a0dbffc4986880b083c59868808080808080808010"},
    {"one label more than there is room for", "unresolved, retried", "0206726567696f6e",
     "7f06726567696f6e"},
    {"cause 7", "unresolved, retried", "ae01b10201", "af01b10201"},
    {"unknown with a bit too many", "unresolved, retried", "ae01b10201", "ae05b10201"},
    {"attempt below zero", "unresolved, retried", "b10201ffb26c", "b10205ffb26c"},
    {"attempt above 2^32 - 1", "unresolved, retried", "b10201ffb26c", "b102fcffffff1fffb26c"},
    {"attempt written though it is the record's", "unresolved, retried", "b10201ffb26c",
     "b10200ffb26c"},
    {"ended by verb 0", "complete", "014200a1", "014000a1"},
    {"ended by verb 6", "complete", "014200a1", "014600a1"},
    {"ended with a bit too many", "complete", "014200a1", "01c20100a1"},
    {"ended attempt with the record's id written", "complete", "014200a1",
     "0162000102030405060708090a0b0c0d0e0f10a1"},
    {"ended attempt with no content written", "complete", "014200a1a2a3a4a5a6a7a8a9aaabacadaeafb0",
     "01420000000000000000000000000000000000"},
    {"2^60 ended attempts", "complete", "014200a1", "8080808080808080104200a1"},
    {"event of kind 0", "complete", "02019501", "02009501"},
    {"event of kind 10", "complete", "02019501", "020a9501"},
    {"event with provider_request_id in no known way", "complete", "02019501", "02019503"},
    {"event with the record's provider_request_id written", "complete", "02019501",
     "020195020563685f334d"},
    {"event with a detail written though there is none", "complete", "02019501", "0201950500"},
    {"event with the worker written as actor", "complete", "02019501",
     "0201d50108776f726b65722d37"},
    {"event at a written time that is the one before's", "complete", "02019501", "0231009501"},
    {"event at a written time that is the completion's", "complete", "02019501", "0201b501bc0b"},
    {"event in a written attempt that is the one before's", "complete", "02019501", "0201950900"},
    {"event with a bit too many", "complete", "02019501", "02019511"},
    {"2^60 events", "complete", "02019501", "808080808080808010019501"},
};

void ExpectRefused(const Forgery& row) {
  std::string hex = ToHex(WithoutCrc(Encoded(Golden(row.golden))));
  const size_t at = hex.find(row.was);
  ASSERT_NE(at, std::string::npos) << row.name;
  ASSERT_EQ(hex.find(row.was, at + 1), std::string::npos) << row.name;
  hex.replace(at, row.was.size(), row.is);
  EXPECT_FALSE(DecodeRecord(WithCrc(FromHex(hex))).has_value()) << row.name << ": " << hex;
}

TEST(RecordForgeryTest, WhatTheGrammarDoesNotSayIsRefused) {
  for (const Forgery& row : kForgedFronts) ExpectRefused(row);
  for (const Forgery& row : kForgedParts) ExpectRefused(row);
}

TEST(RecordForgeryTest, EveryFlippedBitIsAnotherRecordOrNone) {
  int read = 0;
  for (const GoldenRecord& golden : GoldenRecords()) {
    const std::string body = WithoutCrc(Encoded(golden.record));
    ASSERT_TRUE(IsRead(body)) << golden.name;
    for (size_t bit = 0; bit < body.size() * 8; ++bit) {
      SCOPED_TRACE(golden.name + ", bit " + std::to_string(bit));
      std::string flipped = body;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
      if (IsRead(flipped)) ++read;
    }
  }
  // Digests and texts may say anything.
  EXPECT_GT(read, 1000);
}

TEST(RecordForgeryTest, EveryReplacedByteIsAnotherRecordOrNone) {
  const std::string body = WithoutCrc(Encoded(Golden("freed by a lapse")));
  for (size_t at = 0; at < body.size(); ++at) {
    SCOPED_TRACE("byte " + std::to_string(at));
    for (int byte = 0; byte < 256; ++byte) {
      std::string replaced = body;
      replaced[at] = static_cast<char>(byte);
      IsRead(replaced);
    }
  }
}

// A few bytes changed, put in or taken out.
std::string Damage(std::string body, RecordGenerator& generator) {
  for (uint64_t n = 1 + generator.Below(3); n > 0 && !body.empty(); --n) {
    const size_t at = generator.Below(body.size());
    switch (generator.Below(4)) {
      case 0:
        body[at] = generator.Bytes(1)[0];
        break;
      case 1:
        body[at] = static_cast<char>(body[at] ^ (1 << generator.Below(8)));
        break;
      case 2:
        body.insert(at, generator.Bytes(1 + generator.Below(3)));
        break;
      default:
        body.erase(at, 1 + generator.Below(3));
        break;
    }
  }
  return body;
}

TEST(RecordForgeryTest, DamagedRecordsAreOtherRecordsOrNone) {
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  RecordGenerator generator(kSeed);
  int read = 0;
  for (int i = 0; i < 500; ++i) {
    const std::string body = WithoutCrc(Encoded(generator.Next()));
    for (int n = 0; n < 10; ++n) {
      SCOPED_TRACE("record " + std::to_string(i) + ", damage " + std::to_string(n));
      if (IsRead(Damage(body, generator))) ++read;
    }
  }
  EXPECT_GT(read, 100);
}

// A record that was read and kept every rule became one that could not be written.
TEST(RecordForgeryTest, WhatTimeMakesOfAnOddRecordCanBeStored) {
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  RecordGenerator generator(kSeed);
  for (int i = 0; i < 5'000; ++i) {
    const Record record = generator.Next();
    for (const core::Time time :
         {core::Time{}, record.lease_expire_time, record.response_expire_time}) {
      const std::optional<Record> observed = core::Observe(record, core::At(time));
      if (!observed.has_value()) continue;
      ASSERT_EQ(core::BrokenRule(*observed), "") << ToHex(Encoded(record));
      ASSERT_EQ(DecodeRecord(Encoded(*observed)), observed) << ToHex(Encoded(record));
    }
  }
}

TEST(RecordForgeryTest, RandomBytesAreHarmless) {
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  RecordGenerator generator(kSeed);
  for (int i = 0; i < 20'000; ++i) {
    const std::string noise = generator.Bytes(generator.Below(200));
    EXPECT_FALSE(DecodeRecord(noise).has_value()) << ToHex(noise);
    IsRead('\x01' + noise);
  }
}

}  // namespace
}  // namespace idempotency::keystore
