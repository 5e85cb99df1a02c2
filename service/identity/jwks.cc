#include "service/identity/jwks.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/identity/base64url.h"
#include "service/identity/openssl_ptr.h"
#include "service/identity/strict_json.h"

namespace idempotency::service {
namespace {

using nlohmann::json;

constexpr int kMinRsaBits = 2048;
constexpr int kMaxRsaBits = 8192;
constexpr size_t kCoordinateBytes = 32;  // of P-256
constexpr size_t kMaxKeyIdBytes = 255;

const unsigned char* Bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

OpensslPtr<BIGNUM> ToNumber(std::string_view bytes) {
  return OpensslPtr<BIGNUM>(BN_bin2bn(Bytes(bytes), static_cast<int>(bytes.size()), nullptr));
}

// A member that holds base64url; nothing where it does not.
std::optional<std::string> BytesMember(const json& object, const char* name) {
  const std::optional<std::string> text = TextMember(object, name);
  return text ? DecodeBase64Url(*text) : std::nullopt;
}

// Null where the parameters are no public key that holds together.
std::shared_ptr<EVP_PKEY> MakeKey(const char* type, OSSL_PARAM_BLD* builder) {
  const OpensslPtr<OSSL_PARAM> parameters(OSSL_PARAM_BLD_to_param(builder));
  const OpensslPtr<EVP_PKEY_CTX> making(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
  EVP_PKEY* raw = nullptr;
  if (parameters == nullptr || making == nullptr || EVP_PKEY_fromdata_init(making.get()) != 1 ||
      EVP_PKEY_fromdata(making.get(), &raw, EVP_PKEY_PUBLIC_KEY, parameters.get()) != 1) {
    return nullptr;
  }
  std::shared_ptr<EVP_PKEY> key(raw, &EVP_PKEY_free);
  const OpensslPtr<EVP_PKEY_CTX> checking(EVP_PKEY_CTX_new_from_pkey(nullptr, raw, nullptr));
  return checking != nullptr && EVP_PKEY_public_check(checking.get()) == 1 ? key : nullptr;
}

std::shared_ptr<EVP_PKEY> MakeRsaKey(const json& from) {
  const std::optional<std::string> n = BytesMember(from, "n");
  const std::optional<std::string> e = BytesMember(from, "e");
  if (!n || !e || n->size() > kMaxRsaBits / 8 || e->size() > sizeof(uint64_t)) return nullptr;
  const OpensslPtr<BIGNUM> modulus = ToNumber(*n);
  const OpensslPtr<BIGNUM> exponent = ToNumber(*e);
  const OpensslPtr<OSSL_PARAM_BLD> builder(OSSL_PARAM_BLD_new());
  if (OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, modulus.get()) != 1 ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, exponent.get()) != 1) {
    return nullptr;
  }
  std::shared_ptr<EVP_PKEY> key = MakeKey("RSA", builder.get());
  return key != nullptr && EVP_PKEY_get_bits(key.get()) >= kMinRsaBits ? key : nullptr;
}

std::shared_ptr<EVP_PKEY> MakeP256Key(const json& from) {
  const std::optional<std::string> x = BytesMember(from, "x");
  const std::optional<std::string> y = BytesMember(from, "y");
  if (!x || !y || x->size() != kCoordinateBytes || y->size() != kCoordinateBytes) return nullptr;
  const std::string point = absl::StrCat("\x04", *x, *y);
  const OpensslPtr<OSSL_PARAM_BLD> builder(OSSL_PARAM_BLD_new());
  if (OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) !=
          1 ||
      OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(),
                                       point.size()) != 1) {
    return nullptr;
  }
  return MakeKey("EC", builder.get());
}

// Which algorithm a key is for; nothing for one that is not used here.
std::optional<SignatureAlgorithm> AlgorithmOf(const json& key) {
  const std::string kty = TextMember(key, "kty").value_or("");
  std::optional<SignatureAlgorithm> algorithm;
  if (kty == "RSA") algorithm = SignatureAlgorithm::kRs256;
  if (kty == "EC" && TextMember(key, "crv") == "P-256") algorithm = SignatureAlgorithm::kEs256;
  if (!algorithm) return std::nullopt;
  if (key.contains("use") && TextMember(key, "use") != "sig") return std::nullopt;
  if (key.contains("alg") && TextMember(key, "alg") != AlgorithmName(*algorithm)) {
    return std::nullopt;
  }
  const auto operations = key.find("key_ops");
  if (operations == key.end()) return algorithm;
  if (!operations->is_array()) return std::nullopt;
  for (const json& operation : *operations) {
    if (operation == "verify") return algorithm;
  }
  return std::nullopt;
}

