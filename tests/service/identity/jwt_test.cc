#include "service/identity/jwt.h"

#include <chrono>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "service/identity/base64url.h"
#include "tests/service/identity/jwt_maker.h"

namespace idempotency::service {
namespace {

using std::chrono::seconds;
using testing::Base64Url;
using testing::Jwks;
using testing::SigningKey;

constexpr core::Time kNow{seconds(1'800'000'000)};
constexpr char kIssuer[] = "https://kubernetes.default.svc.cluster.local";
constexpr char kSubject[] = "system:serviceaccount:payments:api";

std::shared_ptr<const KeySet> Keys(const std::string& jwks) {
  auto keys = ParseJwks(jwks);
  EXPECT_TRUE(keys.ok()) << keys.status();
  return keys.ok() ? *std::move(keys) : nullptr;
}

// What a Kubernetes projected token says, shortened.
std::string Payload(const std::string& exp = "1800003600", const std::string& extra = "") {
  return absl::StrCat(R"({"aud":["idempotencyd"],"exp":)", exp,
                      R"(,"iat":1799996400,"nbf":1799996400,"iss":")", kIssuer, R"(","sub":")",
                      kSubject, R"(","kubernetes.io":{"namespace":"payments"})", extra, "}");
}

// Making RSA keys takes a while: one of each for all tests.
const SigningKey& RsaKey() {
  static const auto* const kKey = new SigningKey(SigningKey::Rsa("r1"));
  return *kKey;
}
const SigningKey& EcKey() {
  static const auto* const kKey = new SigningKey(SigningKey::P256("e1"));
  return *kKey;
}

class JwtTest : public ::testing::Test {
 protected:
  TokenFault Fault(const std::string& token, core::Time now = kNow) const {
    return VerifyJwt(token, issuers_, now).fault;
  }

