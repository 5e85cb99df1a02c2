// The whole tool but its main: parses the words, runs the command, says how it ended.
#ifndef IDEMPOTENCY_CLIENT_CTL_RUN_H_
#define IDEMPOTENCY_CLIENT_CTL_RUN_H_

#include <string>
#include <vector>

#include "client/ctl/exit_code.h"
#include "client/ctl/system.h"

namespace idempotency::ctl {

// `words`: the arguments after the program's name.
ExitCode RunTool(const std::vector<std::string>& words, const System& system);

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_RUN_H_
