// Keys: the published vectors, and what the providers and the service's key check take.
#include "idempotency/keys.h"

#include <set>
#include <string>

#include "gtest/gtest.h"
#include "idempotency/providers.h"
#include "tests/client/lib/vector_file.h"

namespace idempotency {
namespace {

TEST(ProviderKeyTest, Vectors) {
  std::set<std::string> keys;
  const auto rows = ReadRows("provider_keys.json", "provider_keys");
  for (const VectorRow& row : rows) {
    const std::string key =
        ProviderKey({row.Text("namespace"), row.Text("scope"), row.Text("key")});
    EXPECT_EQ(key, row.Text("provider_key")) << row;
    EXPECT_EQ(key.size(), kProviderKeyBytes) << row;
    keys.insert(key);
  }
  EXPECT_EQ(keys.size(), rows.size()) << "two operations share a key";
}

TEST(ProviderKeyTest, FitsEveryProvider) {
  for (const std::string& name : ProviderNames()) {
    const auto limit = FindProvider(name)->key_max_bytes;
    if (limit) EXPECT_LE(kProviderKeyBytes, *limit) << name;
  }
}

TEST(DeriveKeyTest, Vectors) {
  std::set<std::string> keys;
  const auto rows = ReadRows("provider_keys.json", "derived_keys");
  for (const VectorRow& row : rows) {
    const std::string key = DeriveKey(row.Text("domain_label"), row.Text("business_id"));
    EXPECT_EQ(key, row.Text("key")) << row;
    EXPECT_EQ(key.size(), kDerivedKeyBytes) << row;
    keys.insert(key);
  }
  EXPECT_EQ(keys.size(), rows.size()) << "two business identifiers share a key";
}

class FixedEnvironment final : public Environment {
 public:
  std::chrono::nanoseconds MonotonicNow() override { return {}; }
  SystemTime WallNow() override { return {}; }
  void Sleep(Duration) override {}
  double Random() override { return 0; }
  std::string RandomId() override { return "00112233445566778899aabbccddeeff"; }
};

TEST(RandomKeyTest, IsTheEnvironmentsId) {
  FixedEnvironment environment;
  EXPECT_EQ(RandomKey(environment), "00112233445566778899aabbccddeeff");
}

TEST(RandomKeyTest, IsNewEachTime) {
  std::set<std::string> keys;
  for (int i = 0; i < 100; ++i) keys.insert(RandomKey());
  EXPECT_EQ(keys.size(), 100u);
  EXPECT_EQ(keys.begin()->size(), kRandomKeyBytes);
}

}  // namespace
}  // namespace idempotency