// Empty where the key is as it should be, and in *out.
std::string TakeKey(const json& from, SignatureAlgorithm algorithm, std::string* id, JwtKey* out) {
  for (const char* secret : {"d", "p", "q", "k"}) {
    if (from.contains(secret)) return "holds a private key: give the issuer's public keys alone";
  }
  *id = TextMember(from, "kid").value_or("");
  if (id->empty() || id->size() > kMaxKeyIdBytes) {
    return absl::StrCat("has no kid of 1-", kMaxKeyIdBytes, " bytes, by which tokens name it");
  }
  out->algorithm = algorithm;
  out->key = algorithm == SignatureAlgorithm::kRs256 ? MakeRsaKey(from) : MakeP256Key(from);
  if (out->key != nullptr) return "";
  return algorithm == SignatureAlgorithm::kRs256
             ? absl::StrCat("is no RSA key of ", kMinRsaBits, " to ", kMaxRsaBits, " bits")
             : "is no point on P-256";
}

absl::Status Wrong(std::string message) { return absl::InvalidArgumentError(std::move(message)); }

// r and s as OpenSSL wants them.
std::optional<std::string> ToDer(std::string_view signature) {
  if (signature.size() != 2 * kCoordinateBytes) return std::nullopt;
  OpensslPtr<BIGNUM> r = ToNumber(signature.substr(0, kCoordinateBytes));
  OpensslPtr<BIGNUM> s = ToNumber(signature.substr(kCoordinateBytes));
  const OpensslPtr<ECDSA_SIG> pair(ECDSA_SIG_new());
  if (pair == nullptr || ECDSA_SIG_set0(pair.get(), r.get(), s.get()) != 1) return std::nullopt;
  (void)r.release();  // they are the pair's now
  (void)s.release();
  unsigned char* der = nullptr;
  const int size = i2d_ECDSA_SIG(pair.get(), &der);
  if (size <= 0) return std::nullopt;
  std::string bytes(reinterpret_cast<const char*>(der), static_cast<size_t>(size));
  OPENSSL_free(der);
  return bytes;
}

}  // namespace

std::string_view AlgorithmName(SignatureAlgorithm algorithm) {
  return algorithm == SignatureAlgorithm::kRs256 ? "RS256" : "ES256";
}

absl::StatusOr<std::shared_ptr<const KeySet>> ParseJwks(std::string_view text) {
  if (text.size() > kMaxJwksBytes) {
    return Wrong(absl::StrCat("is larger than ", kMaxJwksBytes, " bytes: leave old keys out"));
  }
  const std::optional<json> set = ParseStrictObject(text);
  if (!set || !set->contains("keys") || !set->at("keys").is_array()) {
    return Wrong(
        "is not a JSON Web Key Set: write an object with a member 'keys', and no member twice");
  }
  const json& listed = set->at("keys");
  if (listed.size() > kMaxJwksKeys) {
    return Wrong(absl::StrCat("holds more than ", kMaxJwksKeys, " keys: leave old ones out"));
  }
  std::map<std::string, JwtKey, std::less<>> keys;
  for (size_t i = 0; i < listed.size(); ++i) {
    if (!listed[i].is_object()) return Wrong(absl::StrCat("keys[", i, "] is not an object"));
    const std::optional<SignatureAlgorithm> algorithm = AlgorithmOf(listed[i]);
    if (!algorithm) continue;
    std::string id;
    JwtKey key;
    const std::string problem = TakeKey(listed[i], *algorithm, &id, &key);
    if (!problem.empty()) return Wrong(absl::StrCat("keys[", i, "] ", problem));
    if (!keys.emplace(std::move(id), std::move(key)).second) {
      return Wrong(absl::StrCat("keys[", i, "] has the kid of an earlier key"));
    }
  }
  if (keys.empty()) {
    return Wrong("holds no key for RS256 or ES256, so that no token could be verified");
  }
  return std::make_shared<const KeySet>(std::move(keys));
}

bool VerifySignature(const JwtKey& key, std::string_view signed_text, std::string_view signature) {
  std::string bytes(signature);
  if (key.algorithm == SignatureAlgorithm::kEs256) {
    std::optional<std::string> der = ToDer(signature);
    if (!der) return false;
    bytes = *std::move(der);
  }
  // PKCS #1 v1.5 is what OpenSSL takes for an RSA key where nothing else is asked for.
  const OpensslPtr<EVP_MD_CTX> context(EVP_MD_CTX_new());
  return context != nullptr &&
         EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, key.key.get()) == 1 &&
         EVP_DigestVerify(context.get(), Bytes(bytes), bytes.size(), Bytes(signed_text),
                          signed_text.size()) == 1;
}

}  // namespace idempotency::service
