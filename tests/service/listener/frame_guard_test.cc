#include "service/listener/frame_guard.h"

#include <string>
#include <string_view>

#include "gtest/gtest.h"
#include "tests/support/http2_frames.h"

namespace idempotency::service {
namespace {

constexpr core::Duration kStart{1'000};
constexpr FrameLimits kLimits{.cancels = {.at_once = 10, .in_window = 100}};
constexpr uint64_t kFreeFields = FreeFields(kLimits.metadata_bytes);
constexpr uint64_t kMaxFields = MaxFields(kLimits.metadata_bytes);
constexpr uint64_t kMaxHeaderBlockBytes = MaxBlockBytes(kLimits.metadata_bytes);

uint64_t Fields(std::string_view bytes) {
  FieldCounter whole;
  const uint64_t fields = whole.Count(bytes);
  FieldCounter pieces;
  uint64_t sum = 0;
  for (const char& byte : bytes) sum += pieces.Count({&byte, 1});
  EXPECT_EQ(sum, fields) << "depends on the pieces it comes in";
  return fields;
}

std::string Text(std::string_view text) {
  return static_cast<char>(text.size()) + std::string(text);
}

TEST(FieldCounterTest, CountsEveryKindOfField) {
  EXPECT_EQ(Fields(""), 0u);
  EXPECT_EQ(Fields("\x82\x86"), 2u) << "of the table";
  EXPECT_EQ(Fields("\xff\x80\x01\x82"), 2u) << "of the table, with a long number";
  EXPECT_EQ(Fields("\x40" + Text("name") + Text("value") + "\xbe"), 2u) << "added, name and value";
  EXPECT_EQ(Fields("\x44" + Text("/path") + "\x82"), 2u) << "added, value alone";
  EXPECT_EQ(Fields("\x7f\x05" + Text("value") + "\x82"), 2u) << "added, with a long number";
  EXPECT_EQ(Fields(std::string(1, '\0') + Text("name") + Text("") + "\x82"), 2u) << "not added";
  EXPECT_EQ(Fields("\x10" + Text("name") + Text("value") + "\x82"), 2u) << "never added";
  EXPECT_EQ(Fields("\x1f\x05" + Text("value") + "\x82"), 2u) << "never added, long number";
  EXPECT_EQ(Fields("\x3f\xe1\x1f\x20\x82"), 1u) << "the table's size is no field";
}

TEST(FieldCounterTest, TakesNothingInAStringForAField) {
  EXPECT_EQ(Fields("\x44" + Text(std::string(100, '\x82'))), 1u);
  EXPECT_EQ(Fields("\x44\xe4" + std::string(100, '\x82')), 1u) << "Huffman's";
  const std::string length("\x7f\xad\x01", 3);  // 127 + 45 + 128
  EXPECT_EQ(Fields("\x44" + length + std::string(300, '\x82') + "\x82"), 2u);
  // Longer than anything: it ends with nothing that comes.
  EXPECT_EQ(Fields("\x44\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" + std::string(9'999, '\x82')),
            1u);
}

// Whether all of `bytes` is fine at `now`, in one piece; and in pieces of every small size.
bool IsFine(std::string_view bytes) {
  FrameGuard whole(kLimits, kStart);
  const FrameVerdict verdict = whole.Take(bytes, kStart);
  for (size_t size : {1, 9, 4'096}) {
    FrameGuard guard(kLimits, kStart);
    for (size_t at = 0; at < bytes.size(); at += size) guard.Take(bytes.substr(at, size), kStart);
    EXPECT_EQ(guard.Take("", kStart), verdict) << "depends on the pieces it comes in: " << size;
  }
  return verdict == FrameVerdict::kFine;
}

std::string Calls(int count, const std::string& fields) {
  std::string frames = kPreface;
  for (int i = 0; i < count; ++i) {
    frames += Frame(kHeaders, kEndHeaders, 1 + 2 * static_cast<uint32_t>(i), fields) +
              Frame(kData, 1, 1 + 2 * static_cast<uint32_t>(i), std::string(300, '\x82'));
  }
  return frames;
}

TEST(FrameGuardTest, CallsOfOrdinaryHeadersCostNothing) {
  EXPECT_TRUE(IsFine(""));
  EXPECT_TRUE(IsFine(kPreface));
  const std::string most(kFreeFields, '\x82');
  EXPECT_TRUE(IsFine(Calls(2'000, most)));
  EXPECT_TRUE(IsFine(Calls(600, "\x44" + std::string("\x7f\xc1\x3d") + std::string(8'000, 'x'))));
}

TEST(FrameGuardTest, EndsAHeaderBlockOfFieldsOfTheTableBeforeItTakesMemory) {
  std::string some = kPreface + Frame(kHeaders, 0, 1, "\x82");
  for (uint64_t i = 1; i < kMaxFields; ++i) some += Frame(kContinuation, 0, 1, "\xbe");
  EXPECT_TRUE(IsFine(some));
  EXPECT_EQ(FrameGuard(kLimits, kStart).Take(some + Frame(kContinuation, 0, 1, "\xbe"), kStart),
            FrameVerdict::kHeaders);
}

TEST(FrameGuardTest, ASmallLimitOfHeadersCutsOffNobodyWhoPassesItByALittle) {
  const FrameLimits small{.metadata_bytes = 1024};
  FrameGuard guard(small, kStart);
  EXPECT_EQ(guard.Take(Calls(1, std::string(100, '\x82')), kStart), FrameVerdict::kFine);
}

TEST(FrameGuardTest, EndsCallsOfManyFields) {
  const std::string fields(200, '\xbe');
  const int most = kHeaderCosts.at_once / ((200 - kFreeFields) * kFieldCost);
  EXPECT_TRUE(IsFine(Calls(most, fields)));
  EXPECT_FALSE(IsFine(Calls(most + 1, fields)));
}

TEST(FrameGuardTest, EndsAHeaderThatIsLongerThanABlockMayBe) {
  const std::string value("\x44\x7f\x81\xff\xff\xff\x03", 7);
  std::string frames = kPreface + Frame(kHeaders, 0, 1, value);
  for (uint64_t i = 0; i < kMaxHeaderBlockBytes / 1'000; ++i) {
    frames += Frame(kContinuation, 0, 1, std::string(991, 'x'));
  }
  EXPECT_TRUE(IsFine(frames));
  EXPECT_FALSE(IsFine(frames + Frame(kContinuation, 0, 1, std::string(1'000, 'x'))));
}

TEST(FrameGuardTest, EndsContinuationsWithoutAnything) {
  std::string frames = kPreface + Frame(kHeaders, 0, 1, "\x82");
  for (uint64_t i = 0; i < kMaxHeaderBlockBytes / 9 - 1; ++i) {
    frames += Frame(kContinuation, 0, 1, "");
  }
  EXPECT_TRUE(IsFine(frames));
  EXPECT_FALSE(IsFine(frames + Frame(kContinuation, 0, 1, "")));
}

// gRPC takes what it leaves for the beginning of the next block.
TEST(FrameGuardTest, EndsABlockThatEndsWithinAField) {
  const auto block = [](uint8_t flags, std::string_view fields) {
    return kPreface + Frame(kHeaders, flags, 2, fields);
  };
  EXPECT_TRUE(IsFine(block(kEndHeaders, "\x04\x04/any")));
  EXPECT_TRUE(IsFine(block(kEndHeaders, "")));
  EXPECT_FALSE(IsFine(block(kEndHeaders, "\x04\x0b/any")));
  EXPECT_FALSE(IsFine(block(kEndHeaders, "\x04")));
  EXPECT_FALSE(IsFine(block(kEndHeaders, "\xff\x80")));
  EXPECT_FALSE(IsFine(block(kEndHeaders | 0x20, std::string(4, '\0'))));
  EXPECT_FALSE(IsFine(block(kEndHeaders | 0x20, "")));
  EXPECT_FALSE(IsFine(block(0x20, std::string(4, '\0')))) << "a priority goes on in no other frame";
  EXPECT_TRUE(IsFine(block(0x20, std::string(5, '\0'))));
  // In the middle of a block it may stop anywhere, and go on.
  const std::string begun = block(0, "\x04\x0b/any");
  EXPECT_TRUE(IsFine(begun));
  EXPECT_TRUE(IsFine(begun + Frame(kContinuation, kEndHeaders, 2, "/method")));
  EXPECT_FALSE(IsFine(begun + Frame(kContinuation, kEndHeaders, 2, "")));
}

TEST(FrameGuardTest, LetsThroughWhatHeadersMayHave) {
  const std::string token = "\x44" + std::string("\x7f\xa1\x1f") + std::string(4'128, 'x');
  std::string frames = kPreface;
  for (int i = 0; i < 2'000; ++i) {
    frames += Frame(kHeaders, 0, 1, token);
    for (int more = 0; more < 8; ++more) frames += Frame(kContinuation, 0, 1, token);
    frames += Frame(kContinuation, kEndHeaders, 1, token + std::string(300, '\x82'));
  }
  EXPECT_EQ(FrameGuard(kLimits, kStart).Take(frames, kStart), FrameVerdict::kHeaders);
  const FrameLimits large{.metadata_bytes = 1024 * 1024};
  EXPECT_EQ(FrameGuard(large, kStart).Take(frames, kStart), FrameVerdict::kFine);
}

TEST(FrameGuardTest, ForgivesAsTimePasses) {
  const std::string fields(200, '\xbe');
  const std::string calls = Calls(kHeaderCosts.at_once / ((200 - kFreeFields) * kFieldCost), fields)
                                .substr(kPreface.size());
  FrameGuard guard(kLimits, kStart);
  core::Duration now = kStart;
  ASSERT_EQ(guard.Take(kPreface, now), FrameVerdict::kFine);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(guard.Take(calls, now), FrameVerdict::kFine) << i;
    now += core::Duration(1'000 * kHeaderCosts.at_once / kHeaderCosts.in_window);
  }
  EXPECT_EQ(guard.Take(calls, now), FrameVerdict::kFine);
  now += core::Duration(10);
  EXPECT_EQ(guard.Take(calls, now), FrameVerdict::kHeaders);
  now += core::Duration(100'000);
  EXPECT_EQ(guard.Take("", now), FrameVerdict::kHeaders)
      << "what it has dropped is missing for ever";
}

TEST(FrameGuardTest, EndsWhoCancelsTooMuchWithTheFrameThatIsTooMuch) {
  const std::string call = Frame(kHeaders, kEndHeaders, 1, "\x82") +
                           Frame(kRstStream, 0, 1, std::string("\0\0\0\x08", 4));
  FrameGuard guard(kLimits, kStart);
  ASSERT_EQ(guard.Take(kPreface, kStart), FrameVerdict::kFine);
  for (int i = 0; i < 10; ++i) ASSERT_EQ(guard.Take(call, kStart), FrameVerdict::kFine);
  core::Duration now = kStart;
  for (int i = 0; i < 50; ++i) {
    now += core::Duration(10);
    ASSERT_EQ(guard.Take(call, now), FrameVerdict::kFine) << "the next is given every 10 ms";
  }
  EXPECT_EQ(guard.Take(call, now), FrameVerdict::kCancels);
  EXPECT_EQ(guard.Take("", now + core::Duration(10'000)), FrameVerdict::kCancels);
}

// Some clients, Node's among them, reset a call that they have the answer of.
TEST(FrameGuardTest, TheResetOfACallThatWasAnsweredIsNoCancellation) {
  const std::string reset = Frame(kRstStream, 0, 1, std::string(4, '\0'));
  FrameGuard guard(kLimits, kStart);
  ASSERT_EQ(guard.Take(kPreface, kStart), FrameVerdict::kFine);
  for (uint64_t i = 1; i <= 1'000; ++i) {
    guard.SetAnswered(i);
    ASSERT_EQ(guard.Take(reset, kStart), FrameVerdict::kFine) << i;
  }
  guard.SetAnswered(900);
  for (int i = 0; i < 9; ++i) ASSERT_EQ(guard.Take(reset, kStart), FrameVerdict::kFine) << i;
  EXPECT_EQ(guard.Take(reset, kStart), FrameVerdict::kCancels);
}

TEST(FrameGuardTest, ReadsFramesAsGrpcDoes) {
  // The priority stands before the fields; the length of a padding gRPC takes for one.
  const std::string priority("\x80\0\0\0\x10", 5);
  const std::string most(kFreeFields, '\x82');
  const auto many = [](uint8_t flags, const std::string& fields) {
    std::string frames = kPreface;
    for (uint64_t i = 0; i <= kHeaderCosts.at_once / kFieldCost; ++i) {
      frames += Frame(kHeaders, flags, 1, fields);
    }
    return frames;
  };
  EXPECT_TRUE(IsFine(many(kEndHeaders | 0x20, priority + most)));
  EXPECT_FALSE(IsFine(many(kEndHeaders | 0x20, priority + most + "\x82")));
  EXPECT_TRUE(IsFine(many(kEndHeaders | 0x08, most)));
  EXPECT_FALSE(IsFine(many(kEndHeaders | 0x08, "\x82" + most)));
  // What is in other frames is none of its business.
  std::string others = kPreface;
  for (uint8_t type : {0, 2, 4, 5, 6, 7, 8, 10, 255}) {
    for (int i = 0; i < 1'000; ++i) others += Frame(type, 0xff, 1, std::string(9'000, '\xbe'));
  }
  FrameGuard guard(kLimits, kStart);
  EXPECT_EQ(guard.Take(others, kStart), FrameVerdict::kFine);
}

TEST(FrameGuardTest, LooksAtNothingThatIsNotHttp2) {
  const std::string calls = Calls(1'000, std::string(200, '\xbe'));
  EXPECT_FALSE(IsFine(calls));
  EXPECT_TRUE(IsFine("\x16\x03\x01" + calls)) << "TLS";
  EXPECT_TRUE(IsFine(calls.substr(1)));
}

}  // namespace
}  // namespace idempotency::service
