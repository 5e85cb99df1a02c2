// The namespaces of the network proof: one for each thing that may become of an unknown outcome.
//
// Every span of time in them, and of what is asked in them, is either far, so that nothing of a
// run ever sees its end, or short, so that its end may come before any command: when, nobody here
// knows. To the state machine all short spans are kModelShort; its time moves only where a short
// span ends.
#ifndef IDEMPOTENCY_TESTS_PROOF_NETWORK_SPACES_H_
#define IDEMPOTENCY_TESTS_PROOF_NETWORK_SPACES_H_

#include <string>
#include <vector>

#include "keystore/core/policy.h"
#include "keystore/core/time.h"

namespace idempotency::proof::network {

// Below this a span is short.
inline constexpr core::Duration kShortBelow = std::chrono::seconds(1);
// Many of them are less than anything that is far, the memory of freed keys included.
inline constexpr core::Duration kModelShort = std::chrono::seconds(1);
inline constexpr core::Duration kFar = std::chrono::hours(1);

core::Duration ModelSpan(core::Duration real);

struct Space {
  std::string name;
  // As the state machine is told.
  core::Policy policy;
  // Of an answer, really.
  core::Duration retention;
};

// The same for the whole process.
const std::vector<Space>& Spaces();
const Space& SpaceNamed(const std::string& name);

// The configuration file of the server.
std::string SpacesAsYaml();

}  // namespace idempotency::proof::network

#endif  // IDEMPOTENCY_TESTS_PROOF_NETWORK_SPACES_H_
