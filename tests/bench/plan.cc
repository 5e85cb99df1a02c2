#include "tests/bench/plan.h"

#include <limits>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::bench {
namespace {

char EchoHint(Mix mix) {
  switch (mix) {
    case Mix::kReplay:
    case Mix::kGet:
      return kEchoCompleted;
    case Mix::kInProgress:
      return kEchoInProgress;
    case Mix::kReserve:
    case Mix::kLifecycle:
    case Mix::kHot:
      return kEchoAcquired;
  }
  return kEchoAcquired;
}

bool IsOfOldKeys(Mix mix) {
  return mix == Mix::kReplay || mix == Mix::kGet || mix == Mix::kInProgress;
}

}  // namespace

Plan::Plan(const Options& options) : options_(options), writer_(options.shape) {}

bool Plan::TakeNumber(uint64_t* number) {
  *number = next_.fetch_add(1, std::memory_order_relaxed);
  return options_.operations == 0 || *number < options_.operations;
}

Caller::Caller(Plan* plan, uint64_t number)
    : plan_(plan), number_(number), chance_(Mix64(plan->options().seed ^ Mix64(number))) {}

uint64_t Caller::KeyIndex(uint64_t number) {
  const Options& options = plan_->options();
  if (options.mix == Mix::kHot) return number_ % options.hot_keys + rounds_ * options.hot_keys;
  if (!IsOfOldKeys(options.mix)) return number;
  chance_ = Mix64(chance_);
  return chance_ % options.keys;
}

bool Caller::Begin() {
  const Options& options = plan_->options();
  uint64_t number = 0;
  if (!plan_->TakeNumber(&number)) return false;
  const uint64_t index = options.first_key + KeyIndex(number);
  // Callers of one key are different attempts; the first one is what brought an old key in.
  const bool is_shared = IsOfOldKeys(options.mix) || options.mix == Mix::kHot;
  const uint64_t attempt = is_shared ? number + 1 : 0;
  id_ = MakeIdentity(options.seed, index, options.scopes, attempt, EchoHint(options.mix));
  ++rounds_;
  token_ = 0;
  verb_ = options.mix == Mix::kGet ? Verb::kGet : Verb::kReserve;
  return true;
}

bool Caller::OnAnswer(const Answer& answer) {
  if (answer.is_error) {
    OnFailure(absl::StrCat(v1::ErrorReason_Name(static_cast<v1::ErrorReason>(answer.reason)), ": ",
                           absl::string_view(answer.message.data(), answer.message.size())));
    return true;
  }
  if (!Check(answer.verb == verb_ && answer.key == std::string_view(id_.key, kKeyBytes), answer,
             "an answer for this key")) {
    return true;
  }
  switch (verb_) {
    case Verb::kReserve:
      return OnReserved(answer);
    case Verb::kComplete:
      Check(answer.state == v1::OPERATION_STATE_COMPLETE, answer, "COMPLETE");
      return true;
    case Verb::kGet:
      Check(answer.state == v1::OPERATION_STATE_COMPLETE && HasBody(answer), answer,
            "COMPLETE with its body");
      return true;
  }
  return true;
}

bool Caller::OnReserved(const Answer& answer) {
  const bool acquired = answer.outcome == v1::RESERVE_OUTCOME_ACQUIRED && answer.token != 0;
  const bool replayed = answer.outcome == v1::RESERVE_OUTCOME_COMPLETED && HasBody(answer);
  switch (plan_->options().mix) {
    case Mix::kReserve:
      Check(acquired, answer, "ACQUIRED");
      return true;
    case Mix::kHot:
      if (replayed) return true;
      if (acquired) plan_->acquired().fetch_add(1, std::memory_order_relaxed);
      [[fallthrough]];
    case Mix::kLifecycle:
      if (!Check(acquired, answer, "ACQUIRED")) return true;
      token_ = answer.token;
      verb_ = Verb::kComplete;
      return false;
    case Mix::kReplay:
      Check(replayed, answer, "COMPLETED with its body");
      return true;
    case Mix::kInProgress:
      Check(answer.outcome == v1::RESERVE_OUTCOME_IN_PROGRESS, answer, "IN_PROGRESS");
      return true;
    case Mix::kGet:
      break;
  }
  return true;
}

bool Caller::HasBody(const Answer& answer) const {
  // The echo server cannot know the body, but sends as many bytes.
  if (plan_->options().echo) return answer.body.size() == plan_->options().shape.body_bytes;
  return answer.body == Body();
}

bool Caller::Check(bool right, const Answer& answer, const char* wanted) {
  if (right) return true;
  const auto outcome = static_cast<v1::ReserveOutcome>(answer.outcome);
  const auto state = static_cast<v1::OperationState>(answer.state);
  OnFailure(absl::StrCat("wanted ", wanted, ", got ", v1::ReserveOutcome_Name(outcome), " ",
                         v1::OperationState_Name(state), ", ", answer.body.size(),
                         " bytes of body"));
  return false;
}

void Caller::OnFailure(const std::string& why) {
  plan_->faults().Add(absl::StrCat(NameOf(verb_), ": ", why));
}

}  // namespace idempotency::bench
