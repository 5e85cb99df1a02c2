#include "service/identity/static_tokens.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <optional>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace idempotency::service {
namespace {

constexpr std::string_view kPrefix = "sha256:";

bool IsTokenName(std::string_view name) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  return !name.empty() && name.size() <= kMaxTokenNameBytes &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

std::optional<TokenDigest> ReadDigest(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdefABCDEF";
  if (text.substr(0, kPrefix.size()) != kPrefix) return std::nullopt;
  text.remove_prefix(kPrefix.size());
  TokenDigest digest;
  if (text.size() != 2 * digest.size()) return std::nullopt;
  if (text.find_first_not_of(kHex) != std::string_view::npos) return std::nullopt;
  const std::string bytes = absl::HexStringToBytes(absl::string_view(text.data(), text.size()));
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

absl::Status Wrong(size_t line, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("line ", line, " ", std::string(what)));
}

}  // namespace

TokenDigest DigestToken(std::string_view token) {
  TokenDigest digest{};
  unsigned size = 0;
  if (EVP_Digest(token.data(), token.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) {
    abort();  // no memory for a few bytes
  }
  return digest;
}

std::string_view StaticTokens::Find(const TokenDigest& digest) const {
  std::string_view name;
  for (const auto& [known, its_name] : lines_) {
    if (CRYPTO_memcmp(known.data(), digest.data(), digest.size()) == 0) name = its_name;
  }
  return name;
}

absl::StatusOr<std::shared_ptr<const StaticTokens>> ParseStaticTokens(std::string_view text) {
  std::vector<StaticTokens::Line> lines;
  std::set<TokenDigest> seen;
  size_t number = 0;
  for (absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    ++number;
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty() || words[0][0] == '#') continue;
    if (words.size() != 2) return Wrong(number, "is not a name and a digest: write both, alone");
    if (!IsTokenName(words[0])) {
      return Wrong(number, "begins with no name: write 1-64 letters, digits, '.', '_' and '-'");
    }
    const std::optional<TokenDigest> digest = ReadDigest(words[1]);
    if (!digest) {
      return Wrong(number,
                   "has no digest: write sha256: and 64 hexadecimal digits, as idempotencyctl "
                   "token new prints them; never the token itself");
    }
    if (!seen.insert(*digest).second) return Wrong(number, "has the digest of an earlier line");
    lines.emplace_back(*digest, words[0]);
    if (lines.size() > kMaxStaticTokens) {
      return Wrong(number, absl::StrCat("is one too many: write at most ", kMaxStaticTokens));
    }
  }
  if (lines.empty()) return absl::InvalidArgumentError("holds no token");
  return std::make_shared<const StaticTokens>(std::move(lines));
}

}  // namespace idempotency::service
