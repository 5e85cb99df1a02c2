// A bank that answers what the test says, behind a real gRPC server, and the client of a service
// in memory.
#ifndef IDEMPOTENCY_TESTS_CLIENT_WRAPPERS_BANK_FIXTURE_H_
#define IDEMPOTENCY_TESTS_CLIENT_WRAPPERS_BANK_FIXTURE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bank/v1/bank.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "idempotency/client.h"
#include "idempotency/grpc.h"
#include "idempotency/testing/fake_environment.h"
#include "idempotency/testing/in_process_connection.h"

namespace idempotency::testing {

using std::chrono_literals::operator""h;
using std::chrono_literals::operator""min;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

inline constexpr char kChargeMethod[] = "/bank.v1.Bank/CreateCharge";

bank::v1::ChargeRequest ChargeOf(int64_t cents, const std::string& trace_id = "");

// grpc::Status with google.rpc.RetryInfo in its details, as any server may send it.
grpc::Status WithRetryInfo(grpc::StatusCode code, const std::string& message, Duration retry_after);

// Values of that name in the metadata of a call.
std::vector<std::string> Values(const std::multimap<grpc::string_ref, grpc::string_ref>& metadata,
                                const std::string& name);

// A server on a free loopback port.
class LocalServer {
 public:
  explicit LocalServer(grpc::Service* service);
  ~LocalServer();
  std::shared_ptr<grpc::Channel> Channel() const;

 private:
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

// The service in memory and a client of it.
class ServiceInMemory {
 public:
  std::shared_ptr<FakeEnvironment> environment = std::make_shared<FakeEnvironment>();
  std::shared_ptr<InProcessConnection> service = std::make_shared<InProcessConnection>(
      environment,
      NamespacePolicies{{"payments", {}}, {"retried", NamespacePolicy::RetrySameKey(1h, 3)}});
  Client client{service, environment};
};

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTS_CLIENT_WRAPPERS_BANK_FIXTURE_H_
