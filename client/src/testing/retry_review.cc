#include "idempotency/testing/retry_review.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "client/src/testing/review_scenario.h"
#include "idempotency/testing/fake_environment.h"

namespace idempotency::testing {
namespace {

std::string StatusText(const CachedResponse& response) {
  if (const auto* http = std::get_if<CachedResponse::HttpStatus>(&response.status)) {
    return absl::StrCat("HTTP ", http->code, " ");
  }
  if (const auto* grpc = std::get_if<CachedResponse::GrpcCode>(&response.status)) {
    return absl::StrCat("gRPC ", grpc->code, " ");
  }
  return {};
}

ReviewGround GroundOf(const ReviewSetup& setup) {
  ReviewGround ground{.policy = setup.policy,
                      .name_space = setup.name_space,
                      .scope = setup.scope,
                      .provider_knows_keys = setup.provider_knows_keys,
                      .provider_remembers = setup.provider_remembers,
                      .environment = setup.environment,
                      .connection = setup.connection,
                      .advance = setup.advance};
  if (ground.environment == nullptr) {
    auto environment = std::make_shared<FakeEnvironment>();
    ground.environment = environment;
    // Somebody else's service has a clock of its own.
    if (setup.connection == nullptr && !ground.advance) {
      ground.advance = [environment](Duration span) { environment->Advance(span); };
    }
  }
  if (ground.connection == nullptr) {
    ground.connection = std::make_shared<InProcessConnection>(
        ground.environment, NamespacePolicies{{setup.name_space, setup.policy}});
  }
  const auto chance = setup.connection == nullptr ? ground.environment : SystemEnvironment();
  ground.key_prefix = absl::StrCat("review-", chance->RandomId());
  return ground;
}

ReviewFinding RunScenario(const ScenarioRow& row, const ReviewGround& ground,
                          const ReviewedHandler& handler) {
  ReviewFinding finding;
  if (row.needs_time && !ground.advance) {
    finding.remarks = {"needs a clock that can be moved: set ReviewSetup::advance"};
  } else {
    Scenario scenario(ground, handler, row.name);
    finding = row.run(scenario);
  }
  finding.name = row.name;
  finding.story = row.story;
  return finding;
}

const char* Word(ReviewFinding::Verdict verdict) {
  switch (verdict) {
    case ReviewFinding::Verdict::kPassed:
      return "PASSED ";
    case ReviewFinding::Verdict::kFailed:
      return "FAILED ";
    case ReviewFinding::Verdict::kNotRun:
      return "NOT RUN";
  }
  return "NOT RUN";
}

std::string TextOf(const ReviewFinding& finding) {
  std::string text =
      absl::StrCat(Word(finding.verdict), "  ", finding.name, "\n    ", finding.story, "\n");
  for (const std::string& call : finding.calls) absl::StrAppend(&text, "    - ", call, "\n");
  if (finding.verdict != ReviewFinding::Verdict::kNotRun) {
    absl::StrAppend(&text, "    effects: ", finding.effects, " (at most ", finding.effects_max,
                    "), calls of the provider: ", finding.provider_calls,
                    ", record: ", finding.record, "\n");
  }
  for (const std::string& problem : finding.problems) {
    absl::StrAppend(&text, "    PROBLEM: ", problem, "\n");
  }
  for (const std::string& remark : finding.remarks) {
    absl::StrAppend(&text, "    note: ", remark, "\n");
  }
  return text;
}

}  // namespace

ReviewAnswer ReviewAnswer::Of(const RunResult& result) {
  if (!result.has_answer()) {
    return ReviewAnswer{.text = absl::StrCat(std::string(Name(result.stop)), ", next step ",
                                             std::string(Name(result.next_step)))};
  }
  const CachedResponse response = result.response.value_or(CachedResponse{});
  return ReviewAnswer{.answered = true,
                      .text = absl::StrCat(StatusText(response), response.body.value_or(""))};
}

bool RetryReport::passed() const {
  return std::none_of(findings.begin(), findings.end(), [](const ReviewFinding& finding) {
    return finding.verdict == ReviewFinding::Verdict::kFailed;
  });
}

const ReviewFinding* RetryReport::Find(const std::string& name) const {
  for (const ReviewFinding& finding : findings) {
    if (finding.name == name) return &finding;
  }
  return nullptr;
}

std::string RetryReport::Text() const {
  const auto count = [this](ReviewFinding::Verdict verdict) {
    return std::count_if(findings.begin(), findings.end(), [verdict](const ReviewFinding& finding) {
      return finding.verdict == verdict;
    });
  };
  std::string text = absl::StrCat("Retry review: ", count(ReviewFinding::Verdict::kPassed),
                                  " passed, ", count(ReviewFinding::Verdict::kFailed), " failed, ",
                                  count(ReviewFinding::Verdict::kNotRun), " not run\n");
  for (const ReviewFinding& finding : findings) absl::StrAppend(&text, "\n", TextOf(finding));
  return text;
}

RetryReport ReviewRetries(const ReviewedHandler& handler, const ReviewSetup& setup) {
  const ReviewGround ground = GroundOf(setup);
  RetryReport report;
  for (const ScenarioRow& row : Scenarios()) {
    report.findings.push_back(RunScenario(row, ground, handler));
  }
  return report;
}

}  // namespace idempotency::testing
