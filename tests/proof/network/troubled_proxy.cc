#include "tests/proof/network/troubled_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>
#include <utility>

#include "keystore/clock.h"

namespace idempotency::proof::network {
namespace {

// What is under way in one direction may not grow beyond.
constexpr size_t kMaxUnderWay = 1 << 20;
constexpr int64_t kNoEnd = std::numeric_limits<int64_t>::max();

// Elapsed time: nothing is decided by it but how long bytes are held.
int64_t NowMs() { return keystore::ReadKernelTime().boot.count(); }

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int Socket() { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

void Hurry(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

void Require(bool ok, const char* what) {
  if (ok) return;
  std::perror(what);
  std::abort();
}

}  // namespace

std::string_view Name(Trouble trouble) {
  constexpr std::string_view kNames[kTroubles] = {
      "no trouble",     "drop",       "delay",      "cut in a request",
      "cut in a reply", "black hole", "lost reply", "connection reset"};
  return kNames[static_cast<size_t>(trouble)];
}

// Bytes on their way from one socket to the other.
struct TroubledProxy::Way {
  struct Chunk {
    int64_t due_ms = 0;
    std::string bytes;
  };
  int from = -1;
  int to = -1;
  bool deaf = false;   // what comes is thrown away
  bool ended = false;  // nothing more comes
  bool shut = false;   // and that was passed on
  int64_t held_until_ms = 0;
  std::deque<Chunk> chunks;
  size_t under_way = 0;

  bool due(int64_t now_ms) const { return !chunks.empty() && chunks.front().due_ms <= now_ms; }
  bool Write(int64_t now_ms);
};

// Everything that is due, or as much as the socket takes. False: the other end is gone.
bool TroubledProxy::Way::Write(int64_t now_ms) {
  while (due(now_ms)) {
    std::string& bytes = chunks.front().bytes;
    const ssize_t sent = send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    under_way -= static_cast<size_t>(sent);
    bytes.erase(0, static_cast<size_t>(sent));
    if (!bytes.empty()) return true;
    chunks.pop_front();
  }
  if (ended && chunks.empty() && !shut) {
    shutdown(to, SHUT_WR);
    shut = true;
  }
  return true;
}

// What epoll hands back.
struct TroubledProxy::End {
  Link* link = nullptr;
  Way* reads = nullptr;
  Way* writes = nullptr;
  int fd = -1;
  uint32_t watched = 0;
};

struct TroubledProxy::Link {
  uint64_t number = 0;
  int client = -1;
  int server = -1;
  Way request;
  Way reply;
  End ends[2];
  Fate fate;
  uint64_t bytes = 0;
  int64_t end_ms = kNoEnd;
  bool over = false;
  bool reset = false;
};

TroubledProxy::TroubledProxy(size_t groups, Draw draw) : groups_(groups), draw_(std::move(draw)) {
  listener_ = Socket();
  sockaddr_in address = Loopback(0);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  Require(bind(listener_, any, sizeof address) == 0 && listen(listener_, SOMAXCONN) == 0, "listen");
  socklen_t size = sizeof address;
  Require(getsockname(listener_, any, &size) == 0, "getsockname");
  port_ = ntohs(address.sin_port);
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  Require(epoll_ >= 0 && wake_ >= 0, "epoll");
  for (int* fd : {&listener_, &wake_}) {
    epoll_event event{.events = EPOLLIN, .data = {.ptr = fd}};
    Require(epoll_ctl(epoll_, EPOLL_CTL_ADD, *fd, &event) == 0, "epoll_ctl");
  }
  thread_ = std::thread([this] { Loop(); });
}

TroubledProxy::~TroubledProxy() {
  stop_ = true;
  const uint64_t one = 1;
  Require(write(wake_, &one, sizeof one) == sizeof one, "eventfd");
  thread_.join();
  for (Link& link : links_) link.over = true;
  Bury();
  for (const int fd : {listener_, epoll_, wake_}) close(fd);
}

void TroubledProxy::Loop() {
  std::array<epoll_event, 64> events;
  while (!stop_) {
    const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), WaitMs());
    now_ms_ = NowMs();
    for (int i = 0; i < count; ++i) {
      void* const what = events[static_cast<size_t>(i)].data.ptr;
      if (what == &listener_) Accept();
      if (what == &listener_ || what == &wake_) continue;
      const End& end = *static_cast<End*>(what);
      if (!end.link->over) {
        Serve(*end.link, *end.reads, events[static_cast<size_t>(i)].events);
      }
    }
    for (Link& link : links_) Pass(link);
    Bury();
  }
}

// Until something is due.
int TroubledProxy::WaitMs() const {
  int64_t next_ms = kNoEnd;
  for (const Link& link : links_) {
    next_ms = std::min(next_ms, link.end_ms);
    for (const Way* way : {&link.request, &link.reply}) {
      // What is due already waits for the socket, which epoll watches.
      if (way->chunks.empty() || way->due(now_ms_)) continue;
      next_ms = std::min(next_ms, way->chunks.front().due_ms);
    }
  }
  if (next_ms == kNoEnd) return -1;
  return static_cast<int>(std::max<int64_t>(next_ms - NowMs(), 0));
}

void TroubledProxy::Accept() {
  for (;;) {
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client < 0) return;
    if (!Open(client)) close(client);
  }
}

