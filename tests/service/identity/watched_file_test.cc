#include "service/identity/watched_file.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_directory.h"

namespace idempotency::service {
namespace {

using ::testing::HasSubstr;
using WatchedText = Watched<std::string>;
using What = WatchedText::What;

class WatchedFileTest : public ::testing::Test {
 protected:
  void Write(const std::string& text) {
    // A new file in its place, as whoever does it right would.
    std::ofstream(path_ + ".new") << text;
    std::filesystem::rename(path_ + ".new", path_);
  }

  // Takes what does not begin with "bad".
  absl::StatusOr<WatchedText::Pointer> Load() {
    ++loads_;
    absl::StatusOr<std::string> text = ReadSmallFile(path_, 16);
    if (!text.ok()) return text.status();
    if (text->rfind("bad", 0) == 0) return absl::InvalidArgumentError(*text);
    return std::make_shared<const std::string>(*std::move(text));
  }

  TempDirectory directory_;
  const std::string path_ = directory_.path() + "/file";
  int loads_ = 0;
  WatchedText file_{{path_}, [this] { return Load(); }};
};

TEST_F(WatchedFileTest, IsReadWhenItChangesAndNotBefore) {
  Write("one");
  ASSERT_TRUE(file_.Open().ok());
  EXPECT_EQ(*file_.Get(), "one");
  EXPECT_EQ(file_.Check().what, What::kNothing);
  EXPECT_EQ(loads_, 1);
  Write("two");
  EXPECT_EQ(file_.Check().what, What::kTakenUp);
  EXPECT_EQ(*file_.Get(), "two");
}

TEST_F(WatchedFileTest, WhatIsBadLeavesWhatWasAndIsToldOnce) {
  Write("one");
  ASSERT_TRUE(file_.Open().ok());
  Write("bad 1");
  const WatchedText::Checked first = file_.Check();
  EXPECT_EQ(first.what, What::kKept);
  EXPECT_EQ(first.status.message(), "bad 1");
  EXPECT_EQ(file_.Check().what, What::kNothing);
  EXPECT_EQ(*file_.Get(), "one");
  Write("bad 2");
  EXPECT_EQ(file_.Check().what, What::kKept);
  std::filesystem::remove(path_);
  EXPECT_EQ(file_.Check().what, What::kKept);
  EXPECT_EQ(*file_.Get(), "one");
  Write("two");
  EXPECT_EQ(file_.Check().what, What::kTakenUp);
  EXPECT_EQ(*file_.Get(), "two");
}

// A certificate that holds only from now on becomes good without a change of its file.
TEST_F(WatchedFileTest, WhatWasBadIsTriedAgain) {
  bool good = false;
  Watched<int> file({path_}, [&]() -> absl::StatusOr<std::shared_ptr<const int>> {
    if (!good) return absl::InvalidArgumentError("not yet");
    return std::make_shared<const int>(7);
  });
  EXPECT_FALSE(file.Open().ok());
  EXPECT_EQ(file.Get(), nullptr);
  good = true;
  EXPECT_EQ(file.Check().what, Watched<int>::What::kTakenUp);
  EXPECT_EQ(*file.Get(), 7);
}

// As Kubernetes exchanges mounted secrets: only a link to the directory changes.
TEST_F(WatchedFileTest, FollowsLinks) {
  namespace fs = std::filesystem;
  for (const char* version : {"1", "2"}) {
    fs::create_directory(directory_.path() + "/" + version);
    std::ofstream(directory_.path() + "/" + version + "/file") << version;
  }
  fs::create_directory_symlink("1", directory_.path() + "/data");
  fs::create_symlink("data/file", path_);
  ASSERT_TRUE(file_.Open().ok());
  EXPECT_EQ(*file_.Get(), "1");
  fs::create_directory_symlink("2", directory_.path() + "/data.new");
  fs::rename(directory_.path() + "/data.new", directory_.path() + "/data");
  EXPECT_EQ(file_.Check().what, What::kTakenUp);
  EXPECT_EQ(*file_.Get(), "2");
}

TEST_F(WatchedFileTest, SaysWhyItCannotBeRead) {
  EXPECT_THAT(std::string(file_.Open().message()), HasSubstr(path_ + ": cannot be opened"));
  EXPECT_THAT(std::string(ReadSmallFile(directory_.path(), 16).status().message()),
              HasSubstr("cannot be read"));
  Write(std::string(16, 'x'));
  EXPECT_TRUE(ReadSmallFile(path_, 16).ok());
  EXPECT_THAT(std::string(ReadSmallFile(path_, 15).status().message()),
              HasSubstr("larger than 15"));
}

}  // namespace
}  // namespace idempotency::service
