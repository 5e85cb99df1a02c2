#include "tests/bench/others/socket_load.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <iostream>

namespace idempotency::bench {
namespace {

constexpr int kExitCannotConnect = 1;
constexpr int kEventsAtOnce = 64;

void Watch(int epoll, int descriptor, void* data) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = data;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) != 0) Die("epoll_ctl failed");
}

}  // namespace

void Die(const std::string& why) {
  std::cerr << "idempotency_load_others: " << why << std::endl;
  _Exit(kExitCannotConnect);
}

HostAndPort SplitTarget(const std::string& target) {
  const size_t colon = target.rfind(':');
  if (colon == std::string::npos) Die("--target must be host:port, and is " + target);
  return {target.substr(0, colon), target.substr(colon + 1)};
}

SocketLoad::~SocketLoad() {
  for (const int epoll : epolls_) close(epoll);
  if (stop_event_ >= 0) close(stop_event_);
}

void SocketLoad::Open() {
  stop_event_ = eventfd(0, EFD_NONBLOCK);
  std::vector<Meter*> meters;
  for (int i = 0; i < options().threads; ++i) {
    epolls_.push_back(epoll_create1(0));
    Watch(epolls_.back(), stop_event_, nullptr);
    meters.push_back(NewMeter());
  }
  for (int i = 0; i < options().in_flight; ++i) {
    peers_.push_back(NewPeer());
    const size_t thread = static_cast<size_t>(i) % epolls_.size();
    AddSlot(peers_.back().get(), static_cast<size_t>(options().commands), meters[thread]);
    Watch(epolls_[thread], peers_.back()->socket, peers_.back().get());
  }
  for (const int epoll : epolls_) threads_.emplace_back([this, epoll] { Serve(epoll); });
}

void SocketLoad::Close() {
  const uint64_t one = 1;
  if (write(stop_event_, &one, sizeof(one)) != sizeof(one)) Die("eventfd failed");
  for (std::thread& thread : threads_) thread.join();
  peers_.clear();
}

void SocketLoad::Serve(int epoll) {
  std::array<epoll_event, kEventsAtOnce> events;
  while (true) {
    const int count = epoll_wait(epoll, events.data(), kEventsAtOnce, -1);
    for (int i = 0; i < count; ++i) {
      if (events[static_cast<size_t>(i)].data.ptr == nullptr) return;
      OnReadable(static_cast<Peer*>(events[static_cast<size_t>(i)].data.ptr));
    }
  }
}

void SocketLoad::OnLost(Peer* peer, const std::string& why) {
  if (peer->lost) return;
  peer->lost = true;
  for (const int epoll : epolls_) epoll_ctl(epoll, EPOLL_CTL_DEL, peer->socket, nullptr);
  std::vector<uint32_t> unanswered;
  for (const uint32_t index : peer->active) {
    if (peer->open[index] != 0) unanswered.push_back(index);
  }
  for (const uint32_t index : unanswered) OnFailure(peer, index, why, MonotonicNanos());
}

}  // namespace idempotency::bench
