// The channel to the service, and how a call on it is prepared.
#ifndef IDEMPOTENCY_CLIENT_SRC_WIRES_H_
#define IDEMPOTENCY_CLIENT_SRC_WIRES_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "client/src/local_target.h"
#include "idempotency/connection.h"
#include "idempotency/v1/admin_service.grpc.pb.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"

namespace idempotency::internal {

// Says, while it lives, that this thread belongs to gRPC and runs one of our callbacks: it must
// not wait for other callbacks.
class InReaction {
 public:
  InReaction();
  ~InReaction();
  InReaction(const InReaction&) = delete;
  InReaction& operator=(const InReaction&) = delete;

  static bool Here();

 private:
  const bool before_;
};

// Thread safety: all methods may be called from any thread.
//
// The last who lets go of it ends gRPC's threads for callbacks, which one of them cannot do: so
// every callback must hold it in the scope of an InReaction, and let go of it last.
class Wires {
 public:
  static std::shared_ptr<const Wires> Make(ConnectionOptions options);

  // Puts the bearer token into the context. A failure: the call must not be made.
  absl::Status Prepare(grpc::ClientContext* context) const;
  // As above, for a call that may take that long.
  absl::Status Prepare(grpc::ClientContext* context, Duration timeout) const;

  // By callbacks. Blocking calls are not used: with them, nobody looks after the channel between
  // two calls, and a service that is back is noticed seconds later.
  using Service = v1::IdempotencyService::StubInterface::async_interface;
  using Admin = v1::IdempotencyAdminService::StubInterface::async_interface;
  Service* service() const { return service_->async(); }
  Admin* admin() const { return admin_->async(); }

 private:
  explicit Wires(ConnectionOptions options);
  ~Wires() = default;
  static void Delete(const Wires* wires);

  const std::function<std::string()> bearer_token_;
  // Whether a token would be seen by others.
  const bool exposed_;
  std::unique_ptr<v1::IdempotencyService::Stub> service_;
  std::unique_ptr<v1::IdempotencyAdminService::Stub> admin_;
};

// A deadline that is counted from when gRPC gets it.
gpr_timespec FromNow(Duration span);
// What is left of it; may be negative.
Duration Until(gpr_timespec monotonic_deadline);
// `span` from now, by the monotonic clock.
gpr_timespec MonotonicDeadline(Duration span);

// Why a call that was made failed; OK where it did not.
absl::Status StatusOf(const grpc::Status& status, const grpc::ClientContext& context);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_WIRES_H_
