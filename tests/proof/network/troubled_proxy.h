// A TCP proxy on loopback that does to connections what networks and their boxes do, each kind by
// its name:
//
//   TroubledProxy proxy(2, [&](uint64_t connection) {
//     return Fate{.trouble = Trouble::kCutReply, .after_bytes = 5000};
//   });
//   proxy.SetUpstream(server.port());      // and again when the server has another port
//   ... clients connect to proxy.port(), which stays ...
//   proxy.met(Trouble::kCutReply)
//
// A fate is drawn when a connection begins, and again when a delay is over. It strikes with the
// first bytes after `after_bytes`, both directions counted. A fate that is shared strikes all
// connections of the group at once: a group is the connections whose number leaves one rest.
//
// One thread, one epoll. Thread safety: all methods may be called from any thread; `draw` is
// called on the proxy's own.
#ifndef IDEMPOTENCY_TESTS_PROOF_NETWORK_TROUBLED_PROXY_H_
#define IDEMPOTENCY_TESTS_PROOF_NETWORK_TROUBLED_PROXY_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <string_view>
#include <thread>

namespace idempotency::proof::network {

enum class Trouble : uint8_t {
  kNone,
  // What is under way is lost, and both ends see the connection end.
  kDrop,
  // The bytes of one direction are held for `hold`.
  kDelay,
  // A part of what a client, a server has sent gets through; then as kDrop.
  kCutRequest,
  kCutReply,
  // Nothing gets through any more in either direction, for `hold`; then as kDrop. From the first
  // byte on: it was accepted and never forwarded.
  kBlackHole,
  // Requests get through, and what is replied does not, for `hold`; then as kDrop.
  kSwallowReplies,
  // As kDrop, by RST.
  kReset,
};
inline constexpr size_t kTroubles = 8;
std::string_view Name(Trouble trouble);

struct Fate {
  Trouble trouble = Trouble::kNone;
  uint64_t after_bytes = 0;
  std::chrono::milliseconds hold{0};
  bool shared = false;
};

class TroubledProxy {
 public:
  using Draw = std::function<Fate(uint64_t connection)>;

  // Connections end at once until there is an upstream.
  TroubledProxy(size_t groups, Draw draw);
  // Cuts everything.
  ~TroubledProxy();
  TroubledProxy(const TroubledProxy&) = delete;
  TroubledProxy& operator=(const TroubledProxy&) = delete;

  int port() const { return port_; }
  // Where new connections go from now on; 0: nowhere.
  void SetUpstream(int port) { upstream_ = port; }

  uint64_t connections() const { return connections_; }
  // How often it has struck.
  uint64_t met(Trouble trouble) const { return met_[static_cast<size_t>(trouble)]; }
  // Connections that were struck because another of their group was.
  uint64_t shared() const { return shared_; }

 private:
  struct Way;
  struct Link;
  struct End;

  void Loop();
  int WaitMs() const;
  void Accept();
  bool Open(int client);
  void Serve(Link& link, Way& way, uint32_t events);
  void Read(Link& link, Way& way);
  void Take(Link& link, Way& way, std::string_view bytes);
  // What is left of the bytes that it strikes with.
  std::string_view Strike(Link& link, Way& way, std::string_view bytes);
  void StrikeGroup(const Link& first, Fate fate);
  void EndLater(Link& link, std::chrono::milliseconds hold);
  void Pass(Link& link);
  void Watch(Link& link);
  void Bury();

  const size_t groups_;
  const Draw draw_;
  std::atomic<int> upstream_{0};
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> connections_{0};
  std::atomic<uint64_t> shared_{0};
  std::array<std::atomic<uint64_t>, kTroubles> met_{};

  int listener_ = -1;
  int port_ = 0;
  int epoll_ = -1;
  int wake_ = -1;

  // Of the thread.
  int64_t now_ms_ = 0;
  std::list<Link> links_;
  std::thread thread_;
};

}  // namespace idempotency::proof::network

#endif  // IDEMPOTENCY_TESTS_PROOF_NETWORK_TROUBLED_PROXY_H_
