#include "keystore/codec/seal.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <array>
#include <climits>
#include <cstdint>
#include <memory>

namespace idempotency::keystore {
namespace {

constexpr std::string_view kPurpose = "idempotency sealed record 1";
constexpr size_t kKeyBytes = 32;
constexpr size_t kNonceBytes = 12;

struct FreeCipherContext {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
struct FreeKdfContext {
  void operator()(EVP_KDF_CTX* context) const { EVP_KDF_CTX_free(context); }
};
using CipherContext = std::unique_ptr<EVP_CIPHER_CTX, FreeCipherContext>;
using KdfContext = std::unique_ptr<EVP_KDF_CTX, FreeKdfContext>;

const unsigned char* Data(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* Data(std::string& bytes) { return reinterpret_cast<unsigned char*>(bytes.data()); }

// Looked up once: that takes longer than to use them.
const EVP_KDF* Hkdf() {
  static const EVP_KDF* const kdf = EVP_KDF_fetch(nullptr, "HKDF", nullptr);
  return kdf;
}
const EVP_CIPHER* Gcm() {
  static const EVP_CIPHER* const cipher = EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);
  return cipher;
}

OSSL_PARAM Octets(const char* name, std::string_view bytes) {
  // OpenSSL does not write to what it is given here.
  return OSSL_PARAM_construct_octet_string(name, const_cast<char*>(bytes.data()), bytes.size());
}

bool Derive(std::string_view secret, std::string_view salt, std::string_view info,
            unsigned char* out, size_t bytes) {
  KdfContext context(EVP_KDF_CTX_new(const_cast<EVP_KDF*>(Hkdf())));
  if (context == nullptr) return false;
  char digest[] = "SHA256";
  const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
                               Octets(OSSL_KDF_PARAM_KEY, secret),
                               Octets(OSSL_KDF_PARAM_SALT, salt), Octets(OSSL_KDF_PARAM_INFO, info),
                               OSSL_PARAM_construct_end()};
  return EVP_KDF_derive(context.get(), out, bytes, params) == 1;
}

// The key and nonce of one record; wiped when it goes.
class RecordKey {
 public:
  RecordKey(std::string_view secret, std::string_view salt)
      : ok_(Derive(secret, salt, kPurpose, bytes_.data(), bytes_.size())) {}
  ~RecordKey() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }
  RecordKey(const RecordKey&) = delete;
  RecordKey& operator=(const RecordKey&) = delete;

  bool ok() const { return ok_; }
  std::string_view key() const { return View().substr(0, kKeyBytes); }
  std::string_view nonce() const { return View().substr(kKeyBytes); }

 private:
  std::string_view View() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }
  std::array<unsigned char, kKeyBytes + kNonceBytes> bytes_{};
  const bool ok_;
};

bool Encrypt(std::string_view key, std::string_view nonce, std::string_view bound,
             std::string_view plain, std::string* out) {
  if (plain.size() > INT_MAX || bound.size() > INT_MAX) return false;
  CipherContext context(EVP_CIPHER_CTX_new());
  const size_t start = out->size();
  out->resize(start + plain.size() + kSealTagBytes);
  unsigned char* const to = Data(*out) + start;
  int bytes = 0;
  const bool done =
      context != nullptr &&
      EVP_EncryptInit_ex2(context.get(), Gcm(), Data(key), Data(nonce), nullptr) == 1 &&
      EVP_EncryptUpdate(context.get(), nullptr, &bytes, Data(bound),
                        static_cast<int>(bound.size())) == 1 &&
      EVP_EncryptUpdate(context.get(), to, &bytes, Data(plain), static_cast<int>(plain.size())) ==
          1 &&
      EVP_EncryptFinal_ex(context.get(), to + bytes, &bytes) == 1 &&
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_GET_TAG, kSealTagBytes, to + plain.size()) ==
          1;
  if (!done) out->resize(start);
  return done;
}

bool Decrypt(std::string_view key, std::string_view nonce, std::string_view bound,
             std::string_view sealed, std::string* plain) {
  if (sealed.size() < kSealTagBytes || sealed.size() > INT_MAX || bound.size() > INT_MAX) {
    return false;
  }
  const std::string_view text = sealed.substr(0, sealed.size() - kSealTagBytes);
  std::string tag(sealed.substr(text.size()));
  CipherContext context(EVP_CIPHER_CTX_new());
  plain->resize(text.size());
  int bytes = 0;
  return context != nullptr &&
         EVP_DecryptInit_ex2(context.get(), Gcm(), Data(key), Data(nonce), nullptr) == 1 &&
         EVP_DecryptUpdate(context.get(), nullptr, &bytes, Data(bound),
                           static_cast<int>(bound.size())) == 1 &&
         EVP_DecryptUpdate(context.get(), Data(*plain), &bytes, Data(text),
                           static_cast<int>(text.size())) == 1 &&
         EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_SET_TAG, kSealTagBytes, tag.data()) ==
             1 &&
         EVP_DecryptFinal_ex(context.get(), Data(*plain) + bytes, &bytes) == 1;
}

}  // namespace

bool Seal(const SealKey& key, std::string_view salt, std::string_view bound, std::string_view plain,
          std::string* out) {
  const RecordKey own(key.secret, salt);
  return own.ok() && Encrypt(own.key(), own.nonce(), bound, plain, out);
}

std::optional<std::string> Unseal(const SealKey& key, std::string_view salt, std::string_view bound,
                                  std::string_view sealed) {
  const RecordKey own(key.secret, salt);
  std::string plain;
  if (!own.ok() || !Decrypt(own.key(), own.nonce(), bound, sealed, &plain)) return std::nullopt;
  return plain;
}

std::string HkdfSha256(std::string_view secret, std::string_view salt, std::string_view info,
                       size_t bytes) {
  std::string out(bytes, '\0');
  return Derive(secret, salt, info, Data(out), bytes) ? out : std::string();
}

std::string Aes256Gcm(std::string_view key, std::string_view nonce, std::string_view bound,
                      std::string_view plain) {
  std::string out;
  return Encrypt(key, nonce, bound, plain, &out) ? out : std::string();
}

}  // namespace idempotency::keystore