bool TroubledProxy::Open(int client) {
  const int port = upstream_;
  if (port == 0) return false;
  const int server = Socket();
  sockaddr_in address = Loopback(port);
  const int result = connect(server, reinterpret_cast<sockaddr*>(&address), sizeof address);
  if (result != 0 && errno != EINPROGRESS) {
    close(server);
    return false;
  }
  Hurry(client);
  Hurry(server);
  Link& link = links_.emplace_back();
  link.number = connections_++;
  link.client = client;
  link.server = server;
  link.request.from = link.reply.to = client;
  link.request.to = link.reply.from = server;
  link.ends[0] = End{&link, &link.request, &link.reply, client, 0};
  link.ends[1] = End{&link, &link.reply, &link.request, server, 0};
  link.fate = draw_(link.number);
  for (End& end : link.ends) {
    epoll_event event{.events = 0, .data = {.ptr = &end}};
    Require(epoll_ctl(epoll_, EPOLL_CTL_ADD, end.fd, &event) == 0, "epoll_ctl");
  }
  return true;
}

void TroubledProxy::Serve(Link& link, Way& way, uint32_t events) {
  if ((events & EPOLLIN) != 0) Read(link, way);
  // Both directions are done, or there was an error: nothing more can come or go.
  const bool gone = (events & (EPOLLERR | EPOLLHUP)) != 0 && (events & EPOLLIN) == 0;
  if (gone) link.over = true;
}

void TroubledProxy::Read(Link& link, Way& way) {
  std::array<char, 64 * 1024> buffer;
  const ssize_t got = recv(way.from, buffer.data(), buffer.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got < 0) link.over = true;
  if (got == 0) way.ended = true;
  // Nobody is left who could tell that the bytes do not get through.
  if (got == 0 && way.deaf) link.over = true;
  if (got > 0) Take(link, way, std::string_view(buffer.data(), static_cast<size_t>(got)));
}

void TroubledProxy::Take(Link& link, Way& way, std::string_view bytes) {
  link.bytes += bytes.size();
  const Trouble trouble = link.fate.trouble;
  const bool request = &way == &link.request;
  const bool fits =
      !(trouble == Trouble::kCutRequest && !request) &&
      !((trouble == Trouble::kCutReply || trouble == Trouble::kSwallowReplies) && request);
  if (trouble != Trouble::kNone && fits && link.bytes > link.fate.after_bytes) {
    const Fate fate = link.fate;
    bytes = Strike(link, way, bytes);
    if (fate.shared) StrikeGroup(link, fate);
  }
  if (way.deaf || bytes.empty()) return;
  const int64_t after_ms = way.chunks.empty() ? now_ms_ : way.chunks.back().due_ms;
  way.chunks.push_back({std::max(after_ms, way.held_until_ms), std::string(bytes)});
  way.under_way += bytes.size();
}

