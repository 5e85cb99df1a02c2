#include "tests/support/server_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace idempotency::testing {
namespace {

// Long enough for a slow machine to recover a store; a healthy one takes a fraction.
constexpr int kStartMs = 60'000;
constexpr int kPollMs = 20;

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace

ServerProcess::ServerProcess(std::vector<std::string> flags) : flags_(std::move(flags)) { Start(); }

ServerProcess::~ServerProcess() { Kill(); }

void ServerProcess::Start() {
  const char* binary = std::getenv("IDEMPOTENCYD");
  ASSERT_NE(binary, nullptr) << "set IDEMPOTENCYD to the binary; tests/run.sh does";
  const std::string port_file = files_.path() + "/port";
  const std::string log_file = files_.path() + "/log";
  std::filesystem::remove(port_file);
  std::vector<std::string> arguments{binary, "--listen=127.0.0.1:0", "--port_file=" + port_file};
  arguments.insert(arguments.end(), flags_.begin(), flags_.end());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_ = fork();
  ASSERT_GE(pid_, 0);
  if (pid_ == 0) {
    // A test that is aborted leaves nothing behind, nor anybody waiting for the end of its output.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int log = open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(log, STDERR_FILENO);
    execv(binary, argv.data());
    _exit(127);
  }
  port_ = 0;
  // Readable as soon as the process has ended; until then its port file may appear.
  pollfd ended{.fd = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)), .events = POLLIN};
  for (int ms = 0; ms < kStartMs && port_ == 0 && ended.revents == 0; ms += kPollMs) {
    poll(&ended, 1, kPollMs);
    port_ = std::atoi(ReadFile(port_file).c_str());
  }
  close(ended.fd);
  ASSERT_NE(port_, 0) << "the server did not start; it says:\n" << Log();
}

int ServerProcess::Wait() {
  if (pid_ <= 0) return -1;
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void ServerProcess::Kill() {
  Signal(SIGKILL);
  Wait();
}

int ServerProcess::Terminate() {
  Signal(SIGTERM);
  return Wait();
}

void ServerProcess::Signal(int signal) {
  // Where it did not start, -1 would mean every process there is.
  if (pid_ > 0) kill(pid_, signal);
}

std::shared_ptr<grpc::Channel> ServerProcess::Channel() const {
  grpc::ChannelArguments arguments;
  // Each its own connection, as from another process.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port_),
                                   grpc::InsecureChannelCredentials(), arguments);
}

std::string ServerProcess::Log() const { return ReadFile(files_.path() + "/log"); }

}  // namespace idempotency::testing
