#include "service/identity/certificate.h"

#include <chrono>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "keystore/clock.h"
#include "tests/support/test_authority.h"

namespace idempotency::service {
namespace {

using std::chrono::hours;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TestAuthority;
using testing::TestCertificate;

const TestAuthority& Authority() {
  static const auto* const kAuthority = new TestAuthority("ca");
  return *kAuthority;
}

core::Time Now() { return keystore::ReadKernelTime().wall; }

// Whom a certificate with these names stands for: "kind name", or "".
std::string Who(const std::string& names) {
  const auto read = ReadCertificate(Authority().Issue({.names = names}).certificate);
  if (!read) return "unreadable";
  const auto principal = PrincipalOf(*read);
  return principal ? std::string(KindName(principal->kind)) + " " + principal->name : "";
}

TEST(CertificateTest, StandsForItsOneUriElseForItsFirstDnsName) {
  EXPECT_EQ(Who("URI:spiffe://example.org/ns/payments/sa/api"),
            "uri spiffe://example.org/ns/payments/sa/api");
  EXPECT_EQ(Who("DNS:a.example,URI:spiffe://example.org/api,DNS:b.example"),
            "uri spiffe://example.org/api");
  EXPECT_EQ(Who("URI:https://api.example/x"), "uri https://api.example/x");
  EXPECT_EQ(Who("DNS:api.payments.svc,DNS:api"), "dns dns:api.payments.svc");
  EXPECT_EQ(Who("email:a@b.example,DNS:API.Example"), "dns dns:api.example");
}

TEST(CertificateTest, StandsForNobodyWhereTheNamesDoNotSayWho) {
  for (const char* names :
       {"", "URI:spiffe://a/b,URI:spiffe://a/c", "URI:token:ci", "URI:jwt:cluster:x",
        "URI:spiffe://", "URI://x", "URI:Spiffe//x", "DNS:*.example.org", "DNS:a b", "DNS:a/b",
        "IP:127.0.0.1", "email:a@b.example", "URI:token:ci,DNS:good.example"}) {
    EXPECT_EQ(Who(names), "") << names;
  }
}

// What a name holds behind a NUL must not be lost: some would compare only what is before it.
TEST(CertificateTest, ANulInANameIsNoEnd) {
  CertificateNames names;
  names.dns.push_back(std::string("good.example\0.evil.example", 26));
  EXPECT_EQ(PrincipalOf(names), std::nullopt);
  names.uris.push_back(std::string("spiffe://good/a\0b", 17));
  EXPECT_EQ(PrincipalOf(names), std::nullopt);
}

TEST(CertificateTest, HoldsForItsTime) {
  const auto read = ReadCertificate(
      Authority().Issue({.names = "DNS:a", .begin = hours(-2), .end = hours(3)}).certificate);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->end - read->begin, hours(5));
  EXPECT_LE(read->begin, Now());
  EXPECT_THAT(read->dns, ElementsAre("a"));
}

TEST(CertificateTest, WhatIsNoneIsNotRead) {
  const TestCertificate good = Authority().Issue({.names = "DNS:a"});
  EXPECT_FALSE(ReadCertificate(""));
  EXPECT_FALSE(ReadCertificate("nonsense"));
  EXPECT_FALSE(ReadCertificate(good.private_key));
  EXPECT_FALSE(ReadCertificate(good.certificate.substr(0, 200)));
}

std::string Problem(const TlsMaterial& material) {
  return std::string(CheckTlsMaterial(material, Now()).message());
}

TEST(TlsMaterialTest, IsAMatchingPairThatHolds) {
  const TestCertificate one = Authority().Issue({.names = "DNS:a"});
  const TestCertificate two = Authority().Issue({.names = "DNS:a"});
  const TestCertificate old = Authority().Issue({.names = "DNS:a", .end = hours(-1)});
  const TestCertificate early =
      Authority().Issue({.names = "DNS:a", .begin = hours(1), .end = hours(2)});
  const std::string ca = Authority().certificate();
  EXPECT_EQ(Problem({one.certificate, one.private_key, ""}), "");
  EXPECT_EQ(Problem({one.certificate + ca, one.private_key, ca + ca}), "");
  const struct {
    const char* name;
    TlsMaterial material;
    const char* problem;
  } kCases[] = {
      {"mismatched",
       {one.certificate, two.private_key, ""},
       "is not that of the first certificate"},
      {"in the wrong order",
       {ca + one.certificate, one.private_key, ""},
       "is not that of the first certificate"},
      {"no certificate", {"", one.private_key, ""}, "certificate_file holds no certificate"},
      {"the key for both", {one.private_key, one.private_key, ""}, "certificate_file holds no"},
      {"a chain that is cut short",
       {one.certificate + ca.substr(0, 100), one.private_key, ""},
       "certificate_file holds no"},
      {"no key", {one.certificate, "", ""}, "private_key_file holds no key"},
      {"a key that is cut short",
       {one.certificate, one.private_key.substr(0, 60), ""},
       "private_key_file holds no key"},
      {"expired", {old.certificate, old.private_key, ""}, "has expired"},
      {"not yet", {early.certificate, early.private_key, ""}, "does not hold yet"},
      {"no authority", {one.certificate, one.private_key, "\n"}, "client_ca_file holds no"},
  };
  for (const auto& row : kCases) {
    EXPECT_THAT(Problem(row.material), HasSubstr(row.problem)) << row.name;
  }
}

TEST(TlsMaterialTest, AKeyWithAPassphraseAsksNobody) {
  const TestCertificate good = Authority().Issue({.names = "DNS:a"});
  const std::string locked =
      "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
      "MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgAAAAAAAAAAAICCAAw\n"
      "-----END ENCRYPTED PRIVATE KEY-----\n";
  EXPECT_THAT(Problem({good.certificate, locked, ""}), HasSubstr("without a passphrase"));
}

}  // namespace
}  // namespace idempotency::service
