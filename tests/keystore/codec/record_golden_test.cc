// The bytes as they are written down, and everything that is not quite them.
#include <optional>
#include <string>
#include <string_view>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "keystore/codec/record_codec.h"
#include "keystore/core/invariants.h"
#include "tests/keystore/codec/golden_records.h"

namespace idempotency::keystore {
namespace {

class GoldenTest : public ::testing::TestWithParam<GoldenRecord> {};

INSTANTIATE_TEST_SUITE_P(All, GoldenTest, ::testing::ValuesIn(GoldenRecords()),
                         [](const ::testing::TestParamInfo<GoldenRecord>& row) {
                           std::string name;
                           for (const char c : row.param.name) {
                             if (c != ',') name += c == ' ' ? '_' : c;
                           }
                           return name;
                         });

TEST_P(GoldenTest, IsARecord) { EXPECT_EQ(core::BrokenRule(GetParam().record), ""); }

TEST_P(GoldenTest, Encodes) { EXPECT_EQ(ToHex(Encoded(GetParam().record)), GetParam().hex); }

TEST_P(GoldenTest, Decodes) {
  const std::optional<core::Record> record = DecodeRecord(FromHex(GetParam().hex));
  ASSERT_TRUE(record.has_value());
  EXPECT_TRUE(*record == GetParam().record);
}

TEST_P(GoldenTest, EveryFlippedBitIsSeen) {
  const std::string bytes = FromHex(GetParam().hex);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(DecodeRecord(flipped).has_value()) << "bit " << bit % 8 << " of byte " << bit / 8;
  }
}

TEST_P(GoldenTest, EveryCutIsSeen) {
  const std::string bytes = FromHex(GetParam().hex);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(DecodeRecord(bytes.substr(0, size)).has_value()) << "first " << size;
    EXPECT_FALSE(DecodeRecord(bytes.substr(bytes.size() - size)).has_value()) << "last " << size;
    // Also where somebody has made the checksum anew.
    if (size + 4 < bytes.size()) {
      EXPECT_FALSE(DecodeRecord(WithCrc(bytes.substr(0, size))).has_value()) << "whole " << size;
    }
  }
}

TEST_P(GoldenTest, EveryTrailingByteIsSeen) {
  const std::string bytes = FromHex(GetParam().hex);
  for (int byte = 0; byte < 256; ++byte) {
    const char trailing = static_cast<char>(byte);
    EXPECT_FALSE(DecodeRecord(bytes + trailing).has_value()) << byte;
    EXPECT_FALSE(DecodeRecord(WithCrc(WithoutCrc(bytes) + trailing)).has_value()) << byte;
  }
}

TEST_P(GoldenTest, OtherFormatsAreRefused) {
  std::string body = WithoutCrc(FromHex(GetParam().hex));
  for (int format = 0; format < 256; ++format) {
    body[0] = static_cast<char>(format);
    EXPECT_EQ(DecodeRecord(WithCrc(body)).has_value(), format == 1) << format;
  }
}

}  // namespace
}  // namespace idempotency::keystore
