#include "client/ctl/body_file.h"

#include <openssl/evp.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>

#include "absl/strings/escaping.h"

namespace idempotency::ctl {
namespace {

constexpr size_t kChunkBytes = 64 * 1024;

using Sink = std::function<void(std::string_view chunk)>;

std::string Because(const std::string& what, const std::string& path) {
  return what + " " + path + ": " + std::strerror(errno);
}

bool ReadAll(std::istream& in, const Sink& sink) {
  std::array<char, kChunkBytes> chunk;
  while (in.read(chunk.data(), chunk.size()) || in.gcount() > 0) {
    sink(std::string_view(chunk.data(), static_cast<size_t>(in.gcount())));
  }
  return !in.bad();
}

// Empty where it worked.
std::string ReadFile(const std::string& path, std::istream& standard_input, const Sink& sink) {
  errno = 0;
  if (path == "-") {
    return ReadAll(standard_input, sink) ? "" : Because("cannot read", "standard input");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return Because("cannot open", path);
  return ReadAll(file, sink) ? "" : Because("cannot read", path);
}

bool IsHex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
}

}  // namespace

FileContent ReadBody(const std::string& path, size_t max_bytes, std::istream& standard_input) {
  FileContent content;
  content.error = ReadFile(path, standard_input, [&](std::string_view chunk) {
    content.size += chunk.size();
    if (content.size <= max_bytes) content.bytes += chunk;
  });
  if (content.size > max_bytes) content.bytes.clear();
  return content;
}

std::optional<v1::Fingerprint> FingerprintFile(const std::string& path,
                                               std::istream& standard_input, std::string* error) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest(EVP_MD_CTX_new(),
                                                                       &EVP_MD_CTX_free);
  bool ok = digest != nullptr && EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr) == 1;
  *error = ReadFile(path, standard_input, [&](std::string_view chunk) {
    ok = ok && EVP_DigestUpdate(digest.get(), chunk.data(), chunk.size()) == 1;
  });
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes;
  unsigned int size = 0;
  ok = ok && EVP_DigestFinal_ex(digest.get(), bytes.data(), &size) == 1;
  if (error->empty() && !ok) *error = "the cryptographic library cannot make a SHA-256 digest";
  if (!error->empty()) return std::nullopt;
  v1::Fingerprint fingerprint;
  fingerprint.set_algorithm(kBytesAlgorithm);
  fingerprint.set_digest(bytes.data(), size);
  return fingerprint;
}

std::optional<v1::Fingerprint> ParseFingerprint(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  const std::string_view hex = text.substr(colon + 1);
  if (hex.empty() || hex.size() % 2 != 0 || !IsHex(hex)) return std::nullopt;
  v1::Fingerprint fingerprint;
  fingerprint.set_algorithm(std::string(text.substr(0, colon)));
  fingerprint.set_digest(absl::HexStringToBytes(std::string(hex)));
  return fingerprint;
}

std::string FormatFingerprint(const v1::Fingerprint& fingerprint) {
  return fingerprint.algorithm() + ":" + absl::BytesToHexString(fingerprint.digest());
}

std::string WriteBody(const std::string& path, std::string_view body,
                      std::ostream& standard_output) {
  if (path == "-") {
    // Whether it arrives is checked with everything else on standard output.
    standard_output.write(body.data(), static_cast<std::streamsize>(body.size()));
    return "";
  }
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!file) return Because("cannot open", path);
  file.write(body.data(), static_cast<std::streamsize>(body.size()));
  file.close();
  return file ? "" : Because("cannot write", path);
}

}  // namespace idempotency::ctl
