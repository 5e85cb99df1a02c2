// The configuration file: text becomes a configuration that keeps every rule, or problems that
// say where they are.
//
//   input := the file
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "keystore/core/limits.h"
#include "service/config.h"
#include "tests/fuzz/require.h"

namespace idempotency::fuzz {
namespace {

using core::Duration;
using service::Config;

constexpr std::string_view kFile = "f.yaml";
constexpr size_t kMaxLines = 102;  // the problems that are told, and how many more there are

// `f.yaml:12: path: sentence`, or without the line where the file as a whole is meant.
void IsProblem(std::string_view line) {
  Require(line.substr(0, kFile.size() + 1) == "f.yaml:", "a problem names the file", line);
  std::string_view rest = line.substr(kFile.size() + 1);
  const size_t digits = rest.find_first_not_of("0123456789");
  if (digits > 0 && digits != std::string_view::npos) {
    Require(rest[digits] == ':', "a problem names the line", line);
    rest.remove_prefix(digits + 1);
  }
  Require(rest.size() > 10 && rest[0] == ' ', "a problem is a sentence", line);
  for (const char c : line) {
    Require(static_cast<unsigned char>(c) >= 0x20 && c != '\x7f', "a problem can be printed", line);
  }
}

void AreProblems(const absl::Status& status) {
  Require(absl::IsInvalidArgument(status), "a bad file is INVALID_ARGUMENT");
  std::string_view rest(status.message().data(), status.message().size());
  size_t lines = 0;
  while (true) {
    const size_t end = rest.find('\n');
    IsProblem(rest.substr(0, end));
    ++lines;
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  Require(lines <= kMaxLines, "not too many problems are told");
}

void KeepsTheRules(const core::Policy& policy) {
  const core::Terms& terms = policy.terms;
  const bool leases = policy.default_lease > Duration::zero() &&
                      policy.default_lease <= policy.max_lease &&
                      policy.default_lease <= policy.max_hold;
  Require(leases, "leases agree");
  Require(terms.retention >= Duration::zero() && terms.retention <= policy.max_retention &&
              policy.max_retention <= core::kMaxPolicyDuration,
          "retentions agree");
  Require(terms.initial_backoff >= Duration::zero() && terms.initial_backoff <= terms.max_backoff,
          "backoffs agree");
  Require(policy.max_key_bytes >= 1 && policy.max_key_bytes <= core::kMaxKeyBytes,
          "keys have a length");
  Require(policy.max_response_bytes <= core::kMaxResponseBytes, "bodies have a limit");
  if (terms.unknown_outcome == core::UnknownOutcome::kRetrySameKey) {
    Require(terms.protection_window > Duration::zero() && terms.max_attempts > 0,
            "RETRY_SAME_KEY says for how long and how often");
  }
}

void KeepsTheRules(const Config& config) {
  for (const std::string& name : config.Names()) {
    Require(service::IsNamespaceName(name), "a namespace has a name");
    Require(config.Find(name) != nullptr && config.Accepts(name), "what is listed is accepted");
    KeepsTheRules(*config.PolicyFor(name));
    Require(service::ToProto(config.Describe(name)).name() == name, "a namespace is shown");
  }
  KeepsTheRules(*config.PolicyFor("not-listed-anywhere"));
  const service::ServerLimits& limits = config.limits();
  Require(limits.max_waiters_per_key <= limits.max_waiters && limits.max_queued_commands > 0,
          "limits agree");
}

}  // namespace
}  // namespace idempotency::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace idempotency;
  const auto config = service::Config::LoadText(fuzz::AsText(data, size), fuzz::kFile);
  config.ok() ? fuzz::KeepsTheRules(**config) : fuzz::AreProblems(config.status());
  return 0;
}
