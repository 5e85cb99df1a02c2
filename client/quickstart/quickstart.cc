// One charge, whatever goes wrong between us and the bank.
//
//   quickstart --target=HOST:PORT --bank=HOST:PORT
//
// First a plain loop of retries, to see what it does. Then the same charge and the same faults
// under the protocol, at a bank that recognises keys, and at one that does not.
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "bank.grpc.pb.h"
#include "example.h"
#include "idempotency/client.h"
#include "idempotency/grpc.h"
#include "idempotency/keys.h"

namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

constexpr char kMethod[] = "/bank.Bank/CreateCharge";
constexpr int64_t kCents = 2500;

struct World {
  idempotency::Client client;
  std::unique_ptr<bank::Bank::Stub> bank;
  std::unique_ptr<bank::BankControl::Stub> control;
};

// --- The bank ------------------------------------------------------------------------------------

void Prepare(World& world, bool knows_keys, const std::vector<bank::Fault>& faults) {
  bank::PrepareRequest request;
  request.set_knows_keys(knows_keys);
  for (const bank::Fault fault : faults) request.add_faults(fault);
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  bank::PrepareResponse response;
  Require(world.control->Prepare(&context, request, &response).ok(), "the bank can be reached");
}

// What the bank has really done; waits until it is back.
bank::Statement Statement(World& world) {
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  bank::Statement statement;
  Require(world.control->GetStatement(&context, {}, &statement).ok(), "the bank can be reached");
  return statement;
}

std::vector<bank::Fault> Trouble() {
  return {bank::FAULT_LOSE_REPLY, bank::FAULT_CRASH_BEFORE, bank::FAULT_CRASH_AFTER,
          bank::FAULT_ERROR_AFTER, bank::FAULT_DELAY};
}

bank::ChargeRequest Order(const std::string& order, int64_t cents) {
  bank::ChargeRequest request;
  request.set_account("acct_1");
  request.set_order(order);
  request.set_cents(cents);
  return request;
}

// --- A plain loop --------------------------------------------------------------------------------

void PlainRetries(World& world) {
  Say("A plain loop of retries:");
  Prepare(world, false, Trouble());
  for (int i = 1;; ++i) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    // As everybody does who wants an answer in time; the idempotency-key is missing.
    context.set_deadline(
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(1000, GPR_TIMESPAN)));
    bank::Charge charge;
    const grpc::Status status =
        world.bank->CreateCharge(&context, Order("order-1", kCents), &charge);
    Say("  try " + std::to_string(i) + ": " + (status.ok() ? "OK" : status.error_message()));
    if (status.ok()) break;
  }
  Say("  the customer was charged " + std::to_string(Statement(world).charges_size()) + " times");
}

// --- Under the protocol --------------------------------------------------------------------------

// What the caller of a job does: the same job again, until it has an answer.
bank::Charge ChargeOnce(World& world, const idempotency::RunRequest& request,
                        const idempotency::UnaryOptions& options) {
  const auto environment = idempotency::SystemEnvironment();
  for (int i = 1;; ++i) {
    bank::Charge charge;
    const idempotency::UnaryResult result =
        idempotency::RunUnary(world.client, request, *world.bank, &bank::Bank::Stub::CreateCharge,
                              Order(request.id.key, kCents), options, &charge);
    if (result.ok()) {
      Say("  try " + std::to_string(i) + ": OK, " + charge.id());
      return charge;
    }
    Say("  try " + std::to_string(i) + ": " + std::string(Name(result.run.stop)) + ", next step " +
        std::string(Name(result.run.next_step)) + " (" + result.status.error_message() + ")");
    Require(result.run.next_step == idempotency::NextStep::kReserveAgain ||
                result.run.next_step == idempotency::NextStep::kReconcileFirst,
            "the charge can be tried again or looked up");
    environment->Sleep(result.run.retry_after.value_or(500ms));
  }
}

idempotency::UnaryOptions Options() {
  return {.method = kMethod, .setup = [](grpc::ClientContext& context) {
            // The bank may be about to come back.
            context.set_wait_for_ready(true);
          }};
}

void RequireOneCharge(World& world, const bank::Charge& charge) {
  const bank::Statement statement = Statement(world);
  Say("  the bank was called " + std::to_string(statement.calls()) + " times, and charged " +
      std::to_string(statement.charges_size()) + " time");
  Require(statement.charges_size() == 1, "there is one charge");
  Require(statement.charges(0).id() == charge.id(), "the answer is of that charge");
}

void BankThatKnowsKeys(World& world) {
  Say("Under the protocol, at a bank that recognises keys:");
  Prepare(world, true, Trouble());
  // Made and saved with the order, before the first try.
  const idempotency::RunRequest request{.id = {"bank.keys", "acct_1", idempotency::RandomKey()},
                                        .call_timeout = 1s};
  const bank::Charge charge = ChargeOnce(world, request, Options());
  RequireOneCharge(world, charge);

  const int calls = Statement(world).calls();
  Require(ChargeOnce(world, request, Options()).id() == charge.id(),
          "a repeat has the same answer");
  Require(Statement(world).calls() == calls, "a repeat does not reach the bank");
  Say("  asked again: the same answer, without the bank");

  bank::Charge other;
  const idempotency::UnaryResult changed =
      idempotency::RunUnary(world.client, request, *world.bank, &bank::Bank::Stub::CreateCharge,
                            Order(request.id.key, 2 * kCents), Options(), &other);
  Require(changed.run.stop == idempotency::StopReason::kMismatch, "another amount is refused");
  Say("  another amount under the key: " + changed.status.error_message());
}

// Without keys nobody may guess: the bank is asked before anything is sent again.
void BankWithoutKeys(World& world) {
  Say("Under the protocol, at a bank that executes whatever it is sent:");
  Prepare(world, false, {bank::FAULT_CRASH_BEFORE, bank::FAULT_DELAY});
  const idempotency::RunRequest request{.id = {"bank.plain", "acct_1", idempotency::RandomKey()},
                                        .call_timeout = 1s};
  idempotency::UnaryOptions options = Options();
  options.run.reconciler = "quickstart";
  options.run.look_up = [&](const idempotency::Operation&) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    bank::FindChargeRequest find;
    find.set_order(request.id.key);
    bank::Charge charge;
    const grpc::Status status = world.bank->FindCharge(&context, find, &charge);
    idempotency::LookUp found;
    if (status.ok()) {
      found.found = idempotency::LookUp::Found::kHappened;
      found.response = idempotency::ToCachedResponse(status, charge);
      found.evidence = "the bank has " + charge.id();
    } else if (status.error_code() == grpc::StatusCode::NOT_FOUND) {
      found.found = idempotency::LookUp::Found::kNotThere;
      found.evidence = "the bank knows no such order";
    }
    return found;
  };
  RequireOneCharge(world, ChargeOnce(world, request, options));
}

}  // namespace

int main(int argc, char** argv) {
  grpc::ChannelArguments arguments;
  // A bank that died is back soon.
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  const auto channel = grpc::CreateCustomChannel(Flag(argc, argv, "bank", "127.0.0.1:7421"),
                                                 grpc::InsecureChannelCredentials(), arguments);
  World world{.client = idempotency::Client(idempotency::MakeConnection(
                  {.target = Flag(argc, argv, "target", "127.0.0.1:7420")})),
              .bank = bank::Bank::NewStub(channel),
              .control = bank::BankControl::NewStub(channel)};
  PlainRetries(world);
  BankThatKnowsKeys(world);
  BankWithoutKeys(world);
  Say("Whatever goes wrong: one charge.");
  return 0;
}
