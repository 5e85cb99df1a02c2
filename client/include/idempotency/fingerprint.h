// Fingerprints: what the service compares to notice that a key is used for another request.
//
// A fingerprint is taken of the request as it goes out: the method, the resource, and the body.
// What may differ between two tries of one request (a timestamp, a trace id) stays out of it,
// by `exclude`; whatever else differs makes it another request.
//
//   FingerprintBytes("POST", "/v1/charges", body)
//   FingerprintJson("POST", "/v1/charges", body, {.exclude = {"/sent_at", "/meta/trace_id"}})
//   FingerprintMessage("/bank.v1.Bank/Transfer", "", request)         (fingerprint_proto.h)
//
// Algorithm and version are part of the result, and a version never changes its meaning:
//
//   sha256/bytes-1   the bytes as they are
//   sha256/jcs-1     JSON, whatever its white space, order of members, escapes and way to write
//                    a number (CanonicalJson)
//   sha256/proto-1   a protobuf message, whatever the order of its fields (fingerprint_proto.h)
//   hmac-sha256/...  the same, keyed (FingerprintKey)
//
//   digest  = SHA-256(input) or HMAC-SHA-256(secret, input)            32 bytes
//   input   = frame(form) frame(method) frame(resource) frame(content)
//   form    = "bytes-1" | "jcs-1" | "proto-1"
//   frame x = the length of x in bytes as 8 bytes, big endian; then x
//
// tests/vectors/fingerprints.json holds vectors for every language.
//
// Thread safety: pure functions of their arguments; values.
#ifndef IDEMPOTENCY_FINGERPRINT_H_
#define IDEMPOTENCY_FINGERPRINT_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "idempotency/types.h"

namespace idempotency {

inline constexpr size_t kMinFingerprintSecretBytes = 16;
inline constexpr size_t kMaxFingerprintKeyIdBytes = 24;

// Makes fingerprints that nobody without the secret can check a guess against: for requests of
// which there are few (an amount, a birthday), as fingerprints are stored and shown to
// operators. Everybody who sends the same operation needs the same secret, for as long as its
// key is remembered.
class FingerprintKey {
 public:
  // secret: random, at least 16 bytes, better 32. id: names it in the algorithm, at most 24 of
  // [A-Za-z0-9._-]; give a new secret a new id, so that what was made with the old one counts
  // as "cannot be compared" and not as another request. INVALID_ARGUMENT otherwise.
  static absl::StatusOr<FingerprintKey> Make(std::string secret, std::string id = "");

  const std::string& secret() const { return secret_; }
  const std::string& id() const { return id_; }

 private:
  FingerprintKey(std::string secret, std::string id)
      : secret_(std::move(secret)), id_(std::move(id)) {}

  std::string secret_;
  std::string id_;
};

struct FingerprintOptions {
  // What to leave out: JSON pointers (RFC 6901), or field paths of a message. It is as if the
  // request had no such member. The list itself is no part of the fingerprint.
  std::vector<std::string> exclude;
  // Set: hmac-sha256, and ":" and the key's id behind the algorithm where it has one.
  std::optional<FingerprintKey> key;
};

// method and resource are taken as they are: say the same thing in the same way each time.
Fingerprint FingerprintBytes(std::string_view method, std::string_view resource,
                             std::string_view body);
Fingerprint FingerprintBytes(std::string_view method, std::string_view resource,
                             std::string_view body, const FingerprintKey& key);

// INVALID_ARGUMENT where json_text or an exclusion is not what CanonicalJson takes.
absl::StatusOr<Fingerprint> FingerprintJson(std::string_view method, std::string_view resource,
                                            std::string_view json_text,
                                            const FingerprintOptions& options = {});

// What FingerprintJson hashes: RFC 8785 (JCS), but for numbers, of which every digit counts.
//
// - No white space; members in the order of their names' UTF-16 code units; strings with the
//   shortest escapes, as UTF-8, not otherwise normalised ("é" composed and decomposed differ).
// - A number is an exact decimal, never a double: 1, 1.0, 1e0 and 10e-1 are all written 1, and
//   0, -0 and 0.0 are 0; 9007199254740993 and 0.12345678901234567890 keep every digit. Numbers
//   that differ in value differ in text. Written as ECMAScript would: the same text as RFC 8785
//   for all numbers that a double holds exactly as written.
//
// Refused: invalid JSON and UTF-8, lone surrogates, a name twice in one object, more than 128
// levels, more than 16 MiB, exponents of more than 9 digits as sent or in the canonical form; a
// pointer that is malformed, selects everything, or selects an element of an array.
absl::StatusOr<std::string> CanonicalJson(std::string_view json_text,
                                          const std::vector<std::string>& exclude = {});

}  // namespace idempotency

#endif  // IDEMPOTENCY_FINGERPRINT_H_
