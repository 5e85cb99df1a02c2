#include "tests/support/flaky_proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <deque>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace idempotency::testing {
namespace {

// What is under way in one direction may not grow beyond.
constexpr size_t kMaxUnderWay = 1 << 20;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int Socket() { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }

void Prepare(int fd) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

struct Chunk {
  int64_t due_ms = 0;
  std::string bytes;
};

// Bytes on their way from one socket to the other.
struct Direction {
  int from = -1;
  int to = -1;
  bool silent = false;
  bool ended = false;  // nothing more comes
  std::deque<Chunk> chunks;
  size_t under_way = 0;

  bool wants_more() const { return !ended && under_way < kMaxUnderWay; }
  // False: the other side is gone.
  bool Write(int64_t now_ms);
};

bool Direction::Write(int64_t now_ms) {
  while (!chunks.empty() && chunks.front().due_ms <= now_ms) {
    std::string& bytes = chunks.front().bytes;
    const ssize_t sent = send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    under_way -= static_cast<size_t>(sent);
    bytes.erase(0, static_cast<size_t>(sent));
    if (!bytes.empty()) return true;
    chunks.pop_front();
  }
  if (ended && chunks.empty()) shutdown(to, SHUT_WR);
  return true;
}

}  // namespace

struct FlakyProxy::Link {
  Direction up;
  Direction down;
  // Until it falls silent.
  std::optional<size_t> bytes_left;
  int64_t cut_at_ms = kNever;

  ~Link() {
    close(up.from);
    close(up.to);
  }
};

FlakyProxy::FlakyProxy(int server_port, FlakyScript script)
    : script_(script), server_port_(server_port), random_(script.seed) {
  listener_ = Socket();
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof address;
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0) std::abort();
  if (listen(listener_, 128) != 0) std::abort();
  getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  Prepare(listener_);

  clock_ = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  const timespec millisecond{.tv_sec = 0, .tv_nsec = 1'000'000};
  const itimerspec every{.it_interval = millisecond, .it_value = millisecond};
  timerfd_settime(clock_, 0, &every, nullptr);
  thread_ = std::thread([this] { Loop(); });
}

FlakyProxy::~FlakyProxy() {
  stop_ = true;
  thread_.join();
  links_.clear();
  close(listener_);
  close(clock_);
}

void FlakyProxy::Loop() {
  while (!stop_) {
    std::vector<pollfd> fds{{clock_, POLLIN, 0}, {listener_, POLLIN, 0}};
    for (const Link& link : links_) {
      for (const Direction* direction : {&link.up, &link.down}) {
        fds.push_back(
            {direction->from, static_cast<short>(direction->wants_more() ? POLLIN : 0), 0});
      }
    }
    poll(fds.data(), fds.size(), -1);
    uint64_t ticks = 0;
    if (read(clock_, &ticks, sizeof ticks) == sizeof ticks) now_ms_ += static_cast<int64_t>(ticks);
    size_t next = 2;
    for (auto link = links_.begin(); link != links_.end();) {
      const bool client_ready = fds[next].revents != 0;
      const bool server_ready = fds[next + 1].revents != 0;
      next += 2;
      Serve(*link, client_ready, server_ready);
      link = Pump(*link) ? std::next(link) : links_.erase(link);
    }
    if (fds[1].revents != 0) Accept();
  }
}

void FlakyProxy::Accept() {
  const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (client < 0) return;
  const int server = Socket();
  const sockaddr_in address = Loopback(server_port_);
  // Loopback: it is there at once, or refused.
  if (connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    close(server);
    close(client);
    return;
  }
  Prepare(client);
  Prepare(server);
  ++connections_;
  Link& link = links_.emplace_back();
  link.up.from = link.down.to = client;
  link.up.to = link.down.from = server;
  if (calm_ || script_.cut_after_bytes == 0) return;
  const size_t mean = script_.cut_after_bytes;
  link.bytes_left = std::uniform_int_distribution<size_t>(mean / 2, mean + mean / 2)(random_);
}

void FlakyProxy::Serve(Link& link, bool client_ready, bool server_ready) {
  for (Direction* direction : {&link.up, &link.down}) {
    const bool ready = direction == &link.up ? client_ready : server_ready;
    if (!ready || direction->ended) continue;
    std::array<char, 16 * 1024> buffer;
    const ssize_t got = recv(direction->from, buffer.data(), buffer.size(), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) {
      direction->ended = true;
      continue;
    }
    const auto size = static_cast<size_t>(got);
    if (direction->silent) continue;
    Chunk chunk{.due_ms = now_ms_, .bytes = std::string(buffer.data(), size)};
    // What comes later does not overtake.
    if (!direction->chunks.empty()) chunk.due_ms = direction->chunks.back().due_ms;
    if (!calm_ && std::bernoulli_distribution(script_.delayed)(random_)) {
      chunk.due_ms += std::uniform_int_distribution<int>(1, script_.delay_ms_max)(random_);
    }
    direction->chunks.push_back(std::move(chunk));
    direction->under_way += size;
    if (link.bytes_left.has_value()) *link.bytes_left -= std::min(*link.bytes_left, size);
  }
}

bool FlakyProxy::Pump(Link& link) {
  if (link.bytes_left == 0 && link.cut_at_ms == kNever) {
    // Requests, answers, or both.
    const int what = std::uniform_int_distribution<int>(0, 2)(random_);
    for (Direction* direction : {&link.up, &link.down}) {
      const bool goes_on = what == (direction == &link.up ? 1 : 2);
      if (goes_on) continue;
      direction->silent = true;
      direction->chunks.clear();
      direction->under_way = 0;
    }
    link.cut_at_ms =
        now_ms_ + std::uniform_int_distribution<int>(0, script_.silent_ms_max)(random_);
  }
  if (now_ms_ >= link.cut_at_ms) {
    ++cuts_;
    return false;
  }
  if (!link.up.Write(now_ms_) || !link.down.Write(now_ms_)) return false;
  return !(link.up.ended && link.down.ended && link.up.chunks.empty() && link.down.chunks.empty());
}

}  // namespace idempotency::testing
