// A command line of this tool, built piece by piece, that can be pasted into a shell and means
// exactly what it says: every word is quoted, and operands that look like options are fenced off.
//
//   CommandLine("127.0.0.1:7420", "inspect").Id(id).ToString()
//     -> idempotencyctl inspect payments acct-1 order-7
#ifndef IDEMPOTENCY_CLIENT_CTL_COMMAND_LINE_H_
#define IDEMPOTENCY_CLIENT_CTL_COMMAND_LINE_H_

#include <string>
#include <string_view>
#include <vector>

#include "client/ctl/target.h"
#include "idempotency/v1/operation.pb.h"

namespace idempotency::ctl {

class CommandLine {
 public:
  // The server is named in the command unless it is the default one, and so is what it takes to
  // reach it. `verb` may be two words ("resolve completed").
  CommandLine(const Target& target, std::string_view verb);

  CommandLine& Flag(std::string_view name, std::string_view value);
  // Left out where the value is empty.
  CommandLine& OptionalFlag(std::string_view name, std::string_view value);
  CommandLine& Switch(std::string_view name);
  CommandLine& Operand(std::string_view text);
  CommandLine& Id(const v1::OperationId& id);

  std::string ToString() const;

 private:
  std::string start_;
  std::vector<std::string> flags_;
  std::vector<std::string> operands_;
  // An operand starts with something that a parser could take for an option.
  bool fenced_ = false;
};

// The command line that this process was started with, fit to be pasted again. `words` are the
// arguments after the program's name.
std::string SameCommand(std::string_view server, const std::vector<std::string>& words);

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_COMMAND_LINE_H_
