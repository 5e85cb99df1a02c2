#include "service/identity/authenticator.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "keystore/clock.h"
#include "tests/service/identity/jwt_maker.h"
#include "tests/support/temp_directory.h"
#include "tests/support/test_authority.h"

namespace idempotency::service {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Jwks;
using testing::SigningKey;
using testing::TestAuthority;

constexpr core::Time kNow{seconds(1'800'000'000)};
constexpr char kToken[] = "0123456789abcdef0123456789abcdef";

std::string LineFor(const std::string& name, const std::string& token) {
  const TokenDigest digest = DigestToken(token);
  const std::string bytes(digest.begin(), digest.end());
  return absl::StrCat(name, " sha256:", absl::BytesToHexString(bytes), "\n");
}

class AuthenticatorTest : public ::testing::Test {
 protected:
  AuthenticatorTest() {
    Write("tokens", LineFor("ci", kToken) + LineFor("weak", "password"));
    Write("jwks", Jwks({key_.Jwk()}));
    settings_.tokens_file = Path("tokens");
    settings_.jwt_issuers.push_back(
        {"cluster", "https://issuer", {"idempotencyd"}, Path("jwks"), seconds(0)});
  }

  std::string Path(const std::string& name) const { return directory_.path() + "/" + name; }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name) + ".new") << text;
    std::filesystem::rename(Path(name) + ".new", Path(name));
  }

  std::unique_ptr<Authenticator> Open(const IdentitySettings& settings, bool certificates) {
    auto opened = Authenticator::Open(settings, certificates, [this](const FileReport& file) {
      reports_.push_back(absl::StrCat(std::string(file.what), file.status.ok() ? " good" : " bad"));
    });
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened.ok() ? *std::move(opened) : nullptr;
  }

