// deploy/contracts: the service accepts each file, and what it says of the provider is what the
// profile says that the clients use.
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "idempotency/providers.h"
#include "service/config.h"

namespace idempotency {
namespace {

using service::Config;
using testing::Contains;
using testing::HasSubstr;

struct ContractRow {
  const char* file;
  const char* name_space;
  const char* profile;
};

constexpr ContractRow kContracts[] = {
    {"stripe-v1.yaml", "payments.stripe", "stripe-v1"},
    {"stripe-v2.yaml", "payments.stripe-v2", "stripe-v2"},
    {"shopify-graphql.yaml", "stock.shopify", "shopify-graphql"},
    {"adyen.yaml", "payments.adyen", "adyen"},
    {"paypal.yaml", "orders.paypal", "paypal"},
    {"paypal.yaml", "payments.paypal", "paypal"},
    {"square.yaml", "payments.square", "square"},
    {"no-idempotency-support.yaml", "letters.by-fax", "no-idempotency-support"},
};

class ContractsTest : public testing::TestWithParam<ContractRow> {
 protected:
  ContractsTest() {
    const std::string path = std::string(IDEMPOTENCY_DEPLOY_CONTRACTS) + "/" + GetParam().file;
    const auto config = Config::Load(path);
    EXPECT_TRUE(config.ok()) << config.status();
    if (config.ok()) config_ = *config;
  }

  std::shared_ptr<const Config> config_;
};

TEST_P(ContractsTest, IsAccepted) {
  ASSERT_NE(config_, nullptr);
  EXPECT_THAT(config_->Names(), Contains(GetParam().name_space));
  EXPECT_TRUE(config_->Accepts(GetParam().name_space));
}

TEST_P(ContractsTest, SaysOfTheProviderWhatTheProfileSays) {
  ASSERT_NE(config_, nullptr);
  const service::NamespaceConfig* found = config_->Find(GetParam().name_space);
  const ProviderProfile* profile = FindProvider(GetParam().profile);
  ASSERT_TRUE(found != nullptr && profile != nullptr);
  const v1::ProviderContract& provider = found->provider;
  EXPECT_EQ(provider.key_max_bytes(), profile->key_max_bytes.value_or(0));
  EXPECT_EQ(provider.on_mismatch(), profile->on_mismatch);
  EXPECT_EQ(provider.on_concurrent(), profile->on_concurrent);
  EXPECT_EQ(provider.account_scope(), profile->scope);
  EXPECT_THAT(provider.key_location(), HasSubstr(profile->key_field));
  EXPECT_FALSE(provider.on_expiry().empty());
  if (profile->key_place == KeyPlace::kNone) return;
  EXPECT_EQ(provider.name(), profile->provider);
  EXPECT_FALSE(provider.api_version().empty());
  EXPECT_FALSE(provider.source().empty());
  EXPECT_FALSE(provider.verified_date().empty());
  EXPECT_GT(provider.endpoints_size(), 0);
}

// More than the provider promises would let the service grant an attempt that is a second effect.
TEST_P(ContractsTest, CountsOnNoMoreThanTheProfileDoes) {
  ASSERT_NE(config_, nullptr);
  const core::Terms& terms = config_->PolicyFor(GetParam().name_space)->terms;
  const ProviderProfile& profile = *FindProvider(GetParam().profile);
  if (!profile.protection_window) {
    EXPECT_EQ(terms.unknown_outcome, core::UnknownOutcome::kReconcileFirst);
    return;
  }
  EXPECT_EQ(terms.unknown_outcome, core::UnknownOutcome::kRetrySameKey);
  EXPECT_GE(terms.max_attempts, 2u);
  // Payments v2 knows keys for longer than the profile's shortest retention.
  const auto longest = std::string(GetParam().name_space) == "payments.paypal"
                           ? Duration(std::chrono::hours(24 * 45 - 1))
                           : *profile.protection_window;
  EXPECT_LE(terms.protection_window, longest);
}

TEST(ContractFilesTest, EachHasARowHere) {
  std::set<std::string> tested;
  for (const ContractRow& row : kContracts) tested.insert(row.file);
  std::set<std::string> there;
  for (const auto& file : std::filesystem::directory_iterator(IDEMPOTENCY_DEPLOY_CONTRACTS)) {
    there.insert(file.path().filename().string());
  }
  EXPECT_EQ(there, tested);
  std::set<std::string> profiles;
  for (const ContractRow& row : kContracts) profiles.insert(row.profile);
  const std::vector<std::string> names = ProviderNames();
  EXPECT_EQ(profiles, std::set<std::string>(names.begin(), names.end()));
}

std::string NameOf(const testing::TestParamInfo<ContractRow>& info) {
  std::string name = info.param.name_space;
  for (char& c : name) {
    if (c == '.' || c == '-') c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, ContractsTest, testing::ValuesIn(kContracts), NameOf);

}  // namespace
}  // namespace idempotency
