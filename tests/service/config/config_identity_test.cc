// The sections tls and identity.
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "service/config.h"

namespace idempotency::service {
namespace {

constexpr char kAny[] = "unlisted_namespaces: ALLOW\n";

std::string Problems(std::string_view text) {
  const auto config = Config::LoadText(absl::StrCat(kAny, std::string(text)), "f.yaml");
  return config.ok() ? "" : std::string(config.status().message());
}

std::shared_ptr<const Config> Good(std::string_view text) {
  auto config = Config::LoadText(absl::StrCat(kAny, std::string(text)), "f.yaml");
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *std::move(config) : Config::BuiltIn();
}

TEST(ConfigIdentityTest, SaysWhatTheFileSays) {
  const auto config = Good(R"(
tls: {certificate_file: c, private_key_file: k, client_ca_file: a, client_certificates: OPTIONAL}
identity:
  tokens_file: t
  jwt_issuers:
    cluster: {issuer: https://i, audiences: [a, b], jwks_file: j, clock_skew: 5m}
    other: {issuer: https://o, audiences: [a], jwks_file: j}
)");
  EXPECT_EQ(config->tls(), (TlsSettings{"c", "k", "a", false}));
  const IdentitySettings expected{
      "t",
      {{"cluster", "https://i", {"a", "b"}, "j", std::chrono::minutes(5)},
       {"other", "https://o", {"a"}, "j", kUsualClockSkew}}};
  EXPECT_EQ(config->identity(), expected);
  EXPECT_TRUE(config->identity().takes_tokens());
}

TEST(ConfigIdentityTest, NothingIsNothing) {
  const auto config = Good("");
  EXPECT_FALSE(config->tls());
  EXPECT_EQ(config->identity(), IdentitySettings{});
  EXPECT_FALSE(config->identity().takes_tokens());
  EXPECT_TRUE(Good("tls: {certificate_file: c, private_key_file: k, client_ca_file: a}")
                  ->tls()
                  ->client_certificate_required);
}

TEST(ConfigIdentityTest, ProblemsNameTheFieldAndTheNextStep) {
  const std::string issuer = "identity: {jwt_issuers: [{";
  const std::string rest = "issuer: i, audiences: [a], jwks_file: j}]}";
  const struct {
    const char* name;
    std::string yaml;
    std::string problems;
  } kCases[] = {
      {"tls without files", "tls: {}",
       "f.yaml:2: tls.certificate_file: missing: name the file with the server's certificate\n"
       "f.yaml:2: tls.private_key_file: missing: name the file with the key of the certificate"},
      {"an empty path", "tls: {certificate_file: '', private_key_file: k}",
       "f.yaml:2: tls.certificate_file: is empty: name the file with the server's certificate"},
      {"an authority of nothing",
       "tls: {certificate_file: c, private_key_file: k,\n"
       "  client_ca_file: ''}",
       "f.yaml:3: tls.client_ca_file: is empty: name a file, or remove the line"},
      {"certificates without an authority",
       "tls: {certificate_file: c, private_key_file: k,\n  client_certificates: REQUIRED}",
       "f.yaml:3: tls.client_certificates: says nothing without client_ca_file: name the file "
       "with the authorities of clients, or remove this line"},
      {"a value there is not",
       "tls: {certificate_file: c, private_key_file: k, client_ca_file: a,\n"
       "  client_certificates: NONE}",
       "f.yaml:3: tls.client_certificates: 'NONE' is not known: write one of REQUIRED, OPTIONAL"},
      {"a field there is not", "tls: {certificate_file: c, private_key_file: k, ca_file: a}",
       "f.yaml:2: tls.ca_file: unknown field: use one of certificate_file, private_key_file, "
       "client_ca_file, client_certificates"},
      {"an issuer of nothing", "identity:\n  jwt_issuers:\n  - {}\n",
       "f.yaml:4: identity.jwt_issuers[0].name: missing: give it a name\n"
       "f.yaml:4: identity.jwt_issuers[0].issuer: missing: write the 'iss' of its tokens, "
       "exactly\n"
       "f.yaml:4: identity.jwt_issuers[0].audiences: missing: list what tokens for this service "
       "are meant for (their 'aud'), such as idempotencyd\n"
       "f.yaml:4: identity.jwt_issuers[0].jwks_file: missing: name the file with the issuer's "
       "public keys"},
      {"a name with a colon", issuer + "name: 'a:b', " + rest,
       "f.yaml:2: identity.jwt_issuers[0].name: 'a:b' is no name for an issuer: write 1-32 of "
       "a-z, 0-9 and '-', a letter first"},
      {"an empty audience", issuer + "name: a, issuer: i, audiences: [''], jwks_file: j}]}",
       "f.yaml:2: identity.jwt_issuers[0].audiences[0]: is empty: write an audience, or remove "
       "the line"},
      {"skew below zero", issuer + "name: a, clock_skew: -1s, " + rest,
       "f.yaml:2: identity.jwt_issuers[0].clock_skew: -1s is negative: write at least 0s"},
      {"skew above the most", issuer + "name: a, clock_skew: 301s, " + rest,
       "f.yaml:2: identity.jwt_issuers[0].clock_skew: 5m1s is too long: write at most 5m"},
      {"two of a name",
       "identity:\n  jwt_issuers:\n  - {name: a, issuer: i, audiences: [a], jwks_file: j}\n"
       "  - {name: a, issuer: k, audiences: [a], jwks_file: j}\n",
       "f.yaml:5: identity.jwt_issuers[1].name: is that of identity.jwt_issuers[0]: rename or "
       "remove one of the two"},
      {"two of an issuer",
       "identity:\n  jwt_issuers:\n  - {name: a, issuer: i, audiences: [a], jwks_file: j}\n"
       "  - {name: b, issuer: i, audiences: [a], jwks_file: j}\n",
       "f.yaml:5: identity.jwt_issuers[1].issuer: is that of identity.jwt_issuers[0]: tokens "
       "would not say which one is meant; remove one"},
  };
  for (const auto& row : kCases) EXPECT_EQ(Problems(row.yaml), row.problems) << row.name;
}

TEST(ConfigIdentityTest, BoundsAreTakenAndNothingBeyond) {
  const auto issuers = [](size_t count) {
    std::string text = "identity:\n  jwt_issuers:\n";
    for (size_t i = 0; i < count; ++i) {
      absl::StrAppend(&text, "  - {name: n", i, ", issuer: i", i,
                      ", audiences: [a], jwks_file: j}\n");
    }
    return text;
  };
  EXPECT_EQ(Problems(issuers(kMaxJwtIssuers)), "");
  EXPECT_EQ(Problems(issuers(kMaxJwtIssuers + 1)),
            "f.yaml:3: identity.jwt_issuers: 17 are too many: write at most 16");
  const auto named = [](size_t bytes) {
    return absl::StrCat("identity: {jwt_issuers: [{name: ", std::string(bytes, 'n'),
                        ", issuer: i, audiences: [a], jwks_file: j}]}");
  };
  EXPECT_EQ(Problems(named(32)), "");
  EXPECT_NE(Problems(named(33)), "");
  const auto claim = [](size_t bytes) {
    return absl::StrCat("identity: {jwt_issuers: [{name: a, issuer: ", std::string(bytes, 'i'),
                        ", audiences: [a], jwks_file: j}]}");
  };
  EXPECT_EQ(Problems(claim(kMaxClaimBytes)), "");
  EXPECT_EQ(Problems(claim(kMaxClaimBytes + 1)),
            "f.yaml:2: identity.jwt_issuers[0].issuer: 256 bytes are too long: write at most 255");
}

}  // namespace
}  // namespace idempotency::service
