// The API's messages as bytes: requests from templates made once by protobuf and patched for each
// call, answers read field by field without building messages. What a caller needs is checked in
// full, and it costs the client so little that the two cores go to the servers compared.
//
// Thread safety: RequestWriter is const after construction; the Scan functions are pure.
#ifndef IDEMPOTENCY_TESTS_BENCH_WIRE_H_
#define IDEMPOTENCY_TESTS_BENCH_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tests/bench/identity.h"

namespace idempotency::bench {

enum class Verb : uint8_t { kReserve, kComplete, kGet };

// Also its name as a method of the service.
const char* NameOf(Verb verb);

struct RequestShape {
  std::string name_space = "bench";
  int64_t lease_seconds = 3600;
  int64_t wait_seconds = 0;
  size_t body_bytes = 100;
};

class RequestWriter {
 public:
  explicit RequestWriter(const RequestShape& shape);

  // Bytes of the message itself.
  size_t Size(Verb verb, uint64_t token) const;
  void Append(Verb verb, const Identity& id, uint64_t token, std::string* out) const;
  // As an entry of a BatchRequest or PipelineRequest, whose only field is the list of commands.
  void AppendCommand(uint64_t tag, Verb verb, const Identity& id, uint64_t token,
                     std::string* out) const;

 private:
  // A message with gaps.
  struct Template {
    std::string bytes;
    size_t key = 0;
    size_t scope = 0;
    size_t digest = std::string::npos;
    size_t attempt = std::string::npos;
    size_t body = std::string::npos;
  };

  static Template Locate(std::string bytes, std::string_view body);
  const Template& TemplateOf(Verb verb) const;

  size_t body_bytes_;
  Template reserve_;
  Template complete_;
  Template get_;
};

// What of an answer is checked. Views point into the scanned bytes.
struct Answer {
  Verb verb = Verb::kReserve;
  uint64_t tag = 0;
  int outcome = 0;  // of Reserve
  uint64_t token = 0;
  int state = 0;
  std::string_view key;
  std::string_view body;
  // Batch and Pipeline: the command's error, with its ErrorReason and message.
  bool is_error = false;
  int reason = 0;
  std::string_view message;
};

// False where the bytes are not such a message.
bool ScanResponse(Verb verb, std::string_view bytes, Answer* answer);

// Reads a BatchResponse or PipelineResponse result by result.
//
//   for (ResultReader results(bytes); results.Next(&answer);) ...
class ResultReader {
 public:
  explicit ResultReader(std::string_view bytes) : rest_(bytes) {}

  // False at the end, and where the bytes are not a list of results: failed() tells which.
  bool Next(Answer* answer);
  bool failed() const { return failed_; }

 private:
  std::string_view rest_;
  bool failed_ = false;
};

}  // namespace idempotency::bench

#endif  // IDEMPOTENCY_TESTS_BENCH_WIRE_H_
