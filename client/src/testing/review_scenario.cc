#include "client/src/testing/review_scenario.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"

namespace idempotency::testing {
namespace {

constexpr int kMaxRepeats = 4;
constexpr Duration kMoment = std::chrono::seconds(1);

std::string KeyOf(const ReviewGround& ground, std::string name) {
  // Whatever the handler does with keys, these are plain.
  for (char& c : name) c = c >= 'a' && c <= 'z' ? c : '-';
  return absl::StrCat(ground.key_prefix, "-", name);
}

}  // namespace

Scenario::Scenario(const ReviewGround& ground, const ReviewedHandler& handler, std::string name)
    : ground_(ground),
      handler_(handler),
      key_(KeyOf(ground, std::move(name))),
      first_sent_(ground.environment->WallNow()),
      provider_(ground.provider_knows_keys, ground.provider_remembers, ground.environment) {}

OperationId Scenario::id() const { return {ground_.name_space, ground_.scope, key_}; }

ReviewProcess& Scenario::Start() {
  return processes_.emplace_back(ground_.connection, ground_.environment, &provider_);
}

ReviewAnswer Scenario::Call(ReviewProcess& process, const std::string& request) {
  // Lent, not given: the client of one call ends with it.
  const std::shared_ptr<Connection> connection(std::shared_ptr<void>(), &process);
  Client client(connection, ground_.environment);
  ReviewedCall call{.client = client,
                    .connection = process,
                    .environment = *ground_.environment,
                    .provider = process,
                    .id = id(),
                    .request = request,
                    .first_sent = first_sent_};
  ReviewAnswer answer;
  try {
    answer = handler_(call);
  } catch (const std::exception& exception) {
    answer = ReviewAnswer{.text = absl::StrCat("threw: ", exception.what())};
  } catch (...) {
    answer = ReviewAnswer{.text = "threw"};
  }
  process.Show();
  return answer;
}

ReviewAnswer Scenario::Tell(const std::string& who, ReviewProcess& process, bool lost,
                            const std::string& request) {
  const ReviewAnswer answer = Call(process, request);
  Record(who, answer, request, lost);
  return answer;
}

void Scenario::Record(const std::string& who, const ReviewAnswer& answer,
                      const std::string& request, bool lost) {
  finding_.calls.push_back(absl::StrCat(who, ": ", answer.answered ? "answered" : "no answer", ", ",
                                        answer.text, lost ? " (nobody hears it)" : ""));
  if (!lost) told_.push_back({request, answer});
}

void Scenario::Advance(Duration span) {
  if (ground_.advance) ground_.advance(span);
}

void Scenario::AdvancePastLease(const ReviewProcess& process) {
  Advance(std::max(process.lease(), ground_.policy.default_lease) + kMoment);
}

ReviewAnswer Scenario::CallUntilAnswered() {
  ReviewAnswer answer;
  for (int i = 1; i <= kMaxRepeats && !answer.answered; ++i) {
    Advance(std::max(ground_.policy.settle, ground_.policy.max_backoff) + kMoment);
    answer = Tell(absl::StrCat("call again, ", i), Start());
  }
  if (!answer.answered) {
    Remark(
        "it ends without an answer: somebody has to find out, or the handler is given a look-up, "
        "and a name to settle in what it finds (RunOptions::look_up, reconciler)");
  }
  return answer;
}

ReviewFinding Scenario::Judge(bool outcome_was_unknown, const std::string& on_second_effect) {
  finding_.provider_calls = provider_.calls();
  finding_.effects = provider_.effects();
  const bool harmless = ground_.policy.unknown_outcome == NamespacePolicy::UnknownOutcome::kRerun;
  if (outcome_was_unknown && harmless) {
    finding_.effects_max = std::max<size_t>(finding_.effects, 1);
    Remark("the namespace says that repeating what is unknown is harmless (RERUN)");
  }
  if (finding_.effects > finding_.effects_max) {
    Problem(absl::StrCat("it happened ", finding_.effects, " times; ", on_second_effect));
  }
  JudgeAnswers();
  JudgeKeys();
  JudgeRecord();
  finding_.verdict =
      finding_.problems.empty() ? ReviewFinding::Verdict::kPassed : ReviewFinding::Verdict::kFailed;
  return std::move(finding_);
}

// One request has one answer, and it is nobody else's.
void Scenario::JudgeAnswers() {
  const Told* first = nullptr;
  for (const Told& told : told_) {
    if (!told.answer.answered) continue;
    if (first == nullptr) first = &told;
    // Two effects have two answers, and are judged as such.
    const bool differs = told.answer.text != first->answer.text && finding_.effects <= 1;
    if (told.request == first->request && differs) {
      Problem("one request was given two answers; tell duplicates what was stored");
      return;
    }
    if (told.request != first->request) {
      Problem("another request under the key was answered; give Run the request's fingerprint");
      return;
    }
  }
}

void Scenario::JudgeKeys() {
  const std::vector<std::string> keys = provider_.keys();
  const bool differ =
      std::any_of(keys.begin(), keys.end(), [&](const std::string& key) { return key != keys[0]; });
  if (differ) {
    Problem("the provider was sent different keys for one operation; send Attempt::provider_key()");
  } else if (!keys.empty() && keys[0].empty()) {
    Remark("the provider is sent no key");
  }
}

void Scenario::JudgeRecord() {
  const auto got = ground_.connection->GetOperation({.id = id()}, {});
  if (!got.ok()) {
    finding_.record = "nothing recorded";
    if (finding_.effects > 0) Remark("the effect is not on record");
    return;
  }
  finding_.record = std::string(Name(got->operation.state));
  if (got->operation.state == OperationState::kPending) {
    Problem("the operation is left pending; end every attempt, whatever becomes of it");
  }
  if (got->operation.state == OperationState::kUnresolved) {
    Remark("it is left unresolved: it shows in ListOperations until somebody settles it");
  }
}

}  // namespace idempotency::testing
