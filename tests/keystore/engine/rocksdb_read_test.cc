// What one read may bring in.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "keystore/core/limits.h"
#include "tests/keystore/engine/engine_calls.h"
#include "tests/keystore/engine/records.h"
#include "tests/keystore/engine/rocksdb_fixture.h"

namespace idempotency::keystore {
namespace {

// RocksDB looks at its limit after every so many keys.
constexpr size_t kKeysAtOnce = 32;

class RocksDbReadTest : public testing::Test, protected RocksDbFixture {
 protected:
  std::vector<core::Key> StoreAnswers(size_t count, size_t bytes) {
    std::vector<core::Key> keys;
    for (size_t i = 0; i < count; ++i) {
      keys.push_back(PayKey("large-" + std::to_string(i)));
      Store(engine(), keys.back(), CompleteRecord(i + 1, std::string(bytes, 'x')));
    }
    return keys;
  }

  // Reads until nothing is put off; how many reads that took.
  size_t ReadAll(std::vector<core::Key> keys, size_t bytes) {
    size_t reads = 0;
    while (!keys.empty()) {
      ++reads;
      const absl::StatusOr<ReadResult> result = Read(engine(), keys);
      EXPECT_TRUE(result.ok());
      if (!result.ok()) return 0;
      std::vector<core::Key> put_off;
      for (size_t i = 0; i < keys.size(); ++i) {
        const ReadEntry& entry = result->entries[i];
        if (entry.put_off) {
          put_off.push_back(keys[i]);
        } else {
          EXPECT_TRUE(std::holds_alternative<core::Record>(entry.stored)) << keys[i].key;
        }
      }
      EXPECT_LE((keys.size() - put_off.size()) * bytes, core::kMaxReadBytes + kKeysAtOnce * bytes);
      EXPECT_LT(put_off.size(), keys.size()) << "something is read each time";
      keys = std::move(put_off);
    }
    return reads;
  }
};

TEST_F(RocksDbReadTest, LargeAnswersAreNotReadAllAtOnce) {
  constexpr size_t kBytes = size_t{1} << 20;
  constexpr size_t kCount = 3 * core::kMaxReadBytes / kBytes;
  ASSERT_NE(Open(), nullptr);
  const std::vector<core::Key> keys = StoreAnswers(kCount, kBytes);
  EXPECT_GE(ReadAll(keys, kBytes), 2u) << "from memory and tables";
  ASSERT_NE(Open(), nullptr);
  EXPECT_GE(ReadAll(keys, kBytes), 2u) << "from tables";
}

TEST_F(RocksDbReadTest, AsManyOfTheLargestRecordsWithoutAnswersAsABatchHasAreReadAtOnce) {
  ASSERT_NE(Open(), nullptr);
  const std::vector<core::Key> keys = StoreAnswers(core::kMaxBatchCommands, 16 * 1024);
  EXPECT_EQ(ReadAll(keys, 16 * 1024), 1u);
}

}  // namespace
}  // namespace idempotency::keystore
