#include "client/ctl/body_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>

namespace idempotency::ctl {
namespace {

std::string Write(const std::string& name, const std::string& bytes) {
  const std::string path = testing::TempDir() + "/body_file_test_" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(BodyFile, ReadsEveryByte) {
  const std::string bytes("a\0\xff\r\n", 5);
  std::istringstream in(bytes);
  const FileContent file = ReadBody(Write("bytes", bytes), 5, in);
  EXPECT_EQ(file.error, "");
  EXPECT_EQ(file.bytes, bytes);
  EXPECT_EQ(ReadBody("-", 5, in).bytes, bytes);
}

TEST(BodyFile, OverTheLimitOnlyTheSizeIsKept) {
  std::istringstream in("123456");
  const FileContent content = ReadBody("-", 5, in);
  EXPECT_EQ(content.bytes, "");
  EXPECT_EQ(content.size, 6u);
}

TEST(BodyFile, SaysWhatItCannotRead) {
  std::istringstream in;
  EXPECT_EQ(ReadBody("/nowhere/x", 5, in).error,
            "cannot open /nowhere/x: No such file or directory");
  EXPECT_NE(ReadBody(testing::TempDir(), 5, in).error, "");
}

TEST(BodyFile, FingerprintIsSha256OfTheBytes) {
  std::istringstream in("abc");
  std::string error;
  const auto fingerprint = FingerprintFile("-", in, &error);
  ASSERT_TRUE(fingerprint) << error;
  EXPECT_EQ(FormatFingerprint(*fingerprint),
            "sha256/bytes-1:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_FALSE(FingerprintFile("/nowhere/x", in, &error));
  EXPECT_NE(error, "");
}

TEST(BodyFile, FingerprintTextSplitsAtTheLastColon) {
  const auto fingerprint = ParseFingerprint("my:own/1:00fF");
  ASSERT_TRUE(fingerprint);
  EXPECT_EQ(fingerprint->algorithm(), "my:own/1");
  EXPECT_EQ(fingerprint->digest(), std::string("\0\xff", 2));
  for (const char* text : {"", "x", ":00", "x:", "x:0", "x:0g", "x:00 "}) {
    EXPECT_FALSE(ParseFingerprint(text)) << text;
  }
}

TEST(BodyFile, WritesEveryByteAndReplaces) {
  std::ostringstream out;
  const std::string path = Write("out", "something longer");
  const std::string bytes("\0x", 2);
  EXPECT_EQ(WriteBody(path, bytes, out), "");
  EXPECT_EQ(Read(path), bytes);
  EXPECT_EQ(WriteBody("-", bytes, out), "");
  EXPECT_EQ(out.str(), bytes);
  EXPECT_NE(WriteBody("/nowhere/x", bytes, out), "");
  EXPECT_NE(WriteBody("/dev/full", "x", out), "");
}

}  // namespace
}  // namespace idempotency::ctl
