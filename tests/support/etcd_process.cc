#include "tests/support/etcd_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>

#include "tests/support/free_port.h"

namespace idempotency {
namespace {

constexpr int kStartMs = 60'000;
constexpr int kPollMs = 20;

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// -1: it does not accept.
int Connect(const std::string& endpoint) {
  const int port = std::atoi(endpoint.c_str() + endpoint.rfind(':') + 1);
  const sockaddr_in address = Loopback(port);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return fd;
  close(fd);
  return -1;
}

bool Accepts(const std::string& endpoint) {
  const int fd = Connect(endpoint);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

}  // namespace

bool EtcdPost(const std::string& endpoint, const std::string& path, const std::string& json) {
  const std::string request = "POST " + path +
                              " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                              "Content-Length: " +
                              std::to_string(json.size()) + "\r\n\r\n" + json;
  const int fd = Connect(endpoint);
  if (fd < 0) return false;
  std::string answer;
  if (send(fd, request.data(), request.size(), MSG_NOSIGNAL) ==
      static_cast<ssize_t>(request.size())) {
    char bytes[4096];
    for (ssize_t got = 0; (got = recv(fd, bytes, sizeof(bytes), 0)) > 0;) {
      answer.append(bytes, static_cast<size_t>(got));
    }
  }
  close(fd);
  return answer.rfind("HTTP/1.1 200", 0) == 0;
}

void WaitABit(int milliseconds) { poll(nullptr, 0, milliseconds); }

EtcdMember::EtcdMember(std::string endpoint, std::vector<std::string> arguments)
    : endpoint_(std::move(endpoint)), arguments_(std::move(arguments)) {}

EtcdMember::~EtcdMember() { Kill(); }

void EtcdMember::Start() {
  std::vector<std::string> arguments{"etcd", "--data-dir=" + data_dir()};
  arguments.insert(arguments.end(), arguments_.begin(), arguments_.end());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const std::string log_file = files_.file("log");
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int log = open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execvp("etcd", argv.data());
    std::perror("etcd (run deploy/install_deps.sh test)");
    _exit(127);
  }
}

void EtcdMember::Signal(int number) {
  if (pid_ > 0) kill(pid_, number);
}

void EtcdMember::Kill() {
  Signal(SIGKILL);
  if (pid_ <= 0) return;
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

std::string EtcdMember::Log() const {
  std::ifstream in(files_.file("log"), std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

EtcdCluster::EtcdCluster(size_t members, const std::vector<std::string>& more) {
  std::vector<std::string> clients;
  std::vector<std::string> peers;
  std::string all;
  for (size_t i = 0; i < members; ++i) {
    clients.push_back("127.0.0.1:" + std::to_string(FreePort()));
    peers.push_back("http://127.0.0.1:" + std::to_string(FreePort()));
    all += (i == 0 ? "m" : ",m") + std::to_string(i) + "=" + peers.back();
  }
  const bool tls = std::any_of(more.begin(), more.end(), [](const std::string& argument) {
    return argument.rfind("--cert-file=", 0) == 0;
  });
  const std::string scheme = tls ? "https://" : "http://";
  for (size_t i = 0; i < members; ++i) {
    std::vector<std::string> arguments{"--name=m" + std::to_string(i),
                                       "--listen-client-urls=" + scheme + clients[i],
                                       "--advertise-client-urls=" + scheme + clients[i],
                                       "--listen-peer-urls=" + peers[i],
                                       "--initial-advertise-peer-urls=" + peers[i],
                                       "--initial-cluster=" + all,
                                       "--initial-cluster-token=" + peers[0],
                                       "--logger=zap",
                                       "--log-level=error"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    members_.push_back(std::make_unique<EtcdMember>(clients[i], std::move(arguments)));
    members_.back()->Start();
  }
  for (const auto& member : members_) {
    int ms = 0;
    for (; ms < kStartMs && !Accepts(member->endpoint()); ms += kPollMs) WaitABit(kPollMs);
    if (ms >= kStartMs) {
      std::fprintf(stderr, "etcd does not start; it says:\n%s\n", member->Log().c_str());
      std::abort();
    }
  }
}

std::vector<std::string> EtcdCluster::endpoints() const {
  std::vector<std::string> endpoints;
  for (const auto& member : members_) endpoints.push_back(member->endpoint());
  return endpoints;
}

std::string EtcdCluster::endpoints_flag() const {
  std::string flag;
  for (const auto& member : members_) flag += (flag.empty() ? "" : ",") + member->endpoint();
  return flag;
}

}  // namespace idempotency
