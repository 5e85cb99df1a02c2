// The small pieces that stored values are made of, written and read:
//
//   byte     := 8 bits
//   varint   := 1 to 10 bytes, 7 bits each, lowest first, the high bit set on all but the last;
//               always the shortest form
//   signed   := varint of the zigzag form (0, -1, 1, -2, 2 ... as 0, 1, 2, 3, 4 ...)
//   fixed32  := 4 bytes, lowest first
//   fixed64  := 8 bytes, highest first, so that a digest reads in its own order
//   bytes    := varint(length) length bytes
//
// Thread safety: none; each object is used by one caller. Neither owns the bytes.
#ifndef IDEMPOTENCY_KEYSTORE_CODEC_BYTE_IO_H_
#define IDEMPOTENCY_KEYSTORE_CODEC_BYTE_IO_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace idempotency::keystore {

// Appends to a string that must outlive it.
class ByteWriter {
 public:
  explicit ByteWriter(std::string* out) : out_(*out) {}

  void Byte(uint8_t value) { out_.push_back(static_cast<char>(value)); }

  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) Byte(static_cast<uint8_t>(value | 0x80));
    Byte(static_cast<uint8_t>(value));
  }

  void Signed(int64_t value) {
    Varint((static_cast<uint64_t>(value) << 1) ^ (value < 0 ? ~uint64_t{0} : 0));
  }

  void Fixed32(uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) Byte(static_cast<uint8_t>(value >> shift));
  }

  void Fixed64(uint64_t value) {
    for (int shift = 56; shift >= 0; shift -= 8) Byte(static_cast<uint8_t>(value >> shift));
  }

  void Bytes(std::string_view value) {
    Varint(value.size());
    out_.append(value);
  }

  // Whose length the reader knows.
  void Raw(std::string_view value) { out_.append(value); }

 private:
  std::string& out_;
};

// Takes values from the front of bytes that must outlive it. The first thing that is missing
// or malformed makes it fail for good: from then on it has no bytes left and every value is
// zero or empty, so that a caller may check `ok` once at the end. It never allocates.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  bool ok() const { return ok_; }
  bool AtEnd() const { return rest_.empty(); }
  size_t left() const { return rest_.size(); }

  void Fail() {
    ok_ = false;
    rest_ = {};
  }

  uint8_t Byte() {
    if (rest_.empty()) {
      Fail();
      return 0;
    }
    const auto value = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }

  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint64_t byte = Byte();
      const uint64_t bits = byte & 0x7f;
      // Neither bits that do not fit nor a last byte that adds nothing.
      if ((shift == 63 && byte > 1) || (shift > 0 && byte == 0)) break;
      value |= bits << shift;
      if (byte < 0x80) return value;
    }
    Fail();
    return 0;
  }

  int64_t Signed() {
    const uint64_t zigzag = Varint();
    return static_cast<int64_t>((zigzag >> 1) ^ ((zigzag & 1) != 0 ? ~uint64_t{0} : 0));
  }

  uint32_t Varint32() {
    const uint64_t value = Varint();
    if (value > std::numeric_limits<uint32_t>::max()) {
      Fail();
      return 0;
    }
    return static_cast<uint32_t>(value);
  }

  uint32_t Fixed32() {
    uint32_t value = 0;
    for (int shift = 0; shift < 32; shift += 8) value |= uint32_t{Byte()} << shift;
    return ok_ ? value : 0;
  }

  uint64_t Fixed64() {
    uint64_t value = 0;
    for (int shift = 56; shift >= 0; shift -= 8) value |= uint64_t{Byte()} << shift;
    return ok_ ? value : 0;
  }

  // A part of the bytes read, not a copy.
  std::string_view Bytes() { return Raw(Varint()); }

  // As many as were written, as a part of the bytes read.
  std::string_view Raw(uint64_t length) {
    if (length > rest_.size()) {
      Fail();
      return {};
    }
    const std::string_view value = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return value;
  }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_CODEC_BYTE_IO_H_
