// What the tool asks of the machine that it runs on. Only main.cc has the real one; everything
// else is given this, so that a test can say what time it is and what is random.
#ifndef IDEMPOTENCY_CLIENT_CTL_SYSTEM_H_
#define IDEMPOTENCY_CLIENT_CTL_SYSTEM_H_

#include <functional>
#include <istream>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

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
  // Waits so long, or for the interrupt.
  std::function<void(absl::Duration)> pause;
  // Standard error is a terminal: one line may be written over again.
  bool terminal = false;
  // Standard output is one.
  bool screen = false;
  // Goes on as the program of this name, found beside this one or in $PATH. Returns only where that
  // cannot be done, and says why.
  std::function<std::string(const std::string& program, const std::vector<std::string>& words)>
      become;
};

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_SYSTEM_H_
