#include "client/ctl/command_line.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "client/ctl/printable.h"

namespace idempotency::ctl {
namespace {

std::string ProgramFor(const Target& target) {
  std::string start = "idempotencyctl";
  if (target.server != kDefaultServer) start += " --server=" + ShellQuote(target.server);
  if (target.tls) start += " --tls";
  const std::pair<const char*, const std::string&> options[] = {{"ca", target.ca_file},
                                                                {"cert", target.certificate_file},
                                                                {"key", target.key_file},
                                                                {"server-name", target.server_name},
                                                                {"token-file", target.token_file}};
  for (const auto& [name, value] : options) {
    if (!value.empty()) start += " --" + std::string(name) + "=" + ShellQuote(value);
  }
  return start;
}

std::string Join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += " " + word;
  return text;
}

}  // namespace

CommandLine::CommandLine(const Target& target, std::string_view verb)
    : start_(ProgramFor(target) + " " + std::string(verb)) {}

CommandLine& CommandLine::Flag(std::string_view name, std::string_view value) {
  flags_.push_back("--" + std::string(name) + "=" + ShellQuote(value));
  return *this;
}

CommandLine& CommandLine::OptionalFlag(std::string_view name, std::string_view value) {
  return value.empty() ? *this : Flag(name, value);
}

CommandLine& CommandLine::Switch(std::string_view name) {
  flags_.push_back("--" + std::string(name));
  return *this;
}

CommandLine& CommandLine::Operand(std::string_view text) {
  const bool plain = text.empty() || (text[0] != '-' && text[0] != '+');
  fenced_ = fenced_ || !plain;
  operands_.push_back(ShellQuote(text));
  return *this;
}

CommandLine& CommandLine::Id(const v1::OperationId& id) {
  return Operand(id.namespace_()).Operand(id.scope()).Operand(id.key());
}

std::string CommandLine::ToString() const {
  if (fenced_) return start_ + Join(flags_) + " --" + Join(operands_);
  return start_ + Join(operands_) + Join(flags_);
}

std::string SameCommand(std::string_view server, const std::vector<std::string>& words) {
  // Where the server came from the environment, the command must still reach it elsewhere.
  const bool named = std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return word.rfind("--server", 0) == 0;
  });
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(ShellQuote(word));
  return ProgramFor(named ? std::string(kDefaultServer) : std::string(server)) + Join(quoted);
}

}  // namespace idempotency::ctl
