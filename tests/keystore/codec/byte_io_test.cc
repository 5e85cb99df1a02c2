#include "keystore/codec/byte_io.h"

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace idempotency::keystore {
namespace {

using ::testing::SizeIs;

constexpr uint64_t kMax64 = std::numeric_limits<uint64_t>::max();
constexpr uint32_t kMax32 = std::numeric_limits<uint32_t>::max();

TEST(ByteIoTest, VarintsTakeSevenBitsAByteAndComeBack) {
  for (int bits = 0; bits <= 64; ++bits) {
    const uint64_t power = bits == 64 ? 0 : uint64_t{1} << bits;
    for (const uint64_t value : {power - 1, power, power + 1}) {
      SCOPED_TRACE(value);
      std::string bytes;
      ByteWriter(&bytes).Varint(value);
      size_t expected_size = 1;
      for (uint64_t rest = value >> 7; rest != 0; rest >>= 7) ++expected_size;
      EXPECT_THAT(bytes, SizeIs(expected_size));
      ByteReader reader(bytes);
      EXPECT_EQ(reader.Varint(), value);
      EXPECT_TRUE(reader.ok() && reader.AtEnd());
    }
  }
}

TEST(ByteIoTest, SignedNumbersNearZeroTakeOneByteAndAllComeBack) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  for (const int64_t value : {int64_t{0}, int64_t{-64}, int64_t{63}, int64_t{-65}, int64_t{64},
                              kMin, kMin + 1, kMax - 1, kMax}) {
    SCOPED_TRACE(value);
    std::string bytes;
    ByteWriter(&bytes).Signed(value);
    EXPECT_EQ(bytes.size() == 1, value >= -64 && value <= 63);
    ByteReader reader(bytes);
    EXPECT_EQ(reader.Signed(), value);
    EXPECT_TRUE(reader.ok() && reader.AtEnd());
  }
}

TEST(ByteIoTest, FixedNumbersHaveTheirByteOrder) {
  std::string bytes;
  ByteWriter writer(&bytes);
  writer.Fixed32(0x01020304);
  writer.Fixed64(0x0102030405060708);
  EXPECT_EQ(bytes, "\x04\x03\x02\x01\x01\x02\x03\x04\x05\x06\x07\x08");
  ByteReader reader(bytes);
  EXPECT_EQ(reader.Fixed32(), 0x01020304u);
  EXPECT_EQ(reader.Fixed64(), 0x0102030405060708u);
  EXPECT_TRUE(reader.ok() && reader.AtEnd());
}

struct BadVarint {
  const char* name;
  std::string bytes;
};

TEST(ByteIoTest, VarintsThatNobodyWritesFail) {
  const std::vector<BadVarint> rows = {
      {"nothing", ""},
      {"cut", "\x80"},
      {"zero in two bytes", std::string("\x80\x00", 2)},
      {"one in three bytes", std::string("\x81\x80\x00", 3)},
      {"bit 64", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"},
      {"eleven bytes", "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x81\x01"},
  };
  for (const BadVarint& row : rows) {
    ByteReader reader(row.bytes);
    EXPECT_EQ(reader.Varint(), 0u) << row.name;
    EXPECT_FALSE(reader.ok()) << row.name;
    EXPECT_TRUE(reader.AtEnd()) << row.name;
  }
}

TEST(ByteIoTest, ThirtyTwoBitsAreNotExceeded) {
  std::string bytes;
  ByteWriter writer(&bytes);
  writer.Varint(kMax32);
  writer.Varint(uint64_t{kMax32} + 1);
  ByteReader reader(bytes);
  EXPECT_EQ(reader.Varint32(), kMax32);
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(reader.Varint32(), 0u);
  EXPECT_FALSE(reader.ok());
}

TEST(ByteIoTest, LengthsAreHeldAgainstWhatIsLeft) {
  for (const uint64_t length : {uint64_t{4}, uint64_t{1} << 40, kMax64}) {
    SCOPED_TRACE(length);
    std::string bytes;
    ByteWriter(&bytes).Varint(length);
    bytes += "abc";
    ByteReader reader(bytes);
    EXPECT_EQ(reader.Bytes(), "");
    EXPECT_FALSE(reader.ok());
  }
  ByteReader reader(
      "\x03"
      "abc");
  EXPECT_EQ(reader.Bytes(), "abc");
  EXPECT_TRUE(reader.ok() && reader.AtEnd());
}

TEST(ByteIoTest, AFailureIsForGood) {
  ByteReader reader("\x01\x02\x03");
  reader.Fail();
  EXPECT_EQ(reader.Byte(), 0);
  EXPECT_EQ(reader.Varint(), 0u);
  EXPECT_EQ(reader.Signed(), 0);
  EXPECT_EQ(reader.Fixed32(), 0u);
  EXPECT_EQ(reader.Fixed64(), 0u);
  EXPECT_EQ(reader.Bytes(), "");
  EXPECT_FALSE(reader.ok());
}

}  // namespace
}  // namespace idempotency::keystore
