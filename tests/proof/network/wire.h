// Between the API's messages and what is ordered (call.h): written here from protos/README.md, and
// not with the service's own conversions.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_TESTS_PROOF_NETWORK_WIRE_H_
#define IDEMPOTENCY_TESTS_PROOF_NETWORK_WIRE_H_

#include <string>
#include <variant>

#include "grpcpp/grpcpp.h"
#include "idempotency/v1/admin_service.pb.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "keystore/core/command.h"
#include "keystore/core/time.h"
#include "tests/proof/network/call.h"

namespace idempotency::proof::network {

// Whatever may be asked of one key. The first six are commands of Batch and Pipeline, too.
using Request =
    std::variant<v1::ReserveRequest, v1::RenewRequest, v1::CompleteRequest, v1::ReleaseRequest,
                 v1::MarkUnresolvedRequest, v1::GetOperationRequest, v1::InspectOperationRequest,
                 v1::ResolveOperationRequest, v1::DeleteOperationRequest>;

// As the state machine takes it.
core::Command ToModel(const Request& request);
// The lease or retention that it asks for; zero: none.
core::Duration SpanOf(const Request& request);
bool Waits(const Request& request);

// Not for requests of the admin service.
v1::Command ToCommand(const Request& request, uint64_t tag);

Told Tell(const v1::ReserveResponse& response);
Told Tell(const v1::RenewResponse& response);
Told Tell(const v1::CompleteResponse& response);
Told Tell(const v1::ReleaseResponse& response);
Told Tell(const v1::MarkUnresolvedResponse& response);
Told Tell(const v1::GetOperationResponse& response);
Told Tell(const v1::InspectOperationResponse& response);
Told Tell(const v1::ResolveOperationResponse& response);
Told Tell(const v1::DeleteOperationResponse& response);

// How a call ended, and with what answer.
struct Outcome {
  Ended ended = Ended::kLost;
  Told told;
  // Nothing that may happen on this network explains it. Empty: all is well.
  std::string wrong;
  // For people, where it was not answered: what it ended with.
  std::string why;
};

Outcome Hear(const v1::Result& result);
// Of a unary call that failed.
Outcome HearFailure(const grpc::Status& status, const grpc::ClientContext& context);

}  // namespace idempotency::proof::network

#endif  // IDEMPOTENCY_TESTS_PROOF_NETWORK_WIRE_H_
