// The results of a pipeline on their way out, serialized.
//
// The bytes of several responses, one behind the other, are those of one response that holds the
// results of all: so each result is made into bytes by whoever answers it, as a response of its
// own, and a message is written by handing on what has gathered.
//
// Thread safety: none.
#ifndef IDEMPOTENCY_SERVICE_FRONT_OUTBOX_H_
#define IDEMPOTENCY_SERVICE_FRONT_OUTBOX_H_

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "grpcpp/support/byte_buffer.h"

namespace idempotency::service {

class Outbox {
 public:
  // The bytes of a PipelineResponse that holds one result.
  void Add(std::string result);

  // The oldest results, in pieces of a message of at most `max_bytes`; one result is taken
  // whatever its size.
  std::vector<std::string> Take(size_t max_bytes);

  void Clear();

  bool empty() const { return pieces_.empty(); }
  size_t results() const { return results_; }
  size_t bytes() const { return bytes_; }

 private:
  struct Piece {
    std::string bytes;
    size_t results = 0;
  };

  std::deque<Piece> pieces_;
  size_t results_ = 0;
  size_t bytes_ = 0;
};

// The message that the pieces make up.
grpc::ByteBuffer ToMessage(std::vector<std::string> pieces);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_FRONT_OUTBOX_H_
