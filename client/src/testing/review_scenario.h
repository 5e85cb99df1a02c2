// One scenario of a retry review: its calls, and the rules they are judged by.
#ifndef IDEMPOTENCY_CLIENT_SRC_TESTING_REVIEW_SCENARIO_H_
#define IDEMPOTENCY_CLIENT_SRC_TESTING_REVIEW_SCENARIO_H_

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/src/testing/review_world.h"
#include "idempotency/testing/retry_review.h"

namespace idempotency::testing {

// The setup with all that was left open filled in.
struct ReviewGround {
  NamespacePolicy policy;
  std::string name_space;
  std::string scope;
  std::string key_prefix;
  bool provider_knows_keys = true;
  Duration provider_remembers{0};
  std::shared_ptr<Environment> environment;
  std::shared_ptr<Connection> connection;
  // Empty: time cannot be moved.
  std::function<void(Duration)> advance;
};

// Thread safety: used by one thread, but for Call, which may run on several.
class Scenario {
 public:
  Scenario(const ReviewGround& ground, const ReviewedHandler& handler, std::string name);

  ProviderBook& provider() { return provider_; }
  const NamespacePolicy& policy() const { return ground_.policy; }

  // Another process of the handler; lives as long as the scenario.
  ReviewProcess& Start();
  // The handler's call in that process. `who`: what the report calls it.
  ReviewAnswer Call(ReviewProcess& process, const std::string& request = "request A");
  // The same, and its answer goes into the report and is judged. `lost`: nobody hears it.
  ReviewAnswer Tell(const std::string& who, ReviewProcess& process, bool lost = false,
                    const std::string& request = "request A");
  void Record(const std::string& who, const ReviewAnswer& answer, const std::string& request,
              bool lost);

  void Advance(Duration span);
  // Until the lease of the process has ended, if it had one.
  void AdvancePastLease(const ReviewProcess& process);
  // New processes call again, a good while later each, until one is answered; at most four. The
  // last answer.
  ReviewAnswer CallUntilAnswered();

  // What is wrong, or worth knowing, beyond the rules.
  void Problem(std::string what) { finding_.problems.push_back(std::move(what)); }
  void Remark(std::string what) { finding_.remarks.push_back(std::move(what)); }

  // By the rules. effects_max: 1, unless the policy says that repeating what is unknown is
  // harmless and the outcome was.
  ReviewFinding Judge(bool outcome_was_unknown, const std::string& on_second_effect);

 private:
  struct Told {
    std::string request;
    ReviewAnswer answer;
  };

  OperationId id() const;
  void JudgeAnswers();
  void JudgeKeys();
  void JudgeRecord();

  const ReviewGround& ground_;
  const ReviewedHandler& handler_;
  const std::string key_;
  const SystemTime first_sent_;
  ProviderBook provider_;
  std::list<ReviewProcess> processes_;
  std::vector<Told> told_;
  ReviewFinding finding_;
};

// All of them, in the order of the report.
struct ScenarioRow {
  const char* name;
  const char* story;
  bool needs_time;
  ReviewFinding (*run)(Scenario& scenario);
};
const std::vector<ScenarioRow>& Scenarios();

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_CLIENT_SRC_TESTING_REVIEW_SCENARIO_H_
