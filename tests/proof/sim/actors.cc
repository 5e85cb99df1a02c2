#include "tests/proof/sim/actors.h"

#include <utility>
#include <variant>

#include "keystore/core/transition.h"
#include "tests/keystore/core/core_text.h"

namespace idempotency::proof {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

core::Response AnyResponse(Random& random) {
  core::Response response;
  if (!random.OneIn(4)) response.bytes = core::Blob(random.OneIn(3) ? "" : "ok");
  response.body_omitted = random.OneIn(8);
  return response;
}

std::string AnyProviderId(Random& random) {
  return random.OneIn(3) ? "req" + std::to_string(random.Below(2)) : "";
}

core::CompleteCommand Complete(uint64_t token, Random& random) {
  core::CompleteCommand command{
      .token = token,
      .verdict = random.OneIn(4) ? core::Verdict::kFailed : core::Verdict::kSucceeded,
      .response = AnyResponse(random),
      .provider_request_id = AnyProviderId(random)};
  if (random.OneIn(3)) {
    command.retention = random.OneIn(4) ? core::Duration(hours(10'000)) : minutes(random.Below(50));
  }
  command.content = core::ContentOf(command);
  return command;
}

core::MarkUnresolvedCommand Mark(uint64_t token, Random& random) {
  core::MarkUnresolvedCommand command{
      .token = token,
      .cause = static_cast<core::UnresolvedCause>(1 + random.Below(5)),
      .provider_request_id = AnyProviderId(random),
      .reconcile_first = random.OneIn(6)};
  if (random.OneIn(3)) command.retry_after = seconds(random.Below(30));
  command.content = core::ContentOf(command);
  return command;
}

core::ReleaseCommand Release(uint64_t token, Random& random) {
  core::ReleaseCommand command{.token = token, .detail = random.OneIn(2) ? "nothing sent" : ""};
  command.content = core::ContentOf(command);
  return command;
}

core::RenewCommand Renew(uint64_t token, size_t key, size_t index, Random& random) {
  core::RenewCommand command{
      .token = token, .lease = seconds(1 + random.Below(60)), .dispatched = random.OneIn(3)};
  if (random.OneIn(4)) command.progress = "p" + std::to_string(random.Below(3));
  if (random.OneIn(5)) {
    command.owner =
        core::Owner{.worker = "pod" + std::to_string(index), .operation_ref = TagOf(key)};
  }
  return command;
}

core::ResolveCommand Resolve(Random& random) {
  core::ResolveCommand command;
  command.resolution = static_cast<core::Resolution>(1 + random.Below(3));
  command.verdict = random.OneIn(4) ? core::Verdict::kFailed : core::Verdict::kSucceeded;
  if (command.resolution == core::Resolution::kCompleted) command.response = AnyResponse(random);
  command.provider_request_id = AnyProviderId(random);
  command.actor = "op";
  command.reason = "seen";
  command.content = core::ContentOf(command);
  return command;
}

}  // namespace

std::string TagOf(size_t key) { return "of key " + std::to_string(key); }

core::RecordPtr ShownIn(const core::Answer& answer) {
  struct Visitor {
    core::RecordPtr operator()(const core::Refusal&) { return nullptr; }
    core::RecordPtr operator()(const core::ReserveAnswer& a) { return a.operation; }
    core::RecordPtr operator()(const core::RenewAnswer&) { return nullptr; }
    core::RecordPtr operator()(const core::CompleteAnswer& a) { return a.operation; }
    core::RecordPtr operator()(const core::ReleaseAnswer&) { return nullptr; }
    core::RecordPtr operator()(const core::MarkUnresolvedAnswer& a) { return a.operation; }
    core::RecordPtr operator()(const core::GetAnswer& a) { return a.operation; }
    core::RecordPtr operator()(const core::InspectAnswer& a) { return a.operation; }
    core::RecordPtr operator()(const core::ResolveAnswer& a) { return a.operation; }
    core::RecordPtr operator()(const core::DeleteAnswer&) { return nullptr; }
    core::RecordPtr operator()(const core::ReclaimAnswer&) { return nullptr; }
  };
  return std::visit(Visitor{}, answer);
}

// --- Clients -----------------------------------------------------------------------------------

MessagePtr Client::Send(core::Command command, core::Duration wait) {
  last_ = std::make_shared<const Message>(Message{.number = ++numbers_->messages,
                                                  .actor = index_,
                                                  .key = key_,
                                                  .command = std::move(command),
                                                  .wait = wait});
  return last_;
}

// It forgets what it held, and begins again: usually as another attempt, at times as the same.
void Client::Die(Random& random) {
  if (token_ != 0) old_tokens_.push_back(token_);
  token_ = 0;
  phase_ = Phase::kIdle;
  if (!random.OneIn(4)) attempt_ = 0;
}

MessagePtr Client::Reserve(Random& random) {
  if (attempt_ == 0) attempt_ = ++numbers_->attempts;
  core::ReserveCommand command;
  const uint64_t back = random.OneIn(12) ? random.Below(attempt_) : 0;
  command.attempt_id = core::Digest{.high = 1, .low = attempt_ - back};
  command.owner =
      core::Owner{.worker = "a" + std::to_string(attempt_), .operation_ref = TagOf(key_)};
  command.fingerprint =
      core::FingerprintOf(random.OneIn(10) ? (random.OneIn(2) ? "y" : "jcs/x") : "x");
  if (random.OneIn(12)) command.fingerprint = core::Fingerprint{};
  command.lease = random.OneIn(4) ? core::Duration(minutes(1 + random.Below(20)))
                                  : core::Duration(seconds(1 + random.Below(30)));
  command.dispatch_later = random.OneIn(3);
  command.start_over = random.OneIn(5);
  if (random.OneIn(6)) command.operation_age = random.OneIn(3) ? hours(25 * 24) : hours(1);
  if (random.OneIn(40)) command.refuse_new = core::Reason::kQuotaExceeded;
  phase_ = Phase::kReserving;
  core::Duration wait{0};
  if (random.OneIn(3)) wait = seconds(1 + random.Below(40));
  return Send(std::move(command), wait);
}

MessagePtr Client::Report(Random& random) {
  const bool old = !old_tokens_.empty() && random.OneIn(phase_ == Phase::kHolding ? 16 : 3);
  uint64_t token =
      old || token_ == 0 ? (old_tokens_.empty() ? 1 : random.Any(old_tokens_)) : token_;
  if (random.OneIn(100)) token = random.OneIn(2) ? 0 : token + 1 + random.Below(3);
  switch (random.Below(9)) {
    case 0:
    case 1:
    case 2:
      return Send(Renew(token, key_, index_, random));
    case 3:
      phase_ = Phase::kFinishing;
      return Send(Release(token, random));
    case 4:
    case 5:
      phase_ = Phase::kFinishing;
      return Send(Mark(token, random));
    default:
      phase_ = Phase::kFinishing;
      return Send(Complete(token, random));
  }
}

MessagePtr Client::Speak(Random& random) {
  if (random.OneIn(25)) {
    return Send(core::GetCommand{core::FingerprintOf(random.OneIn(4) ? "y" : "x")},
                random.OneIn(4) ? core::Duration(seconds(random.Below(40))) : core::Duration{0});
  }
  switch (phase_) {
    case Phase::kIdle:
      return Reserve(random);
    case Phase::kReserving:
      if (last_ != nullptr && !random.OneIn(3)) return last_;
      if (random.OneIn(3)) attempt_ = 0;
      return Reserve(random);
    case Phase::kHolding:
      if (random.OneIn(7)) {
        Die(random);
        return Reserve(random);
      }
      return Report(random);
    case Phase::kFinishing:
      return last_ != nullptr && !random.OneIn(3) ? last_ : Report(random);
    case Phase::kDone:
      if (random.OneIn(3)) return Report(random);
      Die(random);
      return Reserve(random);
  }
  return Reserve(random);
}

void Client::HearReserve(const core::ReserveAnswer& answer, Random& random) {
  if (answer.lease.has_value()) {
    if (token_ != 0 && token_ != answer.lease->token) old_tokens_.push_back(token_);
    token_ = answer.lease->token;
    phase_ = Phase::kHolding;
    return;
  }
  phase_ = Phase::kIdle;
  if (random.OneIn(2)) attempt_ = 0;
}

void Client::Hear(const Message& asked, const core::Answer& answer, Random& random) {
  if (const auto* reserved = std::get_if<core::ReserveAnswer>(&answer)) {
    const auto* command = std::get_if<core::ReserveCommand>(&asked.command);
    if (command != nullptr && command->attempt_id.low == attempt_) HearReserve(*reserved, random);
    return;
  }
  const bool finished = std::holds_alternative<core::CompleteAnswer>(answer) ||
                        std::holds_alternative<core::ReleaseAnswer>(answer) ||
                        std::holds_alternative<core::MarkUnresolvedAnswer>(answer);
  const bool refused = std::holds_alternative<core::Refusal>(answer);
  if (finished || (refused && random.OneIn(2))) phase_ = Phase::kDone;
}

// --- The operator ------------------------------------------------------------------------------

MessagePtr Operator::Send(size_t key, core::Command command, core::Duration wait) {
  last_ = std::make_shared<const Message>(Message{.number = ++numbers_->messages,
                                                  .actor = index_,
                                                  .key = key,
                                                  .command = std::move(command),
                                                  .wait = wait});
  return last_;
}

MessagePtr Operator::Speak(size_t key, Random& random) {
  const std::string etag = random.OneIn(4) ? etag_ : "";
  switch (random.Below(8)) {
    case 0:
      return last_ != nullptr ? last_ : Send(key, core::InspectCommand{});
    case 1:
      return Send(key, core::InspectCommand{});
    case 2:
      if (!random.OneIn(3)) return Send(key, core::InspectCommand{});
      return Send(key, core::DeleteCommand{.force = random.OneIn(2), .actor = "op", .etag = etag});
    default: {
      core::ResolveCommand command = Resolve(random);
      command.etag = etag;
      return Send(key, std::move(command));
    }
  }
}

void Operator::Hear(const core::Answer& answer) {
  const core::RecordPtr shown = ShownIn(answer);
  if (shown != nullptr) etag_ = core::Etag(*shown);
}

}  // namespace idempotency::proof
