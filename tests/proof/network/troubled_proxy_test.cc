#include "tests/proof/network/troubled_proxy.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

namespace idempotency::proof::network {
namespace {

// Long enough for bytes that do come on a busy machine; nothing waits for it where all is well.
constexpr int kPatienceMs = 20'000;

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// One end of a connection.
class Peer {
 public:
  explicit Peer(int fd) : fd_(fd) {}
  ~Peer() { close(fd_); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  void Send(const std::string& bytes) { send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  // Sends nothing more.
  void Finish() { shutdown(fd_, SHUT_WR); }
  // So many bytes, or what came before the connection ended.
  std::string Receive(size_t count) {
    std::string bytes(count, '\0');
    size_t have = 0;
    while (have < count && Ready()) {
      const ssize_t got = recv(fd_, bytes.data() + have, count - have, 0);
      if (got <= 0) break;
      have += static_cast<size_t>(got);
    }
    bytes.resize(have);
    return bytes;
  }
  // How the connection ended: 0 by FIN, else errno. Bytes before that are left out.
  int HowItEnded() {
    char byte = 0;
    while (Ready()) {
      const ssize_t got = recv(fd_, &byte, 1, 0);
      if (got < 0) return errno;
      if (got == 0) return 0;
    }
    return ETIMEDOUT;
  }

 private:
  bool Ready() const {
    pollfd ready{.fd = fd_, .events = POLLIN, .revents = 0};
    return poll(&ready, 1, kPatienceMs) == 1;
  }
  const int fd_;
};

class Upstream {
 public:
  Upstream() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof address;
    bind(fd_, reinterpret_cast<sockaddr*>(&address), size);
    listen(fd_, 16);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~Upstream() { close(fd_); }
  int port() const { return port_; }
  int Accept() const { return accept(fd_, nullptr, nullptr); }

 private:
  const int fd_;
  int port_ = 0;
};

int Connect(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = Loopback(port);
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return fd;
}

// A proxy whose connections have these fates, in order; the rest have none.
class Proxied {
 public:
  explicit Proxied(std::vector<Fate> fates, size_t groups = 1)
      : proxy(groups, [fates = std::move(fates), drawn = size_t{0}](uint64_t) mutable {
          return drawn < fates.size() ? fates[drawn++] : Fate{};
        }) {
    proxy.SetUpstream(upstream.port());
  }
  Upstream upstream;
  TroubledProxy proxy;
};

struct Pair {
  explicit Pair(Proxied& proxied)
      : client(Connect(proxied.proxy.port())), server(proxied.upstream.Accept()) {}
  Peer client;
  Peer server;
};

TEST(TroubledProxyTest, PassesBytesBothWaysAndTheirEnd) {
  Proxied proxied({});
  Pair pair(proxied);
  const std::string request(300'000, 'q');
  const std::string reply(200'000, 'r');
  pair.client.Send(request);
  EXPECT_EQ(pair.server.Receive(request.size()), request);
  pair.server.Send(reply);
  EXPECT_EQ(pair.client.Receive(reply.size()), reply);
  EXPECT_EQ(proxied.proxy.connections(), 1u);
}

TEST(TroubledProxyTest, DropLosesWhatIsUnderWay) {
  Proxied proxied({{.trouble = Trouble::kDrop, .after_bytes = 4}});
  Pair pair(proxied);
  pair.client.Send("ping");
  EXPECT_EQ(pair.server.Receive(4), "ping");
  pair.client.Send("lost");
  EXPECT_EQ(pair.server.Receive(4), "");
  EXPECT_EQ(pair.client.HowItEnded(), 0);
  EXPECT_EQ(proxied.proxy.met(Trouble::kDrop), 1u);
}

TEST(TroubledProxyTest, ResetEndsByReset) {
  Proxied proxied({{.trouble = Trouble::kReset}});
  Pair pair(proxied);
  pair.client.Send("lost");
  EXPECT_EQ(pair.client.HowItEnded(), ECONNRESET);
  EXPECT_EQ(pair.server.HowItEnded(), ECONNRESET);
}

TEST(TroubledProxyTest, DelayHoldsAndLosesNothing) {
  Proxied proxied({{.trouble = Trouble::kDelay, .hold = std::chrono::milliseconds(30)}});
  Pair pair(proxied);
  pair.client.Send("later");
  pair.client.Send(" still in order");
  EXPECT_EQ(pair.server.Receive(20), "later still in order");
  EXPECT_EQ(proxied.proxy.met(Trouble::kDelay), 1u);
}

TEST(TroubledProxyTest, CutsInTheMiddleOfARequest) {
  Proxied proxied({{.trouble = Trouble::kCutRequest, .after_bytes = 2}});
  Pair pair(proxied);
  pair.server.Send("a reply is no request");
  EXPECT_EQ(pair.client.Receive(21), "a reply is no request");
  pair.client.Send("12345678");
  EXPECT_EQ(pair.server.Receive(8), "1234");
  EXPECT_NE(pair.client.HowItEnded(), ETIMEDOUT);
}

TEST(TroubledProxyTest, CutsInTheMiddleOfAReply) {
  Proxied proxied({{.trouble = Trouble::kCutReply, .after_bytes = 2}});
  Pair pair(proxied);
  pair.client.Send("a request is no reply");
  EXPECT_EQ(pair.server.Receive(21), "a request is no reply");
  pair.server.Send("12345678");
  EXPECT_EQ(pair.client.Receive(8), "1234");
  EXPECT_EQ(proxied.proxy.met(Trouble::kCutReply), 1u);
}

TEST(TroubledProxyTest, BlackHoleAcceptsAndForwardsNothing) {
  Proxied proxied({{.trouble = Trouble::kBlackHole, .hold = std::chrono::milliseconds(20)}});
  Pair pair(proxied);
  pair.client.Send("lost");
  EXPECT_EQ(pair.server.Receive(4), "");
  EXPECT_NE(pair.client.HowItEnded(), ETIMEDOUT);
  EXPECT_EQ(proxied.proxy.met(Trouble::kBlackHole), 1u);
}

TEST(TroubledProxyTest, SwallowsRepliesAndForwardsRequests) {
  // Longer than this takes: the server ends it.
  Proxied proxied({{.trouble = Trouble::kSwallowReplies, .hold = std::chrono::minutes(1)}});
  Pair pair(proxied);
  pair.client.Send("one");
  EXPECT_EQ(pair.server.Receive(3), "one");
  pair.server.Send("lost");
  pair.client.Send("two");
  EXPECT_EQ(pair.server.Receive(3), "two");
  pair.server.Finish();
  EXPECT_EQ(pair.client.Receive(4), "");
}

TEST(TroubledProxyTest, ASharedFateStrikesTheWholeGroupAtOnce) {
  Proxied proxied({{.trouble = Trouble::kNone},
                   {.trouble = Trouble::kNone},
                   {.trouble = Trouble::kReset, .shared = true}},
                  2);
  Pair same(proxied);
  Pair other(proxied);
  Pair first(proxied);
  first.client.Send("lost");
  EXPECT_EQ(first.client.HowItEnded(), ECONNRESET);
  EXPECT_EQ(same.client.HowItEnded(), ECONNRESET);
  other.client.Send("alive");
  EXPECT_EQ(other.server.Receive(5), "alive");
  EXPECT_EQ(proxied.proxy.shared(), 1u);
}

TEST(TroubledProxyTest, TheUpstreamMayMoveAndBeAway) {
  Proxied proxied({});
  proxied.proxy.SetUpstream(0);
  Peer refused(Connect(proxied.proxy.port()));
  EXPECT_NE(refused.HowItEnded(), ETIMEDOUT);
  Upstream moved;
  proxied.proxy.SetUpstream(moved.port());
  Peer client(Connect(proxied.proxy.port()));
  Peer server(moved.Accept());
  client.Send("there");
  EXPECT_EQ(server.Receive(5), "there");
}

TEST(TroubledProxyTest, EveryKindHasAName) {
  for (size_t i = 0; i < kTroubles; ++i) EXPECT_FALSE(Name(static_cast<Trouble>(i)).empty());
}

}  // namespace
}  // namespace idempotency::proof::network
