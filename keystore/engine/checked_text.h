// Small text files with a checksum: what their readers and writers share.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_CHECKED_TEXT_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_CHECKED_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace idempotency::keystore {

// The crc32 of `bytes` behind those whose crc32 is `before`.
uint32_t Crc32(std::string_view bytes, uint32_t before = 0);

// Appends the line "crc32 xxxxxxxx", of all that is above it.
void AppendCrcLine(std::string& text);

// Each takes something off the front of `rest`; false, with `rest` as it may be, where it is not
// there.
bool TakeText(std::string_view text, std::string_view& rest);
bool TakeNumber(uint64_t& number, std::string_view& rest);
// Everything up to `end`, which stays.
bool TakeWord(char end, std::string& word, std::string_view& rest);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_CHECKED_TEXT_H_