  std::string Jwt(const std::string& exp = "1800000100") const {
    return key_.Token(
        absl::StrCat(R"({"iss":"https://issuer","aud":"idempotencyd","sub":"s","exp":)", exp, "}"));
  }

  // The name, or the fault.
  static std::string Ask(const Authenticator& authenticator, const Credentials& credentials,
                         core::Time now = kNow) {
    const Authentication who = authenticator.Authenticate(credentials, now);
    return who.fault == AuthFault::kNone ? who.principal.name : std::string(FaultName(who.fault));
  }
  static std::string AskWith(const Authenticator& authenticator, const std::string& authorization,
                             core::Time now = kNow) {
    return Ask(authenticator, {.authorization = authorization, .private_transport = true}, now);
  }

  const TempDirectory directory_;
  const SigningKey key_ = SigningKey::P256("k");
  IdentitySettings settings_;
  std::vector<std::string> reports_;
};

TEST_F(AuthenticatorTest, AsksNobodyWhereNothingIsConfigured) {
  const auto open = Open({}, false);
  EXPECT_FALSE(open->required());
  EXPECT_EQ(open->Authenticate({}, kNow).principal, Principal{});
  EXPECT_EQ(AskWith(*open, "Bearer whatever"), "");
}

TEST_F(AuthenticatorTest, KnowsTokens) {
  const auto authenticator = Open(settings_, false);
  EXPECT_TRUE(authenticator->required());
  EXPECT_EQ(AskWith(*authenticator, absl::StrCat("Bearer ", kToken)), "token:ci");
  EXPECT_EQ(AskWith(*authenticator, absl::StrCat("bearer ", kToken)), "token:ci");
  EXPECT_EQ(AskWith(*authenticator, "Bearer " + Jwt()), "jwt:cluster:s");
  // Once more, from memory.
  EXPECT_EQ(AskWith(*authenticator, "Bearer " + Jwt()), "jwt:cluster:s");
}

TEST_F(AuthenticatorTest, RefusesEverythingElse) {
  const auto authenticator = Open(settings_, false);
  const std::string good = absl::StrCat("Bearer ", kToken);
  EXPECT_EQ(Ask(*authenticator, {}), "NO_CREDENTIALS");
  EXPECT_EQ(Ask(*authenticator, {.authorization = good}), "TOKEN_OVER_PLAINTEXT");
  EXPECT_EQ(Ask(*authenticator,
                {.authorization = good, .several_authorizations = true, .private_transport = true}),
            "NOT_BEARER");
  const struct {
    const char* name;
    std::string authorization;
    const char* fault;
  } kCases[] = {
      {"another scheme", "Basic Y2k6c2VjcmV0", "NOT_BEARER"},
      {"no token", "Bearer ", "NOT_BEARER"},
      {"the scheme alone", "Bearer", "NOT_BEARER"},
      {"the token alone", kToken, "NOT_BEARER"},
      {"unknown", "Bearer " + std::string(32, 'x'), "TOKEN_NOT_VALID"},
      {"two spaces", absl::StrCat("Bearer  ", kToken), "TOKEN_NOT_VALID"},
      {"something behind it", good + " ", "TOKEN_NOT_VALID"},
      {"a password, though its digest is in the file", "Bearer password", "TOKEN_NOT_VALID"},
      {"the digest", "Bearer " + LineFor("", kToken).substr(8, 64), "TOKEN_NOT_VALID"},
      {"expired", "Bearer " + Jwt("1800000000"), "TOKEN_EXPIRED"},
      {"of another key",
       "Bearer " +
           SigningKey::P256("k").Token(
               R"({"iss":"https://issuer","aud":"idempotencyd","sub":"s","exp":1900000000})"),
       "TOKEN_NOT_VALID"},
      {"for others",
       "Bearer " + key_.Token(R"({"iss":"https://issuer","aud":"x","sub":"s","exp":1900000000})"),
       "TOKEN_WRONG_AUDIENCE"},
      {"too early",
       "Bearer " +
           key_.Token(
               R"({"iss":"https://issuer","aud":"idempotencyd","sub":"s","exp":1900000000,"nbf":1800000001})"),
       "TOKEN_NOT_YET_VALID"},
      {"too large", "Bearer " + std::string(kMaxTokenBytes + 1, 'x'), "TOKEN_NOT_VALID"},
  };
  for (const auto& row : kCases) {
    EXPECT_EQ(AskWith(*authenticator, row.authorization), row.fault) << row.name;
  }
}

TEST_F(AuthenticatorTest, ATokenInMemoryEndsWhenItExpires) {
  const auto authenticator = Open(settings_, false);
  const core::Time end{seconds(1'800'000'100)};
  const std::string authorization = "Bearer " + Jwt();
  EXPECT_EQ(AskWith(*authenticator, authorization, end - core::Duration(1)), "jwt:cluster:s");
  EXPECT_EQ(AskWith(*authenticator, authorization, end), "TOKEN_EXPIRED");
  EXPECT_EQ(AskWith(*authenticator, authorization, end - core::Duration(1)), "jwt:cluster:s");
}

TEST_F(AuthenticatorTest, ATokenThatIsTakenBackEndsInMemoryToo) {
  const auto authenticator = Open(settings_, false);
  const std::string authorization = absl::StrCat("Bearer ", kToken);
  EXPECT_EQ(AskWith(*authenticator, authorization), "token:ci");
  const std::string jwt = "Bearer " + Jwt();
  EXPECT_EQ(AskWith(*authenticator, jwt), "jwt:cluster:s");
  Write("tokens", LineFor("other", std::string(32, 'o')));
  Write("jwks", Jwks({SigningKey::P256("k").Jwk()}));
  authenticator->Refresh();
  EXPECT_THAT(reports_, ElementsAre("tokens good", "jwks good"));
  EXPECT_EQ(AskWith(*authenticator, authorization), "TOKEN_NOT_VALID");
  EXPECT_EQ(AskWith(*authenticator, jwt), "TOKEN_NOT_VALID");
  EXPECT_EQ(AskWith(*authenticator, "Bearer " + std::string(32, 'o')), "token:other");
}

TEST_F(AuthenticatorTest, BadFilesLeaveWhatWas) {
  const auto authenticator = Open(settings_, false);
  Write("tokens", "cut sh");
  Write("jwks", "{");
  authenticator->Refresh();
  authenticator->Refresh();
  EXPECT_THAT(reports_, ElementsAre("tokens bad", "jwks bad"));
  EXPECT_EQ(AskWith(*authenticator, absl::StrCat("Bearer ", kToken)), "token:ci");
  EXPECT_EQ(AskWith(*authenticator, "Bearer " + Jwt()), "jwt:cluster:s");
}

TEST_F(AuthenticatorTest, NewSettingsComeAsAWholeOrNotAtAll) {
  const auto authenticator = Open(settings_, false);
  IdentitySettings next = settings_;
  next.tokens_file.clear();
  next.jwt_issuers[0].jwks_file = Path("missing");
  EXPECT_THAT(std::string(authenticator->Apply(next).message()), HasSubstr(Path("missing")));
  EXPECT_EQ(AskWith(*authenticator, absl::StrCat("Bearer ", kToken)), "token:ci");
  next.jwt_issuers[0].jwks_file = Path("jwks");
  next.jwt_issuers[0].name = "renamed";
  EXPECT_TRUE(authenticator->Apply(next).ok());
  EXPECT_EQ(AskWith(*authenticator, absl::StrCat("Bearer ", kToken)), "TOKEN_NOT_VALID");
  EXPECT_EQ(AskWith(*authenticator, "Bearer " + Jwt()), "jwt:renamed:s");
  EXPECT_TRUE(authenticator->Apply({}).ok());
  EXPECT_FALSE(authenticator->required());
}

class CertificateCallsTest : public AuthenticatorTest {
 protected:
  std::string Pem(const std::string& names) const {
    return authority_.Issue({.names = names}).certificate;
  }

  const TestAuthority authority_{"ca"};
  const core::Time now_ = keystore::ReadKernelTime().wall;
};

TEST_F(CertificateCallsTest, NameTheirCaller) {
  const auto authenticator = Open({}, true);
  EXPECT_TRUE(authenticator->required());
  EXPECT_FALSE(authenticator->takes_tokens());
  const std::string pem = Pem("URI:spiffe://example.org/api");
  for (int i = 0; i < 2; ++i) {
    const Authentication who = authenticator->Authenticate({.certificate = pem}, now_);
    EXPECT_EQ(who.principal, (Principal{"spiffe://example.org/api", PrincipalKind::kUri}));
  }
  EXPECT_EQ(Ask(*authenticator, {.certificate = Pem("")}, now_), "CERTIFICATE_NAMES");
  EXPECT_EQ(Ask(*authenticator, {}, now_), "NO_CREDENTIALS");
  // Where no tokens are taken, `authorization` is another's business.
  EXPECT_EQ(Ask(*authenticator, {.certificate = pem, .authorization = "Basic x"}, now_),
            "spiffe://example.org/api");
  EXPECT_EQ(Ask(*authenticator, {.authorization = "Bearer x"}, now_), "NO_CREDENTIALS");
}

// A connection lives on when the certificate that it was made with has ended.
TEST_F(CertificateCallsTest, EndWithTheCertificate) {
  const auto authenticator = Open({}, true);
  const std::string pem = Pem("DNS:api");
  const core::Time end = ReadCertificate(pem)->end;
  EXPECT_EQ(Ask(*authenticator, {.certificate = pem}, end), "CERTIFICATE_EXPIRED");
  EXPECT_EQ(Ask(*authenticator, {.certificate = pem}, end - core::Duration(1)), "dns:api");
  EXPECT_EQ(Ask(*authenticator, {.certificate = pem}, end), "CERTIFICATE_EXPIRED");
}

TEST_F(CertificateCallsTest, ATokenDecidesWhereOneIsSent) {
  const auto authenticator = Open(settings_, true);
  const std::string pem = Pem("DNS:api");
  EXPECT_EQ(Ask(*authenticator, {.certificate = pem,
                                 .authorization = absl::StrCat("Bearer ", kToken),
                                 .private_transport = true}),
            "token:ci");
  EXPECT_EQ(Ask(*authenticator,
                {.certificate = pem, .authorization = "Bearer no", .private_transport = true}),
            "TOKEN_NOT_VALID");
  EXPECT_EQ(Ask(*authenticator, {.certificate = pem}, now_), "dns:api");
}

TEST(AuthFaultTest, EachHasItsNameAndItsSentence) {
  for (size_t i = 1; i < kAuthFaults; ++i) {
    const auto fault = static_cast<AuthFault>(i);
    EXPECT_NE(FaultName(fault), "") << i;
    EXPECT_EQ(SentenceOf(fault).back(), '.') << i;
    EXPECT_NE(SentenceOf(fault).find(';'), std::string_view::npos) << i;  // the next step
  }
}

}  // namespace
}  // namespace idempotency::service
