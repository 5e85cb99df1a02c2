// The HTTP side of a service that receives keys: from the Idempotency-Key field to the answer,
// as functions for any framework. The words are those of draft-ietf-httpapi-idempotency-key-
// header-07.
//
//   KeyField field = ParseKeyField(request.HeaderValues("Idempotency-Key"));
//   if (field.problem != KeyProblem::kNone) return Send(AnswerKeyProblem(field.problem));
//   RunResult result = client.Run({.id = {"orders", account, field.key}, ...}, handler, options);
//   return Send(AnswerRun(result));
//
// Whoever asks, not the header, decides the scope: take it from the authenticated caller.
//
// Thread safety: pure functions; values.
#ifndef IDEMPOTENCY_HTTP_EDGE_H_
#define IDEMPOTENCY_HTTP_EDGE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "idempotency/client.h"
#include "idempotency/connection.h"
#include "idempotency/types.h"

namespace idempotency {

inline constexpr std::string_view kKeyFieldName = "Idempotency-Key";
// "true" on every replayed answer, and on no other.
inline constexpr std::string_view kReplayedFieldName = "Idempotency-Replayed";

enum class KeyProblem : uint8_t {
  kNone,
  kMissing,    // no such field, or an empty key
  kRepeated,   // more than one field line, or more than one value in it
  kMalformed,  // neither a structured string nor plain
  kTooLong,
};

struct KeyFieldOptions {
  // Bytes of the key: at most what the namespace allows.
  size_t max_bytes = 255;
  // Accept keys without quotes, as most clients send them.
  bool allow_raw = true;
};

struct KeyField {
  std::string key;  // kNone
  KeyProblem problem = KeyProblem::kNone;

  friend bool operator==(const KeyField&, const KeyField&) = default;
};

// values: of all field lines of that name, in any order; white space around them is ignored.
//
//   structured   a String of RFC 9651 (8941): "8e03978e" with \" and \\ as the only escapes.
//                Parameters behind it are checked and ignored.
//   raw          the characters 0x21-0x7E but for " \ , and ; as they are.
//
// Both name the same key where their characters are the same: "abc" is abc.
KeyField ParseKeyField(const std::vector<std::string_view>& values,
                       const KeyFieldOptions& options = {});

// What to send. Names and values are fit for an HTTP message: no line breaks, no framing and
// no hop-by-hop fields, which are the server's.
struct HttpAnswer {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;
  std::optional<std::string> body;

  friend bool operator==(const HttpAnswer&, const HttpAnswer&) = default;
};

struct ProblemOptions {
  // "type" of a problem document is this and the problem's name ("in-progress"). The default only
  // names the problem, and is no address (RFC 4151); better is that of your own documentation.
  std::string type_prefix = "tag:idempotencyd.dev,2026:problem/";
};

// What differs from a replay is a problem document (RFC 9457, application/problem+json) with
// type, title, status and detail, and next_step where the service named one:
//
//   problem              status  Retry-After  when
//   key-missing          400                  ParseKeyField: kMissing
//   key-invalid          400                  ParseKeyField: kRepeated, kMalformed, kTooLong; the
//                                             service refused the key or its scope
//   in-progress          409     yes          another attempt is at it
//   key-reused           422                  the key belongs to another request
//   unresolved           409     if it helps  nobody knows whether it happened; the same request
//                                             with the same key again, never with a new one
//   answer-gone          409                  it ended, and the answer is no longer here
//   closed               409                  closed for good without a known outcome
//   too-old              409                  nothing is known of an operation this old
//   failed               409                  it ended as failed, and no status was stored
//   nothing-happened     503     yes          it certainly had no effect: the same again later
//   unavailable          503     yes          nothing was started
//   quota-exceeded       429     yes          the service takes no more new keys for now
//   forbidden            403                  the service refused the caller
//   internal             500                  the service refused for another reason
//
// Retry-After is in whole seconds, rounded up, at least 1. "next_step" is for programs, the
// words of NextStep.
HttpAnswer AnswerKeyProblem(KeyProblem problem, const ProblemOptions& options = {});

// The stored answer as it was, and Idempotency-Replayed: true where it is a replay. Without a
// status of its own: 200, and 204 without a body; a gRPC code becomes the HTTP status that
// google.rpc.Code names.
HttpAnswer AnswerRun(const RunResult& result, const ProblemOptions& options = {});

// For callers of Connection::Reserve. nullopt: this attempt has acquired (or still holds) the
// operation, and the handler runs.
std::optional<HttpAnswer> AnswerReserve(const ReserveResponse& response,
                                        const ProblemOptions& options = {});

// For a Reserve that failed: what Refused finds in the status, or unavailable.
HttpAnswer AnswerReserveError(const absl::Status& status, const ProblemOptions& options = {});

}  // namespace idempotency

#endif  // IDEMPOTENCY_HTTP_EDGE_H_
