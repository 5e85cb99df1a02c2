// What clients do to a server over a day, in a second: a round of it, again and again. Connections
// come and go, some with calls under way; keys are completed and expire, or lapse; callers wait,
// and leave; streams and batches, pages of lists, and files of configuration.
//
// Thread safety: none.
#ifndef IDEMPOTENCY_TESTS_PROOF_OVERLOAD_CHURN_H_
#define IDEMPOTENCY_TESTS_PROOF_OVERLOAD_CHURN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "idempotency/v1/admin_service.grpc.pb.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/proof/sim/random.h"

namespace idempotency::proof {

class Churn {
 public:
  // `connect` gives a connection of its own each time. `hoards`: what should be given back is kept.
  Churn(uint64_t seed, std::function<std::shared_ptr<grpc::Channel>()> connect, bool hoards);

  // One round, in which nothing stays open that it opened. "" or what is wrong.
  std::string Round();
  uint64_t operations() const { return operations_; }
  // Commands that were told OVERLOADED, and came back as they were told.
  uint64_t overloaded() const { return overloaded_; }

 private:
  struct Connection {
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<v1::IdempotencyService::Stub> stub;
    std::unique_ptr<v1::IdempotencyAdminService::Stub> admin;
  };

  Connection Open();
  v1::ReserveRequest Fresh(const char* name_space);
  // Sends it, and those of its commands again that are told OVERLOADED.
  v1::BatchResponse Batch(Connection& connection, const v1::BatchRequest& request,
                          const char* what);
  grpc::Status Reserve(Connection& connection, const v1::ReserveRequest& request,
                       v1::ReserveResponse* response);
  void CompleteInBatches(Connection& connection);
  void LeaveOpen(Connection& connection);
  void LetLapse(Connection& connection);
  void WaitAndLeave(Connection& connection);
  void Stream(Connection& connection, bool cut);
  void List(Connection& connection);
  void ComeAndGo();
  // Notes what is not as it has to be.
  void Expect(const grpc::Status& status, const char* what);
  void Expect(bool right, const std::string& what);

  Random random_;
  const std::function<std::shared_ptr<grpc::Channel>()> connect_;
  const bool hoards_;
  std::vector<Connection> hoard_;
  std::vector<v1::OperationId> completed_;  // in this round
  uint64_t next_key_ = 0;
  uint64_t operations_ = 0;
  uint64_t overloaded_ = 0;
  std::string wrong_;
};

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_OVERLOAD_CHURN_H_
