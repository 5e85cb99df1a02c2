// The common part of loads on systems that are spoken to over sockets of our own: each connection
// sends a number of commands, awaits all their answers, and goes on. One thread with epoll serves
// many connections, so that the client costs as little as redis-benchmark does.
#ifndef IDEMPOTENCY_TESTS_BENCH_OTHERS_SOCKET_LOAD_H_
#define IDEMPOTENCY_TESTS_BENCH_OTHERS_SOCKET_LOAD_H_

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/load.h"

namespace idempotency::bench {

// "host:port", taken apart; ends the process where it is not that.
struct HostAndPort {
  std::string host;
  std::string port;
};
HostAndPort SplitTarget(const std::string& target);

// Ends the process with a message.
[[noreturn]] void Die(const std::string& why);

// Thread safety: as Load.
class SocketLoad : public Load {
 protected:
  struct Peer : Slot {
    int socket = -1;
  };

  explicit SocketLoad(Plan* plan) : Load(plan) {}
  ~SocketLoad() override;

  // A connection that is ready for commands.
  virtual std::unique_ptr<Peer> NewPeer() = 0;
  // There is something to read from the peer, or it has gone. Only one thread at a time is in
  // here for one peer.
  virtual void OnReadable(Peer* peer) = 0;

  // What is in flight at a peer will not be answered, and no more is sent to it.
  void OnLost(Peer* peer, const std::string& why);

 private:
  void Open() final;
  void Close() final;
  void Serve(int epoll);

  int stop_event_ = -1;
  std::vector<int> epolls_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<std::thread> threads_;
};

}  // namespace idempotency::bench

#endif  // IDEMPOTENCY_TESTS_BENCH_OTHERS_SOCKET_LOAD_H_
