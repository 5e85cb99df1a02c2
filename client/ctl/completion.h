// Shell completion, made from the commands and options that the parser knows.
#ifndef IDEMPOTENCY_CLIENT_CTL_COMPLETION_H_
#define IDEMPOTENCY_CLIENT_CTL_COMPLETION_H_

#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace idempotency::ctl {

// A script for "bash", "zsh" or "fish" that completes commands and options; empty for another
// shell.
std::string CompletionScript(const CLI::App& app, std::string_view shell);

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_COMPLETION_H_
