// Static tokens: who may call with which, without the tokens themselves.
//
// The file has a line for each: a name, white space, and "sha256:" with 64 hexadecimal digits.
// Empty lines and lines that begin with # say nothing. A name may stand on several lines, so
// that a new token can be brought in before the old one goes.
//
//   # made by: idempotencyctl token new
//   ci-deployer  sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//
// One round of SHA-256 is enough for a token that is long and random, and only for such; tokens
// of less than kMinStaticTokenBytes are therefore never taken, whatever the file says.
#ifndef IDEMPOTENCY_SERVICE_IDENTITY_STATIC_TOKENS_H_
#define IDEMPOTENCY_SERVICE_IDENTITY_STATIC_TOKENS_H_

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace idempotency::service {

inline constexpr size_t kMaxTokensFileBytes = 256 * 1024;
inline constexpr size_t kMaxStaticTokens = 1'000;
inline constexpr size_t kMinStaticTokenBytes = 32;
inline constexpr size_t kMaxTokenNameBytes = 64;

using TokenDigest = std::array<unsigned char, 32>;

// SHA-256.
TokenDigest DigestToken(std::string_view token);

// Immutable; may be read from any thread.
class StaticTokens {
 public:
  using Line = std::pair<TokenDigest, std::string>;
  explicit StaticTokens(std::vector<Line> lines) : lines_(std::move(lines)) {}

  // The name of the token; empty where there is none. Looks at every line, and at every byte of
  // each, so that the time it takes tells nothing.
  std::string_view Find(const TokenDigest& digest) const;
  size_t size() const { return lines_.size(); }

 private:
  std::vector<Line> lines_;
};

// INVALID_ARGUMENT, in words that follow a file's name, for a line that is none of the above, a
// token that stands twice, or no token at all. A line's text is never repeated: it could be a
// token in the wrong place.
absl::StatusOr<std::shared_ptr<const StaticTokens>> ParseStaticTokens(std::string_view text);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_IDENTITY_STATIC_TOKENS_H_
