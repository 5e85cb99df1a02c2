// A client that sends what it is told, message or not.
//
// Thread safety: none.
#ifndef IDEMPOTENCY_TESTS_PROOF_REQUESTS_WIRE_H_
#define IDEMPOTENCY_TESTS_PROOF_REQUESTS_WIRE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "google/protobuf/message.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace idempotency::proof {

using Metadata = std::vector<std::pair<std::string, std::string>>;

// How a call ended, with what its trailers say.
struct Answer {
  grpc::Status status;
  std::vector<std::string> messages;
  std::string reason;           // the trailer idempotency-reason
  google::rpc::Status details;  // of the trailer grpc-status-details-bin

  // The detail of this kind; false where there is none.
  template <typename Detail>
  bool Find(Detail* detail) const {
    for (const auto& any : details.details()) {
      if (any.UnpackTo(detail)) return true;
    }
    return false;
  }
};

class Wire {
 public:
  explicit Wire(std::shared_ptr<grpc::Channel> channel) : stub_(std::move(channel)) {}
  ~Wire();

  // `method` is the whole path. A call that is not answered within a minute is
  // DEADLINE_EXCEEDED.
  Answer Call(const std::string& method, const std::string& bytes, const Metadata& metadata = {});
  // As a stream: sends the messages, closes its side, and reads to the end.
  Answer Stream(const std::string& method, const std::vector<std::string>& messages,
                const Metadata& metadata = {});

 private:
  bool Await();

  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
};

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_REQUESTS_WIRE_H_
