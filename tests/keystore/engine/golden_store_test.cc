// Every format that a version has written is read for ever: stores that earlier versions left.
#include "tests/keystore/engine/golden_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/keystore/engine/engine_calls.h"
#include "tests/keystore/engine/records.h"
#include "tests/keystore/engine/rocksdb_fixture.h"

namespace idempotency::keystore {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

struct Golden {
  const char* name;  // of the file in golden_stores, and in the test's name
  bool sealed;
};

std::string Text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool Unpack(const std::string& archive, const std::string& directory) {
  fs::create_directories(directory);
  const char* const words[] = {"tar", "-xzf", archive.c_str(), "-C", directory.c_str(), nullptr};
  pid_t process = 0;
  if (posix_spawnp(&process, "tar", nullptr, nullptr, const_cast<char**>(words), environ) != 0) {
    return false;
  }
  int status = 0;
  return waitpid(process, &status, 0) == process && status == 0;
}

class GoldenStoreTest : public ::testing::TestWithParam<Golden> {
 protected:
  void SetUp() override {
    const std::string directory = fixture_.directory().file("golden");
    ASSERT_TRUE(Unpack(std::string(GOLDEN_STORES) + "/" + GetParam().name + ".tar.gz", directory));
    fixture_.options.engine.data_dir = directory + "/store";
    records_ = Text(directory + "/records.txt");
    ASSERT_NE(records_, "");
    if (GetParam().sealed) fixture_.AddKey(kGoldenKey);
  }

  RocksDbFixture fixture_;
  std::string records_;
};

TEST_P(GoldenStoreTest, IsReadByThisVersion) {
  ASSERT_NE(fixture_.Open(), nullptr);
  EXPECT_EQ(Describe(fixture_.engine()), records_);
}

TEST_P(GoldenStoreTest, GoesOnUnderThisVersion) {
  ASSERT_NE(fixture_.Open(), nullptr);
  // Above all that the earlier version can have given.
  const auto read = Read(fixture_.engine(), {PayKey("new")});
  ASSERT_TRUE(read.ok());
  EXPECT_GT(read->token_floor, 20'000u);
  Store(fixture_.engine(), PayKey("new"), CompleteRecord(read->token_floor));
  ASSERT_TRUE(fixture_.engine().Compact().ok());
  ASSERT_NE(fixture_.Open(), nullptr);
  const std::string now = Describe(fixture_.engine());
  EXPECT_THAT(now, HasSubstr("pay/acme/new: COMPLETE"));
  EXPECT_THAT(now, Not(HasSubstr("UNREADABLE")));
}

INSTANTIATE_TEST_SUITE_P(Formats, GoldenStoreTest,
                         ::testing::Values(Golden{"format_1", false}, Golden{"format_2", true}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace idempotency::keystore
