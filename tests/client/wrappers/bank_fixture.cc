#include "tests/client/wrappers/bank_fixture.h"

#include "client/src/grpc/status_details.h"

namespace idempotency::testing {

bank::v1::ChargeRequest ChargeOf(int64_t cents, const std::string& trace_id) {
  bank::v1::ChargeRequest request;
  request.set_account("acct_1");
  request.set_cents(cents);
  request.set_trace_id(trace_id);
  (*request.mutable_labels())["a"] = "1";
  (*request.mutable_labels())["b"] = "2";
  return request;
}

grpc::Status WithRetryInfo(grpc::StatusCode code, const std::string& message,
                           Duration retry_after) {
  return internal::MakeStatus(code, "SOMEBODY_ELSES", message, retry_after);
}

std::vector<std::string> Values(const std::multimap<grpc::string_ref, grpc::string_ref>& metadata,
                                const std::string& name) {
  std::vector<std::string> values;
  const auto [first, last] = metadata.equal_range(name);
  for (auto one = first; one != last; ++one) {
    values.emplace_back(one->second.data(), one->second.size());
  }
  return values;
}

LocalServer::LocalServer(grpc::Service* service) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
  builder.RegisterService(service);
  server_ = builder.BuildAndStart();
}

LocalServer::~LocalServer() {
  // Whoever is still being served is not waited for.
  server_->Shutdown(gpr_now(GPR_CLOCK_MONOTONIC));
}

std::shared_ptr<grpc::Channel> LocalServer::Channel() const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port_),
                                   grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace idempotency::testing
