#include "tests/bench/channels.h"

#include <cstdlib>
#include <iostream>

#include "absl/strings/str_cat.h"

namespace idempotency::bench {
namespace {

constexpr int kConnectSeconds = 10;
constexpr int kExitCannotConnect = 1;

}  // namespace

std::vector<std::shared_ptr<grpc::Channel>> Connect(const std::string& target, int connections) {
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (int i = 0; i < connections; ++i) {
    grpc::ChannelArguments arguments;
    // Else channels to one target share a connection.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxReceiveMessageSize(-1);
    channels.push_back(
        grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments));
    const gpr_timespec deadline = gpr_time_add(
        gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(kConnectSeconds, GPR_TIMESPAN));
    if (channels.back()->WaitForConnected(deadline)) continue;
    std::cerr << "idempotency_load: cannot connect to " << target << std::endl;
    _Exit(kExitCannotConnect);
  }
  return channels;
}

std::string_view OnePiece(const grpc::ByteBuffer& buffer, grpc::Slice* slice) {
  if (!buffer.Valid()) return {};
  if (!buffer.TrySingleSlice(slice).ok() && !buffer.DumpToSingleSlice(slice).ok()) return {};
  return {reinterpret_cast<const char*>(slice->begin()), slice->size()};
}

grpc::ByteBuffer ToByteBuffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return {&slice, 1};
}

std::string Describe(const grpc::Status& status, const grpc::ClientContext& context) {
  std::string reason;
  const auto& trailers = context.GetServerTrailingMetadata();
  if (const auto found = trailers.find("idempotency-reason"); found != trailers.end()) {
    reason = absl::StrCat(" ", absl::string_view(found->second.data(), found->second.size()));
  }
  return absl::StrCat("gRPC code ", static_cast<int>(status.error_code()), reason, ": ",
                      status.error_message());
}

}  // namespace idempotency::bench
