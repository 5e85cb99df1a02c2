// Stories of several servers on one store, whatever engine it is that they share.
#ifndef IDEMPOTENCY_TESTS_E2E_SHARED_STORE_H_
#define IDEMPOTENCY_TESTS_E2E_SHARED_STORE_H_

#include <memory>
#include <string>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/support/server_process.h"

namespace idempotency::testing {

// Whoever asked holds the key now. Where the store was slow to answer, what was granted may be told
// as what was held already.
bool IsHeld(const v1::ReserveResponse& response);

// Makes calls one after the other; status() is of the last. Thread safety: none.
class Caller {
 public:
  explicit Caller(const ServerProcess& server);

  v1::ReserveResponse Send(const v1::ReserveRequest& request);
  v1::CompleteResponse Send(const v1::CompleteRequest& request);
  // Asks again for as long as the store cannot say, or keeps newcomers away, as clients do.
  v1::ReserveResponse SendUntilAnswered(const v1::ReserveRequest& request);
  v1::CompleteResponse SendUntilAnswered(const v1::CompleteRequest& request);
  const grpc::Status& status() const { return status_; }

 private:
  const std::unique_ptr<v1::IdempotencyService::Stub> stub_;
  grpc::Status status_;
};

// `flags`: of each server; they name the store. Both report what is wrong to GoogleTest.
void ALifeCycleOverTwoServersAndTheDeathOfOne(const std::vector<std::string>& flags);
void OfTwoWhoClaimOneKeyOnTwoServersOneWins(const std::vector<std::string>& flags);

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTS_E2E_SHARED_STORE_H_
