// Connections to the service under load, each with a TCP connection of its own, and the queues
// that their calls end in.
#ifndef IDEMPOTENCY_TESTS_BENCH_CHANNELS_H_
#define IDEMPOTENCY_TESTS_BENCH_CHANNELS_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grpcpp/grpcpp.h"

namespace idempotency::bench {

// Ends the process with a message where the target cannot be reached within ten seconds.
std::vector<std::shared_ptr<grpc::Channel>> Connect(const std::string& target, int connections);

// The bytes of a message, in one piece: in `slice`, or where it already was.
std::string_view OnePiece(const grpc::ByteBuffer& buffer, grpc::Slice* slice);

grpc::ByteBuffer ToByteBuffer(const std::string& bytes);

// "RESOURCE_EXHAUSTED OVERLOADED: message".
std::string Describe(const grpc::Status& status, const grpc::ClientContext& context);

}  // namespace idempotency::bench

#endif  // IDEMPOTENCY_TESTS_BENCH_CHANNELS_H_
