#include "tests/proof/network/spaces.h"

#include <algorithm>

#include "keystore/core/names.h"

namespace idempotency::proof::network {
namespace {

using std::chrono::milliseconds;

// What all have in common: nothing but short retention ends within a run.
Space Make(std::string name, core::UnknownOutcome unknown_outcome) {
  Space space{.name = std::move(name), .policy = {}, .retention = core::kDay};
  space.policy.terms.unknown_outcome = unknown_outcome;
  space.policy.terms.settle = milliseconds(0);
  space.policy.terms.initial_backoff = milliseconds(0);
  space.policy.terms.max_backoff = milliseconds(0);
  return space;
}

std::vector<Space> MakeSpaces() {
  Space reconcile = Make("reconcile", core::UnknownOutcome::kReconcileFirst);
  Space unsettled = Make("unsettled", core::UnknownOutcome::kReconcileFirst);
  unsettled.policy.terms.settle = kFar;
  Space retry = Make("retry", core::UnknownOutcome::kRetrySameKey);
  Space backoff = Make("backoff", core::UnknownOutcome::kRetrySameKey);
  backoff.policy.terms.initial_backoff = backoff.policy.terms.max_backoff = kFar;
  backoff.policy.terms.settle = kFar;
  for (Space* space : {&retry, &backoff}) {
    space->policy.terms.protection_window = 100 * core::kDay;
    space->policy.terms.max_attempts = 4;
  }
  Space rerun = Make("rerun", core::UnknownOutcome::kRerun);
  rerun.policy.fingerprint_optional = true;
  Space active = Make("active", core::UnknownOutcome::kRerun);
  active.retention = milliseconds(0);
  Space fleeting = Make("fleeting", core::UnknownOutcome::kReconcileFirst);
  fleeting.retention = milliseconds(25);
  std::vector<Space> spaces{reconcile, unsettled, retry, backoff, rerun, active, fleeting};
  for (Space& space : spaces) space.policy.terms.retention = ModelSpan(space.retention);
  return spaces;
}

std::string Ms(core::Duration span) { return std::to_string(span.count()) + "ms"; }

}  // namespace

core::Duration ModelSpan(core::Duration real) {
  return real > core::Duration::zero() && real < kShortBelow ? kModelShort : real;
}

const std::vector<Space>& Spaces() {
  static const std::vector<Space>* const kSpaces = new std::vector<Space>(MakeSpaces());
  return *kSpaces;
}

const Space& SpaceNamed(const std::string& name) {
  return *std::find_if(Spaces().begin(), Spaces().end(),
                       [&](const Space& space) { return space.name == name; });
}

std::string SpacesAsYaml() {
  std::string yaml = "namespaces:\n";
  for (const Space& space : Spaces()) {
    const core::Terms& terms = space.policy.terms;
    yaml += "  - name: " + space.name + "\n";
    yaml += "    unknown_outcome: " + std::string(core::Name(terms.unknown_outcome)) + "\n";
    yaml += "    retention: " + Ms(space.retention) + "\n";
    yaml += "    settle_duration: " + Ms(terms.settle) + "\n";
    yaml += "    initial_backoff: " + Ms(terms.initial_backoff) + "\n";
    yaml += "    max_backoff: " + Ms(terms.max_backoff) + "\n";
    if (space.policy.fingerprint_optional) yaml += "    fingerprint_optional: true\n";
    if (terms.unknown_outcome != core::UnknownOutcome::kRetrySameKey) continue;
    yaml += "    protection_window: " + Ms(terms.protection_window) + "\n";
    yaml += "    max_attempts: " + std::to_string(terms.max_attempts) + "\n";
  }
  return yaml;
}

}  // namespace idempotency::proof::network
