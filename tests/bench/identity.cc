#include "tests/bench/identity.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace idempotency::bench {
namespace {

constexpr char kHex[] = "0123456789abcdef";

void WriteHex(uint64_t value, char* out, size_t digits) {
  for (size_t i = 0; i < digits; ++i) {
    out[i] = kHex[value & 15];
    value >>= 4;
  }
}

// A version-4 UUID.
void WriteUuid(uint64_t high, uint64_t low, char* out) {
  WriteHex(high, out, 8);
  out[8] = '-';
  WriteHex(high >> 32, out + 9, 4);
  out[13] = '-';
  out[14] = '4';
  WriteHex(high >> 48, out + 15, 3);
  out[18] = '-';
  out[19] = kHex[8 + (low & 3)];
  WriteHex(low >> 2, out + 20, 3);
  out[23] = '-';
  WriteHex(low >> 14, out + 24, 12);
}

}  // namespace

Identity MakeIdentity(uint64_t seed, uint64_t index, uint64_t scopes, uint64_t attempt, char hint) {
  Identity id;
  const uint64_t high = Mix64(Mix64(seed) + index);
  const uint64_t low = Mix64(high);
  id.hash = Mix64(low);
  WriteUuid(high, low, id.key);
  uint64_t scope = id.hash % scopes;
  std::memcpy(id.scope, "acct_", 5);
  for (size_t i = kScopeBytes; i-- > 5; scope /= 10) {
    id.scope[i] = static_cast<char>('0' + scope % 10);
  }
  uint64_t word = id.hash;
  for (size_t i = 0; i < kDigestBytes; i += sizeof(word)) {
    word = Mix64(word);
    std::memcpy(id.digest + i, &word, sizeof(word));
  }
  word = Mix64(word + attempt);
  WriteHex(word, id.attempt, 16);
  WriteHex(Mix64(word), id.attempt + 16, 16);
  id.attempt[0] = hint;
  return id;
}

std::string MakeBody(uint64_t hash, size_t bytes) {
  char name[24];
  WriteHex(Mix64(hash + 1), name, 16);
  WriteHex(Mix64(hash + 2), name + 16, 8);
  std::string body = absl::StrCat("{\"id\":\"ch_", absl::string_view(name, sizeof(name)),
                                  "\",\"object\":\"charge\",\"amount\":", 1000 + hash % 9000,
                                  ",\"status\":\"succeeded\",\"pad\":\"");
  constexpr absl::string_view kEnd = "\"}";
  for (uint64_t word = hash; body.size() + kEnd.size() < bytes;) {
    char digits[16];
    word = Mix64(word);
    WriteHex(word, digits, sizeof(digits));
    body.append(digits, std::min(sizeof(digits), bytes - kEnd.size() - body.size()));
  }
  body.append(kEnd.data(), kEnd.size());
  body.resize(std::min(body.size(), bytes));
  return body;
}

}  // namespace idempotency::bench
