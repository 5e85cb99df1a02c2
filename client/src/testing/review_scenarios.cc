// What goes wrong, one function each.
#include <thread>
#include <utility>

#include "client/src/testing/review_scenario.h"

namespace idempotency::testing {
namespace {

constexpr Duration kMoment = std::chrono::seconds(1);
constexpr Duration kDay = std::chrono::hours(24);

void RequireAnswer(Scenario& scenario, const ReviewAnswer& answer) {
  if (!answer.answered) scenario.Problem("it happened, and whoever asks again is not answered");
}

ReviewFinding ReplyLost(Scenario& scenario) {
  scenario.Tell("call", scenario.Start(), true);
  RequireAnswer(scenario, scenario.Tell("call again", scenario.Start()));
  return scenario.Judge(false, "wrap the effect in Run, under a key that was saved before");
}

ReviewFinding ServiceReplyLost(Scenario& scenario) {
  ReviewProcess& process = scenario.Start();
  process.LoseReplies(true, true);
  RequireAnswer(scenario, scenario.Tell("call", process));
  RequireAnswer(scenario, scenario.Tell("call again", scenario.Start()));
  return scenario.Judge(false, "repeat a Reserve under the same attempt id");
}

ReviewFinding ServiceAway(Scenario& scenario) {
  ReviewProcess& process = scenario.Start();
  process.Cut(true);
  scenario.Tell("call, without the service", process);
  if (scenario.provider().calls() > 0) {
    scenario.Remark("it went ahead without protection while the service was away");
  }
  scenario.Tell("call, with it", scenario.Start());
  return scenario.Judge(false, "do nothing while the service cannot be reached");
}

ReviewFinding ConcurrentDuplicate(Scenario& scenario) {
  ReviewProcess& first = scenario.Start();
  ReviewProcess& second = scenario.Start();
  ReviewAnswer duplicate;
  std::thread thread;
  // The first has called the provider and waits for it when the second comes.
  scenario.provider().on_request = [&] {
    thread = std::thread([&] { duplicate = scenario.Call(second); });
    second.AwaitShown();
  };
  const ReviewAnswer answer = scenario.Call(first);
  if (thread.joinable()) thread.join();
  scenario.Record("call", answer, "request A", false);
  scenario.Record("the same, meanwhile", duplicate, "request A", false);
  RequireAnswer(scenario, answer);
  return scenario.Judge(false, "let only the holder of the lease call the provider");
}

ReviewFinding ChangedRequest(Scenario& scenario) {
  scenario.Tell("call", scenario.Start());
  scenario.Tell("another request, same key", scenario.Start(), false, "request B");
  return scenario.Judge(false, "give Run the request's fingerprint");
}

ReviewFinding CrashBefore(Scenario& scenario) {
  scenario.provider().Script({ProviderFault::kCrashBefore});
  ReviewProcess& owner = scenario.Start();
  scenario.Tell("call, whose process dies", owner, true);
  scenario.AdvancePastLease(owner);
  scenario.CallUntilAnswered();
  return scenario.Judge(true, "find out before repeating, or send the provider the same key");
}

ReviewFinding CrashAfter(Scenario& scenario) {
  scenario.provider().Script({ProviderFault::kCrashAfter});
  ReviewProcess& owner = scenario.Start();
  scenario.Tell("call, whose process dies", owner, true);
  scenario.AdvancePastLease(owner);
  scenario.CallUntilAnswered();
  return scenario.Judge(true, "find out before repeating, or send the provider the same key");
}

// The owner loses its lease on the way, somebody else comes, and then the owner goes on.
ReviewFinding Late(Scenario& scenario, std::function<void()> ProviderBook::*when) {
  ReviewProcess& owner = scenario.Start();
  scenario.provider().*when = [&] {
    owner.Cut(true);
    scenario.AdvancePastLease(owner);
    scenario.Advance(scenario.policy().initial_backoff);
    scenario.Tell("the same, after the lease", scenario.Start());
    owner.Cut(false);
  };
  scenario.Tell("call, which is late", owner);
  scenario.CallUntilAnswered();
  return scenario.Judge(
      true,
      "only a provider that knows the key, or checks the fencing token, can stop a late call");
}

ReviewFinding LateCompletion(Scenario& scenario) {
  return Late(scenario, &ProviderBook::on_answer);
}

ReviewFinding LateEffect(Scenario& scenario) { return Late(scenario, &ProviderBook::on_request); }

ReviewFinding AfterRetention(Scenario& scenario) {
  scenario.Tell("call", scenario.Start());
  scenario.Advance(scenario.policy().retention + kMoment);
  scenario.Tell("call again, after the retention", scenario.Start());
  return scenario.Judge(false, "remember keys for longer (expired_memory)");
}

ReviewFinding AfterMemory(Scenario& scenario) {
  scenario.Tell("call", scenario.Start());
  scenario.Advance(scenario.policy().retention + scenario.policy().expired_memory + kDay);
  scenario.Tell("call again, when all is forgotten", scenario.Start());
  return scenario.Judge(false, "say how old the operation is (RunRequest::first_sent)");
}

ReviewFinding Unanswered(Scenario& scenario, ProviderFault fault) {
  scenario.provider().Script({fault});
  scenario.Tell("call", scenario.Start());
  scenario.CallUntilAnswered();
  return scenario.Judge(true, "an error of the provider does not say that nothing happened");
}

ReviewFinding ServerErrorBefore(Scenario& scenario) {
  return Unanswered(scenario, ProviderFault::kServerErrorBefore);
}

ReviewFinding ServerErrorAfter(Scenario& scenario) {
  return Unanswered(scenario, ProviderFault::kServerErrorAfter);
}

ReviewFinding TimeoutBefore(Scenario& scenario) {
  return Unanswered(scenario, ProviderFault::kTimeoutBefore);
}

ReviewFinding TimeoutAfter(Scenario& scenario) {
  return Unanswered(scenario, ProviderFault::kTimeoutAfter);
}

}  // namespace

const std::vector<ScenarioRow>& Scenarios() {
  static const auto* const rows = new std::vector<ScenarioRow>{
      {"reply lost", "The answer never reaches the caller, who asks again.", false, ReplyLost},
      {"service reply lost", "The service has done what it was asked, and its replies are lost.",
       false, ServiceReplyLost},
      {"service away", "The service cannot be reached, and then it can.", false, ServiceAway},
      {"concurrent duplicate", "The same call comes again while the first is at the provider.",
       false, ConcurrentDuplicate},
      {"changed request", "Another request comes under the same key.", false, ChangedRequest},
      {"owner crash before the effect", "The process dies just before its call arrives.", true,
       CrashBefore},
      {"owner crash after the effect", "The process dies before it hears the provider's answer.",
       true, CrashAfter},
      {"late completion", "The owner hears from the provider when its lease has long ended.", true,
       LateCompletion},
      {"late effect", "The owner's call reaches the provider when its lease has long ended.", true,
       LateEffect},
      {"replay after retention", "The same call comes when the answer is no longer kept.", true,
       AfterRetention},
      {"replay after all memory", "The same call comes when the key is forgotten altogether.", true,
       AfterMemory},
      {"provider error, then success", "A 500, and nothing was done; the next call succeeds.", true,
       ServerErrorBefore},
      {"provider error, though it was done", "A 500 hides that it was done.", true,
       ServerErrorAfter},
      {"timeout, and it was not done", "No answer in time; a look-up would not find it.", true,
       TimeoutBefore},
      {"timeout, though it was done", "No answer in time; a look-up would find it.", true,
       TimeoutAfter},
  };
  return *rows;
}

}  // namespace idempotency::testing
