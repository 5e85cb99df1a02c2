#include "client/src/framed_hash.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <cstddef>
#include <cstdlib>

namespace idempotency::internal {
namespace {

// Only lack of memory gets here; a wrong digest would be worse than no caller.
void Require(bool ok) {
  if (!ok) std::abort();
}

std::string ToString(const unsigned char* bytes, size_t size) {
  return std::string(reinterpret_cast<const char*>(bytes), size);
}

}  // namespace

void AppendBigEndian(uint64_t number, std::string* out) {
  for (int shift = 56; shift >= 0; shift -= 8) out->push_back(static_cast<char>(number >> shift));
}

void AppendFrame(std::string_view part, std::string* out) {
  AppendBigEndian(part.size(), out);
  out->append(part);
}

std::string Frames(std::initializer_list<std::string_view> parts) {
  std::string out;
  for (std::string_view part : parts) AppendFrame(part, &out);
  return out;
}

std::string Sha256(std::string_view input) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  Require(EVP_Digest(input.data(), input.size(), digest, &size, EVP_sha256(), nullptr) == 1);
  return ToString(digest, size);
}

std::string HmacSha256(std::string_view secret, std::string_view input) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  Require(HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
               reinterpret_cast<const unsigned char*>(input.data()), input.size(), digest,
               &size) != nullptr);
  return ToString(digest, size);
}

std::string Base64Url(std::string_view bytes) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (char c : bytes) {
    bits = (bits << 8 | static_cast<unsigned char>(c)) & 0xffff;
    for (count += 8; count >= 6; count -= 6) out.push_back(kAlphabet[bits >> (count - 6) & 0x3f]);
  }
  if (count > 0) out.push_back(kAlphabet[bits << (6 - count) & 0x3f]);
  return out;
}

std::string Hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out.push_back(kDigits[byte >> 4]);
    out.push_back(kDigits[byte & 0x0f]);
  }
  return out;
}

}  // namespace idempotency::internal
