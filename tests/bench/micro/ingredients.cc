#include "tests/bench/micro/ingredients.h"

#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "keystore/core/transition.h"
#include "tests/bench/micro/scenario.h"

namespace idempotency::bench {
namespace {

constexpr size_t kBodyBytes = 100;

// SplitMix64: neighbouring numbers have nothing in common.
uint64_t Mixed(uint64_t number, uint64_t purpose) {
  uint64_t x = number * 8 + purpose + 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

std::string Hex(uint64_t value) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(value));
  return digits;
}

std::string Uuid(uint64_t number) {
  std::string digits = Hex(Mixed(number, 0)) + Hex(Mixed(number, 1));
  digits[12] = '4';
  digits[16] = '8';
  for (const size_t dash : {8, 13, 18, 23}) digits.insert(dash, 1, '-');
  return digits;
}

std::string Sha256(uint64_t number) {
  std::string digest(32, '\0');
  for (uint64_t word = 0; word < 4; ++word) {
    const uint64_t value = Mixed(number, 2) ^ Mixed(word, 3);
    std::memcpy(digest.data() + 8 * word, &value, sizeof value);
  }
  return digest;
}

std::string Body(uint64_t number) {
  std::string body = R"({"id":"ch_)" + Hex(Mixed(number, 4)) +
                     R"(","amount":1250,"currency":"eur","status":"succeeded","receipt":")";
  body += Hex(Mixed(number, 5));
  body.resize(kBodyBytes - 2, '0');
  return body + "\"}";
}

core::RecordPtr Stepped(core::Stored stored, const core::Command& command, uint64_t token) {
  core::Decision decision =
      core::Step(std::move(stored), command, *DefaultPolicy(), core::At(kNow), token);
  Require(decision.effect == core::Effect::kWrite, "a record could not be made");
  return std::move(decision.record);
}

}  // namespace

core::Key KeyOf(uint64_t number) { return {"payments", "tenant-7", Uuid(number)}; }

core::ReserveCommand ReserveOf(uint64_t number) {
  return {.fingerprint = {.algorithm = "sha-256", .digest = Sha256(number)},
          .attempt_id = {.high = Mixed(number, 6), .low = Mixed(number, 7)},
          .lease = std::chrono::seconds(30),
          .owner = {.worker = "worker-3",
                    .operation_ref = "order-" + std::to_string(number),
                    .traceparent =
                        "00-" + Hex(Mixed(number, 6)) + Hex(number) + "-" + Hex(number) + "-01"}};
}

core::CompleteCommand CompleteOf(uint64_t number, uint64_t token) {
  return {.token = token,
          .response = {.bytes = core::Blob(Body(number))},
          .provider_request_id = "req_" + Hex(Mixed(number, 1)),
          .content = {.high = Mixed(number, 2), .low = Mixed(number, 3)}};
}

std::shared_ptr<const core::Policy> DefaultPolicy() {
  static const auto kPolicy = std::make_shared<const core::Policy>();
  return kPolicy;
}

core::RecordPtr PendingRecord(uint64_t number, uint64_t token) {
  return Stepped(core::Absent{}, ReserveOf(number), token);
}

core::RecordPtr CompleteRecord(uint64_t number, uint64_t token) {
  return Stepped(*PendingRecord(number, token), CompleteOf(number, token), token);
}

}  // namespace idempotency::bench
