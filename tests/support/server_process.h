// The real idempotencyd as a child process, for tests from outside. The binary is the one named
// by the environment variable IDEMPOTENCYD.
//
//   ServerProcess server({"--data_dir=" + dir + "/store"});
//   auto stub = v1::IdempotencyService::NewStub(server.Channel());
//   server.Kill();               // kill -9; Start() brings it back on the same store
//
// Thread safety: none.
#ifndef IDEMPOTENCY_TESTS_SUPPORT_SERVER_PROCESS_H_
#define IDEMPOTENCY_TESTS_SUPPORT_SERVER_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "tests/support/temp_directory.h"

namespace idempotency::testing {

class ServerProcess {
 public:
  // Starts it with these flags, --listen=127.0.0.1:0 and a port file, and waits until it
  // answers. Fails the test where it does not.
  explicit ServerProcess(std::vector<std::string> flags);
  // Kills it if it still runs.
  ~ServerProcess();

  void Start();
  // kill -9, and waits for its end.
  void Kill();
  // SIGTERM; its exit code.
  int Terminate();
  // Waits until it ends by itself; its exit code.
  int Wait();
  void Signal(int signal);
  // A fresh connection to the running process.
  std::shared_ptr<grpc::Channel> Channel() const;
  // What it has written to standard error since the object was made.
  std::string Log() const;
  int port() const { return port_; }
  pid_t pid() const { return pid_; }

 private:
  const std::vector<std::string> flags_;
  TempDirectory files_;
  pid_t pid_ = -1;
  int port_ = 0;
};

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_SERVER_PROCESS_H_
