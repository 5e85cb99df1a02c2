// SHA-256 over framed parts, so that no two lists of parts run together into the same bytes.
//
//   input = *frame
//   frame = length part            length: of the part in bytes, 8 bytes, big endian
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_CLIENT_SRC_FRAMED_HASH_H_
#define IDEMPOTENCY_CLIENT_SRC_FRAMED_HASH_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace idempotency::internal {

void AppendBigEndian(uint64_t number, std::string* out);
void AppendFrame(std::string_view part, std::string* out);
std::string Frames(std::initializer_list<std::string_view> parts);

// 32 bytes.
std::string Sha256(std::string_view input);
std::string HmacSha256(std::string_view secret, std::string_view input);

// Without padding.
std::string Base64Url(std::string_view bytes);
// Lower case.
std::string Hex(std::string_view bytes);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_FRAMED_HASH_H_
