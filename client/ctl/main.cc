// The real clock, random numbers, environment, streams and signals; everything else is RunTool.
#include <poll.h>
#include <signal.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/time/clock.h"
#include "client/ctl/run.h"

namespace {

using idempotency::ctl::ExitCode;
using idempotency::ctl::Interrupt;
using idempotency::ctl::System;

constexpr size_t kAttemptIdRandomBytes = 16;

// For the signal handler; set before it is.
Interrupt* interrupted = nullptr;

void OnSignal(int signal) { interrupted->Trigger(signal); }

void HandleSignals() {
  struct sigaction action = {};
  action.sa_handler = &OnSignal;
  // A second Ctrl-C ends the process at once.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A reader that went away is noticed when its pipe takes no more.
  signal(SIGPIPE, SIG_IGN);
}

std::string NewAttemptId() {
  std::array<char, kAttemptIdRandomBytes> bytes;
  size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = getrandom(bytes.data() + have, bytes.size() - have, 0);
    if (got > 0) {
      have += static_cast<size_t>(got);
    } else if (errno != EINTR) {
      // A guessable attempt id could pass for another's: go no further.
      std::perror("idempotencyctl: the system gives no random bytes");
      std::abort();
    }
  }
  return absl::BytesToHexString(absl::string_view(bytes.data(), bytes.size()));
}

// Beside this program first: they are installed together.
std::string Become(const std::string& program, const std::vector<std::string>& words) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  std::vector<char*> arguments = {const_cast<char*>(program.c_str())};
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  // What this process does with signals is not what that one has to.
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  signal(SIGPIPE, SIG_DFL);
  if (!error) execv((self.parent_path() / program).c_str(), arguments.data());
  execvp(program.c_str(), arguments.data());
  return std::strerror(errno);
}

std::optional<std::string> Environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  Interrupt interrupt;
  interrupted = &interrupt;
  HandleSignals();
  System system;
  system.now = [] { return absl::Now(); };
  system.new_attempt_id = &NewAttemptId;
  system.env = &Environment;
  system.in = &std::cin;
  system.out = &std::cout;
  system.err = &std::cerr;
  system.interrupt = &interrupt;
  system.pause = [&interrupt](absl::Duration span) {
    pollfd fd{interrupt.fd(), POLLIN, 0};
    poll(&fd, 1, static_cast<int>(absl::ToInt64Milliseconds(span)));
  };
  system.terminal = isatty(STDERR_FILENO) == 1;
  system.screen = isatty(STDOUT_FILENO) == 1;
  system.become = &Become;
  const ExitCode code =
      idempotency::ctl::RunTool(std::vector<std::string>(argv + 1, argv + argc), system);
  if (code == ExitCode::kInterrupted) {
    // Ends by the signal itself, so that the shell stops the script that called.
    signal(interrupt.signal(), SIG_DFL);
    raise(interrupt.signal());
  }
  return static_cast<int>(code);
}
