// A server as a child process, outside of any test framework: idempotencyd (the one that the
// environment variable IDEMPOTENCYD names, else the one beside this program), or another program
// that takes the same flags.
//
// Thread safety: Connect, Signal and port may be called from any thread, the rest from one.
#ifndef IDEMPOTENCY_TESTS_PROOF_CRASH_DAEMON_H_
#define IDEMPOTENCY_TESTS_PROOF_CRASH_DAEMON_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "tests/support/temp_directory.h"

namespace idempotency::proof {

// Of a program that is built beside this one.
std::string BesideThis(const std::string& name);

class Daemon {
 public:
  Daemon(std::string program, std::vector<std::string> flags);
  // Kills it if it still runs.
  ~Daemon();

  // idempotencyd.
  static std::string Program();

  // "" once it answers; else what it says.
  std::string Start();
  void Signal(int signal) const;
  // -1 while it does not run.
  pid_t pid() const { return pid_; }
  // Waits until it ends by itself, and gives its exit code; 128 + the signal that killed it.
  int Wait();
  int Kill();
  std::shared_ptr<grpc::Channel> Connect() const;
  // Another one after each start.
  int port() const { return port_; }
  std::string Log() const;

 private:
  const std::string program_;
  const std::vector<std::string> flags_;
  TempDirectory files_;
  pid_t pid_ = -1;
  int port_ = 0;
};

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_CRASH_DAEMON_H_