  const std::vector<JwtIssuer> issuers_ = {{"other",
                                            "https://other.example",
                                            {"idempotencyd"},
                                            seconds(60),
                                            Keys(Jwks({SigningKey::P256("e1").Jwk()}))},
                                           {"cluster",
                                            kIssuer,
                                            {"ledger", "idempotencyd"},
                                            seconds(60),
                                            Keys(Jwks({RsaKey().Jwk(), EcKey().Jwk()}))}};
};

TEST_F(JwtTest, TellsWhoSignedForWhom) {
  for (const SigningKey* key : {&RsaKey(), &EcKey()}) {
    const VerifiedJwt verified = VerifyJwt(key->Token(Payload()), issuers_, kNow);
    EXPECT_EQ(verified.fault, TokenFault::kNone) << FaultName(verified.fault);
    EXPECT_EQ(verified.claims.issuer_name, "cluster");
    EXPECT_EQ(verified.claims.subject, kSubject);
    EXPECT_EQ(verified.claims.end, core::Time(seconds(1'800'003'660)));
    EXPECT_EQ(verified.claims.begin, core::Time(seconds(1'799'996'340)));
  }
}

TEST_F(JwtTest, TakesTheAudienceAsOneTextToo) {
  EXPECT_EQ(Fault(EcKey().Token(absl::StrCat(R"({"aud":"ledger","exp":1800000001,"iss":")", kIssuer,
                                             R"(","sub":"s"})"))),
            TokenFault::kNone);
}

TEST_F(JwtTest, EndsSkewBehindItsExpiry) {
  const std::string token = EcKey().Token(Payload("1800000000"));
  const core::Time end{seconds(1'800'000'060)};
  EXPECT_EQ(Fault(token, end - core::Duration(1)), TokenFault::kNone);
  EXPECT_EQ(Fault(token, end), TokenFault::kExpired);
  EXPECT_EQ(Fault(token, end + core::Duration(1)), TokenFault::kExpired);
  // Fractions of a second count.
  EXPECT_EQ(Fault(EcKey().Token(Payload("1800000000.5")), end), TokenFault::kNone);
}

TEST_F(JwtTest, BeginsSkewBeforeItsTimes) {
  for (const char* claim : {"nbf", "iat"}) {
    const std::string token =
        EcKey().Token(absl::StrCat(R"({"aud":"ledger","exp":1900000000,"iss":")", kIssuer,
                                   R"(","sub":"s",")", claim, R"(":1800000060})"));
    EXPECT_EQ(Fault(token, kNow - core::Duration(1)), TokenFault::kNotYetValid) << claim;
    EXPECT_EQ(Fault(token, kNow), TokenFault::kNone) << claim;
  }
}

TEST_F(JwtTest, RefusesEveryClaimThatIsNotAsItHasToBe) {
  const std::string iss = absl::StrCat(R"("iss":")", kIssuer, "\"");
  const struct {
    const char* name;
    std::string payload;
    TokenFault fault;
  } kCases[] = {
      {"no exp", "{" + iss + R"(,"sub":"s","aud":"ledger"})", TokenFault::kMalformed},
      {"exp is a text", "{" + iss + R"(,"sub":"s","aud":"ledger","exp":"1800000001"})",
       TokenFault::kMalformed},
      {"exp is negative", "{" + iss + R"(,"sub":"s","aud":"ledger","exp":-1})",
       TokenFault::kMalformed},
      {"exp is no time that can be", "{" + iss + R"(,"sub":"s","aud":"ledger","exp":1e300})",
       TokenFault::kMalformed},
      {"nbf is null", "{" + iss + R"(,"sub":"s","aud":"ledger","exp":1800000001,"nbf":null})",
       TokenFault::kMalformed},
      {"no sub", "{" + iss + R"(,"aud":"ledger","exp":1800000001})", TokenFault::kMalformed},
      {"sub is empty", "{" + iss + R"(,"sub":"","aud":"ledger","exp":1800000001})",
       TokenFault::kMalformed},
      {"sub has a space", "{" + iss + R"(,"sub":"a b","aud":"ledger","exp":1800000001})",
       TokenFault::kMalformed},
      {"sub has a line end", "{" + iss + R"(,"sub":"a\nb","aud":"ledger","exp":1800000001})",
       TokenFault::kMalformed},
      {"sub is long",
       "{" + iss + R"(,"sub":")" + std::string(kMaxSubjectBytes + 1, 's') +
           R"(","aud":"ledger","exp":1800000001})",
       TokenFault::kMalformed},
      {"no aud", "{" + iss + R"(,"sub":"s","exp":1800000001})", TokenFault::kMalformed},
      {"aud holds a number", "{" + iss + R"(,"sub":"s","exp":1800000001,"aud":["ledger",1]})",
       TokenFault::kMalformed},
      {"aud is another's", "{" + iss + R"(,"sub":"s","exp":1800000001,"aud":["vault"]})",
       TokenFault::kWrongAudience},
      {"aud is empty", "{" + iss + R"(,"sub":"s","exp":1800000001,"aud":[]})",
       TokenFault::kWrongAudience},
      {"aud begins like ours", "{" + iss + R"(,"sub":"s","exp":1800000001,"aud":"ledger2"})",
       TokenFault::kWrongAudience},
      {"no iss", R"({"sub":"s","aud":"ledger","exp":1800000001})", TokenFault::kUnknownIssuer},
      {"iss is unknown", R"({"iss":"https://evil","sub":"s","aud":"ledger","exp":1800000001})",
       TokenFault::kUnknownIssuer},
      {"sub stands twice", "{" + iss + R"(,"sub":"a","sub":"b","aud":"ledger","exp":1800000001})",
       TokenFault::kMalformed},
      {"a member below stands twice",
       "{" + iss + R"(,"sub":"a","x":[{"y":1,"y":1}],"aud":"ledger","exp":1800000001})",
       TokenFault::kMalformed},
      {"something behind the object", Payload() + "{}", TokenFault::kMalformed},
      {"NUL behind the object", Payload() + std::string(1, '\0'), TokenFault::kMalformed},
      {"a comment", Payload() + "/**/", TokenFault::kMalformed},
      {"a list", "[" + Payload() + "]", TokenFault::kMalformed},
      {"not UTF-8", "{" + iss + ",\"sub\":\"\xff\",\"aud\":\"ledger\",\"exp\":1800000001}",
       TokenFault::kMalformed},
      {"nested deeply",
       "{" + iss + R"(,"sub":"s","aud":"ledger","exp":1800000001,"x":)" + std::string(20, '[') +
           std::string(20, ']') + "}",
       TokenFault::kMalformed},
      {"nothing", "", TokenFault::kMalformed},
  };
  for (const auto& row : kCases) {
    const TokenFault fault = Fault(EcKey().Token(row.payload));
    EXPECT_EQ(fault, row.fault) << row.name << ": " << FaultName(fault);
  }
}

TEST_F(JwtTest, RefusesEveryHeaderThatIsNotAsItHasToBe) {
  const struct {
    const char* name;
    std::string header;
    TokenFault fault;
  } kCases[] = {
      {"none", R"({"alg":"none","kid":"e1"})", TokenFault::kAlgorithm},
      {"None", R"({"alg":"None","kid":"e1"})", TokenFault::kAlgorithm},
      {"no alg", R"({"kid":"e1"})", TokenFault::kAlgorithm},
      {"alg is a number", R"({"alg":1,"kid":"e1"})", TokenFault::kAlgorithm},
      {"HS256", R"({"alg":"HS256","kid":"e1"})", TokenFault::kAlgorithm},
      {"PS256", R"({"alg":"PS256","kid":"r1"})", TokenFault::kAlgorithm},
      {"es256", R"({"alg":"es256","kid":"e1"})", TokenFault::kAlgorithm},
      {"alg of the other key", R"({"alg":"RS256","kid":"e1"})", TokenFault::kAlgorithm},
      {"kid of the other key", R"({"alg":"ES256","kid":"r1"})", TokenFault::kAlgorithm},
      {"no kid", R"({"alg":"ES256"})", TokenFault::kUnknownKey},
      {"kid is a number", R"({"alg":"ES256","kid":1})", TokenFault::kUnknownKey},
      {"kid is unknown", R"({"alg":"ES256","kid":"e2"})", TokenFault::kUnknownKey},
      {"kid in other letters", R"({"alg":"ES256","kid":"E1"})", TokenFault::kUnknownKey},
      {"crit", R"({"alg":"ES256","kid":"e1","crit":["exp"]})", TokenFault::kCritical},
      {"typ of another kind", R"({"alg":"ES256","kid":"e1","typ":"secevent+jwt"})",
       TokenFault::kWrongType},
      {"typ is no text", R"({"alg":"ES256","kid":"e1","typ":null})", TokenFault::kWrongType},
      {"alg stands twice", R"({"alg":"none","alg":"ES256","kid":"e1"})", TokenFault::kMalformed},
      {"something behind it", R"({"alg":"ES256","kid":"e1"} x)", TokenFault::kMalformed},
      {"a text", R"("ES256")", TokenFault::kMalformed},
      {"JWT", R"({"alg":"ES256","kid":"e1","typ":"JWT"})", TokenFault::kNone},
      {"at+jwt", R"({"alg":"ES256","kid":"e1","typ":"at+jwt"})", TokenFault::kNone},
      {"unknown members", R"({"alg":"ES256","kid":"e1","x":1})", TokenFault::kNone},
  };
  for (const auto& row : kCases) {
    const TokenFault fault = Fault(EcKey().Token(row.header, Payload()));
    EXPECT_EQ(fault, row.fault) << row.name << ": " << FaultName(fault);
  }
}

// The classic confusion: an HMAC whose secret is the public key, which everybody has.
TEST_F(JwtTest, AnHmacMadeWithThePublicKeyIsNoSignature) {
  const std::string text = Base64Url(R"({"alg":"HS256","kid":"r1"})") + "." + Base64Url(Payload());
  const std::string secret = RsaKey().PublicPem();
  unsigned char mac[EVP_MAX_MD_SIZE];
  size_t size = 0;
  ASSERT_NE(EVP_Q_mac(nullptr, "HMAC", nullptr, "SHA256", nullptr, secret.data(), secret.size(),
                      reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac,
                      sizeof(mac), &size),
            nullptr);
  const std::string signature(reinterpret_cast<char*>(mac), size);
  EXPECT_EQ(Fault(text + "." + Base64Url(signature)), TokenFault::kAlgorithm);
  const std::string as_rs256 =
      Base64Url(R"({"alg":"RS256","kid":"r1"})") + "." + Base64Url(Payload());
  EXPECT_EQ(Fault(as_rs256 + "." + Base64Url(signature)), TokenFault::kSignature);
}

TEST_F(JwtTest, RefusesKeysThatATokenBringsAlong) {
  const SigningKey mallory = SigningKey::P256("e1");
  EXPECT_EQ(Fault(mallory.Token(Payload())), TokenFault::kSignature);
  EXPECT_EQ(
      Fault(mallory.Token(absl::StrCat(R"({"alg":"ES256","kid":"e1","jwk":)", mallory.Jwk(), "}"),
                          Payload())),
      TokenFault::kSignature);
  EXPECT_EQ(
      Fault(mallory.Token(R"({"alg":"ES256","kid":"m","jku":"https://evil/jwks"})", Payload())),
      TokenFault::kUnknownKey);
}

// A key of one issuer signs for no other.
TEST_F(JwtTest, AKeySignsForItsIssuerAlone) {
  const std::string payload =
      R"({"iss":"https://other.example","sub":"s","aud":"idempotencyd","exp":1800000001})";
  EXPECT_EQ(Fault(EcKey().Token(payload)), TokenFault::kSignature);
}

TEST_F(JwtTest, RefusesEverySignatureThatIsNotTheOne) {
  const std::string good = EcKey().Token(Payload());
  const std::string text = good.substr(0, good.rfind('.'));
  const std::string raw = EcKey().Sign(text);
  const auto with = [&](const std::string& bytes) { return text + "." + Base64Url(bytes); };
  EXPECT_EQ(Fault(with(EcKey().SignDer(text))), TokenFault::kSignature) << "DER";
  EXPECT_EQ(Fault(with("")), TokenFault::kSignature) << "empty";
  EXPECT_EQ(Fault(with(raw.substr(0, 63))), TokenFault::kSignature) << "short";
  EXPECT_EQ(Fault(with(raw + "x")), TokenFault::kSignature) << "long";
  EXPECT_EQ(Fault(with(std::string(64, '\0'))), TokenFault::kSignature) << "r = s = 0";
  EXPECT_EQ(Fault(with(raw.substr(32) + raw.substr(0, 32))), TokenFault::kSignature) << "s, r";
  for (size_t i = 0; i < raw.size(); i += 7) {
    std::string changed = raw;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_EQ(Fault(with(changed)), TokenFault::kSignature) << i;
  }
  const std::string rsa = RsaKey().Token(Payload());
  const std::string rsa_text = rsa.substr(0, rsa.rfind('.'));
  const std::string rsa_raw = RsaKey().Sign(rsa_text);
  EXPECT_EQ(Fault(rsa_text + "." + Base64Url(rsa_raw.substr(1))), TokenFault::kSignature);
  EXPECT_EQ(Fault(rsa_text + "." + Base64Url(rsa_raw + std::string(1, '\0'))),
            TokenFault::kSignature);
}

TEST_F(JwtTest, RefusesWhatIsNotThreePartsOfStrictBase64Url) {
  const std::string good = EcKey().Token(Payload());
  ASSERT_EQ(Fault(good), TokenFault::kNone);
  const size_t first = good.find('.');
  const size_t second = good.rfind('.');
  std::string not_canonical = good;  // 64 bytes leave four bits that have to be zero
  not_canonical.back() = not_canonical.back() == 'B' ? 'C' : 'B';
  const struct {
    const char* name;
    std::string token;
  } kCases[] = {
      {"empty", ""},
      {"one part", good.substr(0, first)},
      {"two parts", good.substr(0, second)},
      {"no signature and no point", good.substr(0, second)},
      {"four parts", good + ".e30"},
      {"a point behind", good + "."},
      {"padding", good + "=="},
      {"a space before", " " + good},
      {"a line end behind", good + "\n"},
      {"bits behind the end", not_canonical},
      {"the other alphabet", good.substr(0, first) + "+" + good.substr(first)},
      {"five parts, as encrypted tokens have", good + ".AA.AA"},
  };
  for (const auto& row : kCases) EXPECT_EQ(Fault(row.token), TokenFault::kMalformed) << row.name;
}

TEST_F(JwtTest, RefusesAnOversizedTokenUnread) {
  const std::string token =
      EcKey().Token(Payload("1800003600", ",\"x\":\"" + std::string(kMaxTokenBytes, 'x') + "\""));
  EXPECT_EQ(Fault(token), TokenFault::kTooLarge);
  std::string most = EcKey().Token(Payload());
  most.append(kMaxTokenBytes - most.size(), 'A');
  EXPECT_EQ(Fault(most), TokenFault::kSignature);
  EXPECT_EQ(Fault(most + "A"), TokenFault::kTooLarge);
}

// RFC 7515, A.2 and A.3: what others have signed.
TEST(JwsVectorsTest, AreVerified) {
  const auto keys = ParseJwks(Jwks(
      {R"({"kty":"RSA","kid":"a2","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"})",
       R"({"kty":"EC","kid":"a3","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"})"}));
  ASSERT_TRUE(keys.ok()) << keys.status();
  const std::string payload =
      ".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cn"
      "VlfQ";
  const auto rs256 = DecodeBase64Url(
      "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5"
      "jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb"
      "1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QO"
      "YEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw");
  const auto es256 = DecodeBase64Url(
      "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q");
  ASSERT_TRUE(rs256 && es256);
  EXPECT_TRUE(VerifySignature(*(*keys)->Find("a2"), "eyJhbGciOiJSUzI1NiJ9" + payload, *rs256));
  EXPECT_TRUE(VerifySignature(*(*keys)->Find("a3"), "eyJhbGciOiJFUzI1NiJ9" + payload, *es256));
  EXPECT_FALSE(VerifySignature(*(*keys)->Find("a2"), "eyJhbGciOiJFUzI1NiJ9" + payload, *rs256));
}

TEST(Base64UrlTest, HasOneTextForEveryBytes) {
  EXPECT_EQ(DecodeBase64Url(""), "");
  EXPECT_EQ(DecodeBase64Url("AA"), std::string(1, '\0'));
  EXPECT_EQ(DecodeBase64Url("Zm9v"), "foo");
  EXPECT_EQ(DecodeBase64Url("Zm9vYg"), "foob");
  EXPECT_EQ(DecodeBase64Url("-_-_"), "\xfb\xff\xbf");
  for (const char* wrong :
       {"A", "AAAAA", "AB", "AA==", "Zm9vYh", "+/+/", "AA ", "Z\n9v", "\xc3\xa4"}) {
    EXPECT_EQ(DecodeBase64Url(wrong), std::nullopt) << wrong;
  }
}

}  // namespace
}  // namespace idempotency::service
