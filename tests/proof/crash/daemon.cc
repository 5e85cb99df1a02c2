#include "tests/proof/crash/daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

namespace idempotency::proof {
namespace {

// Long enough for a slow machine to recover a store; a healthy one takes a fraction.
constexpr int kStartMs = 60'000;
constexpr int kPollMs = 5;

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace

std::string BesideThis(const std::string& name) {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / name;
}

Daemon::Daemon(std::string program, std::vector<std::string> flags)
    : program_(std::move(program)), flags_(std::move(flags)) {}

Daemon::~Daemon() { Kill(); }

std::string Daemon::Program() {
  const char* named = std::getenv("IDEMPOTENCYD");
  return named != nullptr ? named : BesideThis("idempotencyd");
}

std::string Daemon::Start() {
  const std::string port_file = files_.file("port");
  const std::string log_file = files_.file("log");
  std::filesystem::remove(port_file);
  std::filesystem::remove(log_file);
  std::vector<std::string> arguments{program_, "--listen=127.0.0.1:0", "--port_file=" + port_file};
  arguments.insert(arguments.end(), flags_.begin(), flags_.end());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int log = open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(log, STDERR_FILENO);
    execv(program_.c_str(), argv.data());
    _exit(127);
  }
  if (pid_ < 0) return "no process";
  port_ = 0;
  // Readable as soon as the process has ended; until then its port file may appear.
  pollfd ended{.fd = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)), .events = POLLIN};
  for (int ms = 0; ms < kStartMs && port_ == 0 && ended.revents == 0; ms += kPollMs) {
    poll(&ended, 1, kPollMs);
    port_ = std::atoi(ReadFile(port_file).c_str());
  }
  close(ended.fd);
  if (port_ != 0) return "";
  if (ended.revents == 0) return "the server has not started after a minute; it says:\n" + Log();
  return "the server ended with " + std::to_string(Wait()) + " when it was started; it says:\n" +
         Log();
}

void Daemon::Signal(int signal) const {
  // Where it did not start, -1 would mean every process there is.
  if (pid_ > 0) kill(pid_, signal);
}

int Daemon::Wait() {
  if (pid_ <= 0) return -1;
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int Daemon::Kill() {
  Signal(SIGKILL);
  return Wait();
}

std::shared_ptr<grpc::Channel> Daemon::Connect() const {
  grpc::ChannelArguments arguments;
  // Each its own connection, as from another process.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port_),
                                   grpc::InsecureChannelCredentials(), arguments);
}

std::string Daemon::Log() const { return ReadFile(files_.file("log")); }

}  // namespace idempotency::proof
