// What the tool asks of the machine that it runs on. Only main.cc has the real one; everything
// else is given this, so that a test can say what time it is and what is random.
#ifndef IDEMPOTENCY_CLIENT_CTL_SYSTEM_H_
#define IDEMPOTENCY_CLIENT_CTL_SYSTEM_H_

#include <functional>
#include <istream>
#include <optional>
#include <ostream>
#include <string>

#include "absl/time/time.h"
#include "client/ctl/interrupt.h"

namespace idempotency::ctl {

struct System {
  std::function<absl::Time()> now;
  // 16-64 bytes of printable text that nobody can guess, new each time.
  std::function<std::string()> new_attempt_id;
  // An environment variable; nothing where it is not set.
  std::function<std::optional<std::string>(const std::string& name)> env;
  // Not owned; all set.
  std::istream* in = nullptr;
  std::ostream* out = nullptr;
  std::ostream* err = nullptr;
  const Interrupt* interrupt = nullptr;
};

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_SYSTEM_H_