void TroubledProxy::EndLater(Link& link, std::chrono::milliseconds hold) {
  link.end_ms = now_ms_ + hold.count();
}

std::string_view TroubledProxy::Strike(Link& link, Way& way, std::string_view bytes) {
  const Fate fate = std::exchange(link.fate, Fate{});
  ++met_[static_cast<size_t>(fate.trouble)];
  switch (fate.trouble) {
    case Trouble::kNone:
      return bytes;
    case Trouble::kDelay:
      way.held_until_ms = now_ms_ + fate.hold.count();
      link.fate = draw_(link.number);
      link.fate.after_bytes += link.bytes;
      return bytes;
    case Trouble::kCutRequest:
    case Trouble::kCutReply:
      // What gets through does so before the end.
      way.chunks.push_back({now_ms_, std::string(bytes.substr(0, bytes.size() / 2))});
      way.Write(now_ms_);
      link.over = true;
      return {};
    case Trouble::kBlackHole:
      link.request.deaf = link.reply.deaf = true;
      link.request.chunks.clear();
      link.reply.chunks.clear();
      EndLater(link, fate.hold);
      return {};
    case Trouble::kSwallowReplies:
      link.reply.deaf = true;
      link.reply.chunks.clear();
      EndLater(link, fate.hold);
      return &way == &link.reply ? std::string_view() : bytes;
    case Trouble::kReset:
      link.reset = true;
      [[fallthrough]];
    case Trouble::kDrop:
      link.over = true;
      return {};
  }
  return bytes;
}

void TroubledProxy::StrikeGroup(const Link& first, Fate fate) {
  fate.shared = false;
  fate.after_bytes = 0;
  for (Link& link : links_) {
    const bool group = link.number % groups_ == first.number % groups_;
    if (!group || link.number == first.number || link.over || link.end_ms != kNoEnd) continue;
    ++shared_;
    link.fate = fate;
    // A cut needs bytes to cut, and a delay bytes to hold: with the next that come.
    const bool at_once = fate.trouble == Trouble::kDrop || fate.trouble == Trouble::kReset ||
                         fate.trouble == Trouble::kBlackHole;
    if (at_once) Strike(link, link.request, {});
  }
}

// Writes what is due, and looks whether it is over.
void TroubledProxy::Pass(Link& link) {
  if (now_ms_ >= link.end_ms) link.over = true;
  if (link.over) return;
  for (Way* way : {&link.request, &link.reply}) {
    if (!way->Write(now_ms_)) link.over = true;
  }
  const bool done = link.request.shut && link.reply.shut;
  if (done) link.over = true;
  if (!link.over) Watch(link);
}

void TroubledProxy::Watch(Link& link) {
  for (End& end : link.ends) {
    uint32_t events = 0;
    if (!end.reads->ended && end.reads->under_way < kMaxUnderWay) events |= EPOLLIN;
    if (end.writes->due(now_ms_)) events |= EPOLLOUT;
    if (events == end.watched) continue;
    epoll_event event{.events = events, .data = {.ptr = &end}};
    Require(epoll_ctl(epoll_, EPOLL_CTL_MOD, end.fd, &event) == 0, "epoll_ctl");
    end.watched = events;
  }
}

void TroubledProxy::Bury() {
  links_.remove_if([this](Link& link) {
    if (!link.over) return false;
    const linger now{.l_onoff = 1, .l_linger = 0};
    for (const int fd : {link.client, link.server}) {
      if (link.reset) setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
      // By name: closing is not enough while a child that is being started has the socket, too.
      epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
      close(fd);
    }
    return true;
  });
}

}  // namespace idempotency::proof::network
