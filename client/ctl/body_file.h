// Bodies and requests as files: read, digested, written. "-" is standard input or output.
#ifndef IDEMPOTENCY_CLIENT_CTL_BODY_FILE_H_
#define IDEMPOTENCY_CLIENT_CTL_BODY_FILE_H_

#include <cstdint>
#include <istream>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include "idempotency/v1/operation.pb.h"

namespace idempotency::ctl {

// The digest of a request is that of its bytes as they are: nothing is parsed or normalised.
inline constexpr char kBytesAlgorithm[] = "sha256/bytes-1";

// Under what the service receives (16 MiB), with room for the rest of the message.
inline constexpr size_t kMaxBodyBytes = 15 * 1024 * 1024;

// What was read, or one sentence that says what went wrong.
struct FileContent {
  std::string error;
  // At most the limit asked for; `size` is how many bytes the file has.
  std::string bytes;
  uint64_t size = 0;
};

// Reads all of it, and keeps it only where it is not larger than `max_bytes`.
FileContent ReadBody(const std::string& path, size_t max_bytes, std::istream& standard_input);

// The fingerprint (kBytesAlgorithm) of a file of any size. Nothing and `*error` where it cannot
// be read.
std::optional<v1::Fingerprint> FingerprintFile(const std::string& path,
                                               std::istream& standard_input, std::string* error);

// "ALGORITHM:HEX", split at the last colon. Nothing where it is not that.
std::optional<v1::Fingerprint> ParseFingerprint(std::string_view text);
std::string FormatFingerprint(const v1::Fingerprint& fingerprint);

// Replaces the file's content. Empty where it worked, else one sentence.
std::string WriteBody(const std::string& path, std::string_view body,
                      std::ostream& standard_output);

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_BODY_FILE_H_
