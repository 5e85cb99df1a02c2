// A TCP proxy on loopback that is as bad as a network can be, by a seeded script: it delays bytes,
// cuts connections after so many of them, and loses what was under way.
//
//   FlakyProxy proxy(server.port(), {.seed = 7, .cut_after_bytes = 20'000});
//   auto connection = MakeConnection({.target = proxy.target()});
//
// Every connection lives for a random number of bytes, both directions counted. When they are used
// up, one direction or both go silent: what is sent is taken and thrown away (a request or an
// answer is lost, and nobody knows which). A little later the connection is cut.
#ifndef IDEMPOTENCY_TESTS_SUPPORT_FLAKY_PROXY_H_
#define IDEMPOTENCY_TESTS_SUPPORT_FLAKY_PROXY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <random>
#include <string>
#include <thread>

namespace idempotency::testing {

struct FlakyScript {
  uint64_t seed = 1;
  // On average; a connection lives for half to one and a half times as many. Zero: for ever.
  size_t cut_after_bytes = 0;
  // For how long a connection is silent before it is cut, at most.
  int silent_ms_max = 5;
  // How much of what passes is delayed, and for how long at most.
  double delayed = 0.0;
  int delay_ms_max = 3;
};

// Thread safety: all methods may be called from any thread.
class FlakyProxy {
 public:
  FlakyProxy(int server_port, FlakyScript script);
  // Cuts everything.
  ~FlakyProxy();
  FlakyProxy(const FlakyProxy&) = delete;
  FlakyProxy& operator=(const FlakyProxy&) = delete;

  int port() const { return port_; }
  std::string target() const { return "127.0.0.1:" + std::to_string(port_); }

  // Where new connections go from now on: the server has another port now.
  void SetServerPort(int port) { server_port_ = port; }
  // From now on new connections live for ever and nothing is delayed.
  void CalmDown() { calm_ = true; }

  int connections() const { return connections_; }
  int cuts() const { return cuts_; }

 private:
  struct Link;

  void Loop();
  void Accept();
  void Serve(Link& link, bool client_ready, bool server_ready);
  // False: the connection is over.
  bool Pump(Link& link);

  const FlakyScript script_;
  std::atomic<int> server_port_;
  std::atomic<bool> calm_{false};
  std::atomic<bool> stop_{false};
  std::atomic<int> connections_{0};
  std::atomic<int> cuts_{0};

  int listener_ = -1;
  int port_ = 0;
  int clock_ = -1;  // ticks every millisecond

  // Of the thread.
  int64_t now_ms_ = 0;
  std::mt19937_64 random_;
  std::list<Link> links_;
  std::thread thread_;
};

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_FLAKY_PROXY_H_
