// The real clock, random numbers, environment, streams and signals; everything else is RunTool.
#include <signal.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
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
  const ExitCode code =
      idempotency::ctl::RunTool(std::vector<std::string>(argv + 1, argv + argc), system);
  if (code == ExitCode::kInterrupted) {
    // Ends by the signal itself, so that the shell stops the script that called.
    signal(interrupt.signal(), SIG_DFL);
    raise(interrupt.signal());
  }
  return static_cast<int>(code);
}
