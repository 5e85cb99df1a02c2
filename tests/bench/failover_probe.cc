// idempotency_failover_probe: one Reserve of a fresh key after the other, and a line for each that
// is acknowledged. tests/bench/engines.sh looks at how long there is none while a store fails over.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "grpc/support/time.h"
#include "grpcpp/grpcpp.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/bench/clock.h"

namespace idempotency::bench {
namespace {

constexpr char kDescription[] =
    "Reserves fresh keys, one after the other, for as long as it runs. Prints a line for each "
    "that\n"
    "is acknowledged: when it was asked and when answered, in nanoseconds of CLOCK_MONOTONIC.";

// Given up, and asked anew.
constexpr int kCallMs = 500;
constexpr int64_t kAgainNanos = 5'000'000;

v1::ReserveRequest RequestOf(const std::string& name, int64_t number) {
  v1::ReserveRequest request;
  request.mutable_id()->set_namespace_("bench");
  request.mutable_id()->set_scope("failover");
  request.mutable_id()->set_key(name + "-" + std::to_string(number));
  request.mutable_fingerprint()->set_algorithm("sha256/bytes-1");
  request.mutable_fingerprint()->set_digest(std::string(32, 'f'));
  request.set_attempt_id("failover-probe-" + request.id().key());
  return request;
}

// Until nobody reads any more what it prints.
void Probe(const std::string& target, const std::string& name) {
  const auto stub = v1::IdempotencyService::NewStub(
      grpc::CreateChannel(target, grpc::InsecureChannelCredentials()));
  for (int64_t number = 0; std::cout; ++number) {
    grpc::ClientContext context;
    context.set_deadline(
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(kCallMs, GPR_TIMESPAN)));
    v1::ReserveResponse response;
    const int64_t asked = MonotonicNanos();
    const grpc::Status status = stub->Reserve(&context, RequestOf(name, number), &response);
    const int64_t answered = MonotonicNanos();
    if (status.ok()) {
      std::cout << asked << ' ' << answered << std::endl;
    } else {
      SleepUntil(answered + kAgainNanos);
    }
  }
}

int Main(int argc, char** argv) {
  std::string target;
  std::string name;
  CLI::App app(kDescription, "idempotency_failover_probe");
  app.add_option("--target", target, "host:port")->required();
  app.add_option("--name", name, "What its keys begin with: two probes of one store need two")
      ->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  Probe(target, name);
  return 0;
}

}  // namespace
}  // namespace idempotency::bench

int main(int argc, char** argv) { return idempotency::bench::Main(argc, argv); }
