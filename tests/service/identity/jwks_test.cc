#include "service/identity/jwks.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/identity/jwt_maker.h"

namespace idempotency::service {
namespace {

using ::testing::HasSubstr;
using testing::Jwks;
using testing::SigningKey;

std::string Problem(const std::string& text) {
  const auto keys = ParseJwks(text);
  return keys.ok() ? "" : std::string(keys.status().message());
}

TEST(JwksTest, PassesOverWhatIsNotForUs) {
  const SigningKey key = SigningKey::P256("e");
  const auto keys = ParseJwks(Jwks(
      {R"({"kty":"oct","kid":"h","k":"AAAA"})", R"({"kty":"OKP","crv":"Ed25519","kid":"o"})",
       SigningKey::P384("c").Jwk(), SigningKey::P256("u").Jwk(R"("use":"enc")"),
       SigningKey::P256("a").Jwk(R"("alg":"ECDH-ES")"),
       SigningKey::P256("k").Jwk(R"("key_ops":["sign"])"), key.Jwk(R"("use":"sig","alg":"ES256")"),
       SigningKey::P256("v").Jwk(R"("key_ops":["verify"])")}));
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_EQ((*keys)->size(), 2u);
  ASSERT_NE((*keys)->Find("e"), nullptr);
  EXPECT_EQ((*keys)->Find("e")->algorithm, SignatureAlgorithm::kEs256);
  EXPECT_NE((*keys)->Find("v"), nullptr);
  for (const char* id : {"h", "o", "c", "u", "a", "k", ""}) {
    EXPECT_EQ((*keys)->Find(id), nullptr) << id;
  }
}

TEST(JwksTest, SaysWhatIsWrong) {
  const std::string good = SigningKey::P256("e").Jwk();
  std::string off_the_curve = good;
  off_the_curve.replace(off_the_curve.find("\"y\":\"") + 5, 4, "AAAA");
  std::string short_x = good;
  short_x.erase(short_x.find("\"x\":\"") + 5, 4);
  const struct {
    const char* name;
    std::string text;
    const char* problem;
  } kCases[] = {
      {"nothing", "", "is not a JSON Web Key Set"},
      {"a list", "[]", "is not a JSON Web Key Set"},
      {"no keys", "{}", "is not a JSON Web Key Set"},
      {"keys is no list", R"({"keys":{}})", "is not a JSON Web Key Set"},
      {"cut short", Jwks({good}).substr(0, 40), "is not a JSON Web Key Set"},
      {"something behind", Jwks({good}) + "x", "is not a JSON Web Key Set"},
      {"kty stands twice", Jwks({SigningKey::P256("e").Jwk(R"("kty":"EC")")}),
       "is not a JSON Web Key Set"},
      {"a key is a number", Jwks({good, "1"}), "keys[1] is not an object"},
      {"none for us", Jwks({}), "holds no key for RS256 or ES256"},
      {"a private key", Jwks({SigningKey::P256("p").Jwk(R"("d":"AAAA")")}),
       "keys[0] holds a private key"},
      {"no kid", Jwks({SigningKey::P256("").Jwk()}), "keys[0] has no kid"},
      {"two of a kid", Jwks({good, SigningKey::Rsa("e").Jwk()}), "keys[1] has the kid of"},
      {"a small key", Jwks({SigningKey::Rsa("r", 1024).Jwk()}), "keys[0] is no RSA key of 2048"},
      {"no modulus", Jwks({R"({"kty":"RSA","kid":"r","e":"AQAB"})"}), "keys[0] is no RSA key"},
      {"off the curve", Jwks({off_the_curve}), "keys[0] is no point on P-256"},
      {"a short coordinate", Jwks({short_x}), "keys[0] is no point on P-256"},
      {"too large", std::string(kMaxJwksBytes + 1, ' '), "is larger than"},
  };
  for (const auto& row : kCases) {
    EXPECT_THAT(Problem(row.text), HasSubstr(row.problem)) << row.name;
  }
}

TEST(JwksTest, TakesAHundredKeys) {
  const std::string key = SigningKey::P256("e").Jwk(R"("use":"enc")");
  std::string hundred = SigningKey::P256("e").Jwk();
  for (size_t i = 1; i < kMaxJwksKeys; ++i) hundred += "," + key;
  EXPECT_EQ(Problem(Jwks({hundred})), "");
  EXPECT_THAT(Problem(Jwks({hundred, key})), HasSubstr("holds more than 100 keys"));
}

}  // namespace
}  // namespace idempotency::service
