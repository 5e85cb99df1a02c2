#include "tests/keystore/engine/records.h"

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "keystore/core/transition.h"

namespace idempotency::keystore {
namespace {

using namespace std::chrono_literals;

core::ReserveCommand RichReserve() {
  core::ReserveCommand command;
  command.fingerprint = {.algorithm = "sha-256", .digest = std::string(32, '\xff')};
  command.attempt_id = {.high = ~uint64_t{0}, .low = 1};
  command.lease = 30s;
  command.owner = {.worker = std::string("worker\0one", 10),
                   .operation_ref = "order/\xc3\xbc",
                   .traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"};
  command.labels = {{"", ""}, {"region", "eu"}, {"\xff\xfe", std::string(1000, 'l')}};
  return command;
}

core::Policy Rerun() {
  core::Policy policy;
  policy.terms.unknown_outcome = core::UnknownOutcome::kRerun;
  return policy;
}

core::Response Body(std::string bytes) { return {.bytes = core::Blob(std::move(bytes))}; }

}  // namespace

Story& Story::Wait(core::Duration span) {
  at_ += span;
  return *this;
}

Story& Story::Apply(const core::Command& command, uint64_t token_floor) {
  core::Stored stored = core::Absent{};
  if (record_ != nullptr) stored = *record_;
  core::Decision decision =
      core::Step(std::move(stored), command, policy_, core::At(at_), token_floor);
  if (decision.effect != core::Effect::kWrite) {
    std::fprintf(stderr, "a test's command %zu wrote nothing\n", command.index());
    std::abort();
  }
  record_ = std::move(decision.record);
  return *this;
}

Story& Story::Reserve(uint64_t token_floor) {
  core::ReserveCommand command;
  command.fingerprint = {.algorithm = "sha-256", .digest = std::string(32, 'd')};
  // Another attempt each time, so that none is a repeat.
  command.attempt_id = {.high = 1, .low = token_floor + (record_ == nullptr ? 0 : token())};
  command.lease = 30s;
  command.owner.worker = "worker";
  return Apply(command, token_floor);
}

Story& Story::Complete(core::Response response) {
  core::CompleteCommand command;
  command.token = token();
  command.response = std::move(response);
  command.content = {.high = 7, .low = 8};
  return Apply(command);
}

Story& Story::Release() {
  return Apply(core::ReleaseCommand{.token = token(), .detail = "not sent", .content = {9, 10}});
}

Story& Story::Mark() {
  core::MarkUnresolvedCommand command;
  command.token = token();
  command.cause = core::UnresolvedCause::kTimeout;
  command.detail = "no answer in 5 s";
  command.content = {.high = 11, .low = 12};
  return Apply(command);
}

std::vector<std::pair<std::string, core::RecordPtr>> SampleRecords() {
  std::vector<std::pair<std::string, core::RecordPtr>> samples;
  const auto add = [&samples](std::string name, const Story& story) {
    samples.emplace_back(std::move(name), story.ptr());
  };
  const Story rich = Story().Apply(RichReserve());
  add("pending", Story().Reserve());
  add("pending with everything a Reserve can say", rich);
  core::RenewCommand renew{.token = rich.token(), .lease = 60s, .progress = std::string()};
  add("pending with empty progress", Story(rich).Apply(renew));
  renew.progress = std::string(4096, '\0');
  add("pending with the longest progress", Story(rich).Apply(renew));
  add("pending again after an unknown", Story(kStart, Rerun()).Reserve().Mark().Reserve(7));
  add("complete without a response", Story(rich).Complete());
  add("complete with an empty response", Story(rich).Complete(Body("")));
  add("complete with a long response", Story(rich).Complete(Body(std::string(1 << 20, '\x80'))));
  add("complete, body omitted",
      Story(rich).Complete({.bytes = core::Blob("{}"), .body_omitted = true}));
  add("unresolved", Story(rich).Mark());
  add("unresolved, to be forgotten", Story(kStart, Rerun()).Reserve().Mark());
  add("freed", Story(rich).Release());
  Story expired = Story().Reserve().Complete(Body("gone"));
  samples.emplace_back("expired", std::make_shared<const core::Record>(
                                      *core::Observe(expired.record(), core::At(kStart + 25h))));
  Story busy = Story(kStart, Rerun());
  for (uint64_t round = 1; round <= 20; ++round) busy.Reserve(1000 * round).Wait(1s).Mark();
  add("unresolved after twenty attempts", busy);
  return samples;
}

core::RecordPtr PendingRecord(uint64_t token) { return Story().Reserve(token).ptr(); }

core::RecordPtr CompleteRecord(uint64_t token, std::string body) {
  return Story().Reserve(token).Complete(Body(std::move(body))).ptr();
}

core::RecordPtr UnresolvedRecord(uint64_t token) { return Story().Reserve(token).Mark().ptr(); }

}  // namespace idempotency::keystore
