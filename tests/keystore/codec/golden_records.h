// Records whose bytes are written down, and what tests of stored bytes share.
#ifndef IDEMPOTENCY_TESTS_KEYSTORE_CODEC_GOLDEN_RECORDS_H_
#define IDEMPOTENCY_TESTS_KEYSTORE_CODEC_GOLDEN_RECORDS_H_

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "keystore/core/record.h"

namespace idempotency::keystore {

struct GoldenRecord {
  std::string name;
  core::Record record;
  // What it is stored as.
  std::string_view hex;

  // For GoogleTest.
  friend void PrintTo(const GoldenRecord& golden, std::ostream* out) { *out << golden.name; }
};

const std::vector<GoldenRecord>& GoldenRecords();

std::string Encoded(const core::Record& record);

std::string ToHex(std::string_view bytes);
// `hex` must consist of pairs of hexadecimal digits.
std::string FromHex(std::string_view hex);

// `body` and the checksum that makes it whole, whatever it says.
std::string WithCrc(std::string body);
// Stored bytes without their checksum.
std::string WithoutCrc(std::string_view bytes);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_TESTS_KEYSTORE_CODEC_GOLDEN_RECORDS_H_
