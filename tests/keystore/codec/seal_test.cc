// Published vectors for what sealing is made of, and sealed records: what is written down, what
// comes back, and that nothing else does.
#include "keystore/codec/seal.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "keystore/codec/key_codec.h"
#include "keystore/codec/record_codec.h"
#include "tests/keystore/codec/golden_records.h"
#include "tests/keystore/codec/record_generator.h"

namespace idempotency::keystore {
namespace {

using core::Record;

// --- Vectors
// ---------------------------------------------------------------------------------------

std::string Bytes(int first, int last) {
  std::string bytes;
  for (int byte = first; byte <= last; ++byte) bytes += static_cast<char>(byte);
  return bytes;
}

TEST(HkdfTest, GivesWhatRfc5869Says) {
  EXPECT_EQ(ToHex(HkdfSha256(std::string(22, '\x0b'), Bytes(0x00, 0x0c), Bytes(0xf0, 0xf9), 42)),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"
            "34007208d5b887185865");
  EXPECT_EQ(ToHex(HkdfSha256(Bytes(0x00, 0x4f), Bytes(0x60, 0xaf), Bytes(0xb0, 0xff), 82)),
            "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c"
            "59045a99cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71"
            "cc30c58179ec3e87c14c01d5c1f3434f1d87");
  EXPECT_EQ(ToHex(HkdfSha256(std::string(22, '\x0b'), "", "", 42)),
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"
            "9d201395faa4b61a96c8");
}

// Test cases 13, 14 and 16 of the specification of GCM that was submitted to NIST.
TEST(GcmTest, GivesWhatTheSpecificationSays) {
  const std::string zeros(32, '\0');
  EXPECT_EQ(ToHex(Aes256Gcm(zeros, zeros.substr(0, 12), "", "")),
            "530f8afbc74536b9a963b4f1c4cb738b");
  EXPECT_EQ(ToHex(Aes256Gcm(zeros, zeros.substr(0, 12), "", zeros.substr(0, 16))),
            "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919");
  EXPECT_EQ(
      ToHex(Aes256Gcm(FromHex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308"),
                      FromHex("cafebabefacedbaddecaf888"),
                      FromHex("feedfacedeadbeeffeedfacedeadbeefabaddad2"),
                      FromHex("d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
                              "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"))),
      "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
      "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662"
      "76fc6ece0f4e1768cddf8853bb2d551b");
}

// --- Sealed bytes
// ----------------------------------------------------------------------------------

const std::string& Secret() {
  static const auto& secret = *new std::string(Bytes(0x40, 0x5f));
  return secret;
}
SealKey Key(std::string_view id = "k1") { return {.id = id, .secret = Secret()}; }
const std::string& Salt() {
  static const auto& salt = *new std::string(Bytes(0x20, 0x2f));
  return salt;
}

TEST(SealTest, OpensWhatItHasSealedAndNothingElse) {
  for (const std::string& plain : {std::string(), std::string("x"), std::string(70'000, 'y')}) {
    std::string sealed = "before";
    ASSERT_TRUE(Seal(Key(), Salt(), "bound", plain, &sealed));
    sealed.erase(0, 6);
    EXPECT_EQ(sealed.size(), plain.size() + kSealTagBytes);
    EXPECT_EQ(Unseal(Key(), Salt(), "bound", sealed), plain);

    EXPECT_EQ(Unseal(Key(), Salt(), "bounds", sealed), std::nullopt);
    EXPECT_EQ(Unseal(Key(), std::string(16, 'z'), "bound", sealed), std::nullopt);
    const std::string other(32, 'q');
    EXPECT_EQ(Unseal({.id = "k1", .secret = other}, Salt(), "bound", sealed), std::nullopt);
    EXPECT_EQ(Unseal(Key(), Salt(), "bound", sealed + "x"), std::nullopt);
    EXPECT_EQ(Unseal(Key(), Salt(), "bound", sealed.substr(1)), std::nullopt);
    EXPECT_EQ(Unseal(Key(), Salt(), "bound", sealed.substr(0, sealed.size() - 1)), std::nullopt);
    EXPECT_EQ(Unseal(Key(), Salt(), "bound", ""), std::nullopt);
  }
}

TEST(SealTest, HasAKeyOfItsOwnForEachSalt) {
  std::string first;
  std::string second;
  ASSERT_TRUE(Seal(Key(), Salt(), "", "the same", &first));
  ASSERT_TRUE(Seal(Key(), std::string(16, 'z'), "", "the same", &second));
  EXPECT_NE(first, second);
}

// --- Sealed records
// --------------------------------------------------------------------------------

class Ring final : public SealKeys {
 public:
  explicit Ring(std::string known = "k1") : known_(std::move(known)) {}
  std::optional<SealKey> Find(std::string_view id) const override {
    return id == known_ ? std::optional<SealKey>(Key(known_)) : std::nullopt;
  }

 private:
  const std::string known_;
};

const std::string& Place() {
  static const auto& place = *new std::string(EncodeKey({"payments", "acct-1", "order-1"}));
  return place;
}

std::string Sealed(const Record& record) {
  std::string bytes;
  EXPECT_TRUE(SealRecord(record, {.key = Key(), .salt = Salt(), .stored_key = Place()}, &bytes));
  return bytes;
}

const Record& Golden(std::string_view name) {
  for (const GoldenRecord& golden : GoldenRecords()) {
    if (golden.name == name) return golden.record;
  }
  ADD_FAILURE() << name;
  return GoldenRecords().front().record;
}

TEST(SealedRecordTest, EveryRecordComesBack) {
  constexpr uint64_t kSeed = 20'261'130;
  RecordGenerator generator(kSeed);
  std::map<bool, int> seen;
  for (int i = 0; i < 1'000; ++i) {
    const Record record = generator.Next();
    const std::string bytes = Sealed(record);
    const std::optional<OpenedRecord> opened = OpenRecord(bytes, Place(), Ring());
    ASSERT_TRUE(opened.has_value()) << "record " << i << ", seed " << kSeed;
    ASSERT_TRUE(opened->record == record) << "record " << i << ", seed " << kSeed;
    EXPECT_FALSE(opened->key_missing);
    EXPECT_EQ(opened->key_id, IsSealable(record) ? "k1" : "");
    // What has nothing to seal is as it always was.
    EXPECT_EQ(DecodeRecord(bytes).has_value(), !IsSealable(record));
    EXPECT_EQ(bytes == Encoded(record), !IsSealable(record));
    ++seen[IsSealable(record)];
  }
  EXPECT_GT(seen[true], 100);
  EXPECT_GT(seen[false], 100);
}

TEST(SealedRecordTest, PlainRecordsAreOpenedToo) {
  for (const GoldenRecord& golden : GoldenRecords()) {
    const std::optional<OpenedRecord> opened =
        OpenRecord(FromHex(golden.hex), Place(), Ring("none"));
    ASSERT_TRUE(opened.has_value()) << golden.name;
    EXPECT_TRUE(opened->record == golden.record) << golden.name;
    EXPECT_EQ(opened->key_id, "");
  }
}

struct SealedGolden {
  const char* name;
  std::string_view hex;
};

const SealedGolden kSealedGolden[] = {
    {"complete",
     "110ad6668580808010020102030405060708090a0b0c0d0e0f100c7368613235362f6a63732d31205a5a"
     "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a08776f726b65722d3780b083"
     "c59868bc0b0563685f334d026b31202122232425262728292a2b2c2d2e2f239453a7cde598cc15e57924"
     "5a9ea485782f4573f536b24081c98d9d204b128e03ea1531014200a1a2a3a4a5a6a7a8a9aaabacadaeaf"
     "b002019501a27a3af1"},
    {"pending, retried",
     "1101a0befa18808280801004021112131415161718191a1b1c1d1e1f200c7368613235362f6a63732d31"
     "205a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a08776f726b65722d38"
     "086f726465722d34323730302d3061663736353139313663643433646438343438656232313163383033"
     "3139632d623761643662373136393230333333312d303180b083c59868c0cf24a0ca45a01f057265715f"
     "31fe80f0b25205e807c0a907a0fe0a80e0e5a401b10201ffb26c0206726567696f6e0265750474696572"
     "00026b31202122232425262728292a2b2c2d2e2f13845b90051b93126a9e7ab22a57c20ec4369398017d"
     "fb01010102030405060708090a0b0c0d0e0f10a1a2a3a4a5a6a7a8a9aaabacadaeafb0034108776f726b"
     "65722d37f405c0bb0108776f726b65722d3711646561646c696e65206578636565646564b10802809423"
     "f07bcf09"},
};

TEST(SealedRecordTest, IsStoredAsItIsWrittenDown) {
  for (const SealedGolden& golden : kSealedGolden) {
    const Record& record = Golden(golden.name);
    ASSERT_TRUE(IsSealable(record)) << golden.name;
    EXPECT_EQ(ToHex(Sealed(record)), golden.hex) << golden.name;
    const std::optional<OpenedRecord> opened = OpenRecord(FromHex(golden.hex), Place(), Ring());
    ASSERT_TRUE(opened.has_value()) << golden.name;
    EXPECT_TRUE(opened->record == record) << golden.name;
  }
}

TEST(SealedRecordTest, EveryChangeIsSeenThoughTheChecksumIsMadeAnew) {
  for (const SealedGolden& golden : kSealedGolden) {
    const std::string bytes = FromHex(golden.hex);
    const Record& record = Golden(golden.name);
    for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      std::string flipped = bytes;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
      EXPECT_FALSE(OpenRecord(flipped, Place(), Ring()).has_value()) << "bit " << bit;
      if (bit >= (bytes.size() - 4) * 8) continue;
      const auto opened = OpenRecord(WithCrc(WithoutCrc(flipped)), Place(), Ring());
      // What is not sealed may be changed by whoever can write; what is sealed never comes out
      // differently.
      if (!opened.has_value() || opened->key_missing) continue;
      EXPECT_EQ(opened->record.response, record.response) << golden.name << ", bit " << bit;
      EXPECT_EQ(opened->record.progress, record.progress) << golden.name << ", bit " << bit;
      EXPECT_EQ(opened->record.token, record.token) << golden.name << ", bit " << bit;
    }
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(OpenRecord(bytes.substr(0, size), Place(), Ring()).has_value()) << size;
      if (size + 4 >= bytes.size()) continue;
      EXPECT_FALSE(OpenRecord(WithCrc(bytes.substr(0, size)), Place(), Ring()).has_value()) << size;
    }
  }
}

TEST(SealedRecordTest, OpensOnlyWhereItWasSealed) {
  const std::string bytes = Sealed(Golden("complete"));
  for (const core::Key& other :
       {core::Key{"payments", "acct-1", "order-2"}, core::Key{"payments", "acct-2", "order-1"},
        core::Key{"refunds", "acct-1", "order-1"}, core::Key{"payments", "acct-", "1order-1"}}) {
    EXPECT_FALSE(OpenRecord(bytes, EncodeKey(other), Ring()).has_value()) << other.key;
  }
}

// The sealed part of one attempt's record, put into another's of the same operation.
TEST(SealedRecordTest, BelongsToOneAttempt) {
  Record other = Golden("complete");
  ASSERT_FALSE(other.ended.empty());
  other.token += 1;
  other.ended.back().token += 1;
  const std::string mine = Sealed(Golden("complete"));
  const std::string theirs = Sealed(other);
  ASSERT_EQ(mine.size(), theirs.size());
  std::string sealed;
  ASSERT_TRUE(OpenRecord(theirs, Place(), Ring()).has_value());
  // Both have the salt at the same place: from there on to the end of what is sealed they differ.
  const size_t at = mine.find(Salt());
  ASSERT_EQ(theirs.find(Salt()), at);
  const size_t length = Golden("complete").response.bytes.view().size() + kSealTagBytes;
  std::string swapped = theirs;
  swapped.replace(at, kSealSaltBytes + length, mine.substr(at, kSealSaltBytes + length));
  ASSERT_NE(swapped, theirs);
  EXPECT_FALSE(OpenRecord(WithCrc(WithoutCrc(swapped)), Place(), Ring()).has_value());
}

TEST(SealedRecordTest, WithoutItsKeyTheAnswerIsOmittedAndNothingElse) {
  for (const char* name : {"complete", "pending, retried"}) {
    Record expected = Golden(name);
    const std::string bytes = Sealed(expected);
    const std::optional<OpenedRecord> opened = OpenRecord(bytes, Place(), Ring("k2"));
    ASSERT_TRUE(opened.has_value()) << name;
    EXPECT_TRUE(opened->key_missing);
    EXPECT_EQ(opened->key_id, "k1");
    expected.progress.reset();
    if (expected.response.bytes.present()) {
      expected.response = {.bytes = core::Blob(), .body_omitted = true};
    }
    EXPECT_TRUE(opened->record == expected) << name;
  }
}

TEST(SealedRecordTest, AnotherKeyOfThatNameIsNotTakenForIt) {
  class Impostor final : public SealKeys {
    std::optional<SealKey> Find(std::string_view id) const override {
      return SealKey{.id = id, .secret = "0123456789abcdef0123456789abcdef"};
    }
  };
  EXPECT_FALSE(OpenRecord(Sealed(Golden("complete")), Place(), Impostor()).has_value());
}

TEST(SealedRecordTest, HidesWhatIsSealed) {
  Record record = Golden("complete");
  record.response.bytes = core::Blob("a very secret body");
  EXPECT_THAT(Encoded(record), ::testing::HasSubstr("secret"));
  EXPECT_THAT(Sealed(record), ::testing::Not(::testing::HasSubstr("secret")));
}

}  // namespace
}  // namespace idempotency::keystore
