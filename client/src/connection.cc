#include "idempotency/connection.h"

#include <memory>
#include <utility>

#include "client/src/grpc_connection.h"
#include "client/src/pipelined_connection.h"
#include "client/src/wires.h"

namespace idempotency {

std::shared_ptr<Connection> MakeConnection(ConnectionOptions options) {
  const bool batching = options.batching;
  auto wires = internal::Wires::Make(std::move(options));
  if (batching) return std::make_shared<internal::PipelinedConnection>(std::move(wires));
  return std::make_shared<internal::GrpcConnection>(std::move(wires));
}

}  // namespace idempotency
