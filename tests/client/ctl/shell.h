// What bash makes of a command line: the judge of every command that the tool prints.
#ifndef IDEMPOTENCY_TESTS_CLIENT_CTL_SHELL_H_
#define IDEMPOTENCY_TESTS_CLIENT_CTL_SHELL_H_

#include <string>
#include <vector>

namespace idempotency::ctl {

// The words that bash hands to the program, the program's name left out.
std::vector<std::string> WordsOf(const std::string& command_line);

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_TESTS_CLIENT_CTL_SHELL_H_
