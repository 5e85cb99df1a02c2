// The accept loop in front of a real gRPC server, with real sockets.
#include "service/listener/listener.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "keystore/core/limits.h"
#include "service/listener/read_guard.h"
#include "tests/service/listener/listener_server.h"
#include "tests/support/http2_frames.h"
#include "tests/support/temp_directory.h"

namespace idempotency::service {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ListenerTest, ServesAndShowsThePeersAddress) {
  ListenerServer server;
  EXPECT_GT(server.port(), 0);
  EXPECT_THAT(Call(Connect(Target(server.port()))), StartsWith("ipv4:127.0.0.1:"));
  EXPECT_EQ(server.listener()->counts().accepted, 1u);
}

TEST(ListenerTest, ServesANameAndAUnixSocket) {
  ListenerServer named("localhost:0");
  EXPECT_THAT(Call(Connect("localhost:" + std::to_string(named.port()))), StartsWith("ip"));

  const TempDirectory directory;
  const std::string path = directory.path() + "/socket";
  {
    ListenerServer server("unix:" + path);
    EXPECT_EQ(server.port(), 0);
    const auto channel = Connect("unix:" + path);
    EXPECT_THAT(Call(channel), StartsWith("unix:"));
    EXPECT_EQ(server.listener()->counts().open, 1u);
  }
  struct stat status {};
  EXPECT_NE(stat(path.c_str(), &status), 0) << "the socket's file is left behind";
}

TEST(ListenerTest, RefusesWhatIsTaken) {
  Log log({LogLevel::kError});
  ListenerServer server;
  const auto second = Listener::Open(Target(server.port()), {}, &log);
  ASSERT_FALSE(second.ok());
  EXPECT_TRUE(absl::IsUnavailable(second.status()));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("cannot listen on 127.0.0.1:"));

  const TempDirectory directory;
  const std::string path = directory.path() + "/socket";
  ListenerServer unix_server("unix:" + path);
  EXPECT_FALSE(Listener::Open("unix:" + path, {}, &log).ok()) << "taken from under a live service";
  EXPECT_FALSE(Listener::Open("unix:" + std::string(200, 'x'), {}, &log).ok());
  EXPECT_FALSE(Listener::Open("unix:" + directory.path() + "/none/socket", {}, &log).ok());
  EXPECT_FALSE(Listener::Open("no-such-host.invalid:0", {}, &log).ok());
}

TEST(ListenerTest, TakesOverAUnixSocketThatWasLeftBehind) {
  const TempDirectory directory;
  const std::string path = directory.path() + "/socket";
  auto left = OpenListenSockets("unix:" + path);
  ASSERT_TRUE(left.ok()) << left.status();
  left->sockets.clear();
  ListenerServer server("unix:" + path);
  EXPECT_THAT(Call(Connect("unix:" + path)), StartsWith("unix:"));
}

TEST(ListenerTest, LeavesAFileAloneThatIsNoSocket) {
  const TempDirectory directory;
  const std::string path = directory.path() + "/file";
  UniqueFd(open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  Log log({LogLevel::kError});
  EXPECT_FALSE(Listener::Open("unix:" + path, {}, &log).ok());
  struct stat status {};
  EXPECT_EQ(stat(path.c_str(), &status), 0);
}

TEST(ListenerTest, ResetsWhatIsBeyondALimitAndForgetsWhoHasLeft) {
  ListenerServer server("127.0.0.1:0", {.max_connections = 3, .max_connections_per_peer = 2});
  UniqueFd first = RawConnection(server.port(), 2);
  UniqueFd second = RawConnection(server.port(), 2);
  EXPECT_TRUE(IsEnded(RawConnection(server.port(), 2)));
  UniqueFd other = RawConnection(server.port(), 3);
  EXPECT_TRUE(IsEnded(RawConnection(server.port(), 4)));
  AwaitTrue([&] { return server.listener()->counts().refused == 2; });
  EXPECT_EQ(server.listener()->counts().open, 3u);
  first.reset();
  AwaitTrue([&] { return server.listener()->counts().open == 2; });
  EXPECT_THAT(Call(Connect(Target(server.port()))), StartsWith("ipv4:"));
}

TEST(ListenerTest, KnowsThatAConnectionHasEndedOnEitherSide) {
  ListenerServer server;
  {
    const auto channel = Connect(Target(server.port()));
    ASSERT_THAT(Call(channel), StartsWith("ipv4:"));
    EXPECT_EQ(server.listener()->counts().open, 1u);
  }
  AwaitTrue([&] { return server.listener()->counts().open == 0; });
  // gRPC ends this one, since it is not HTTP/2.
  const UniqueFd peer = RawConnection(server.port(), 2);
  const std::string words = "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: everything\r\n\r\n";
  ASSERT_EQ(send(peer.get(), words.data(), words.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(words.size()));
  EXPECT_TRUE(IsEnded(peer));
  AwaitTrue([&] { return server.listener()->counts().open == 0; });
}

const std::string kNoSettings = Frame(kSettings, 0, 0, "");

void SendUntilItEnds(const UniqueFd& peer, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (size < 0) break;
    bytes.remove_prefix(static_cast<size_t>(size));
  }
  EXPECT_TRUE(IsEnded(peer));
}

// Reads until the server has ended the streams, each with a HEADERS frame; false where the
// connection has ended.
bool AwaitAnswers(const UniqueFd& peer, std::set<uint32_t> streams) {
  std::string seen;
  while (!streams.empty()) {
    char bytes[4'096];
    const ssize_t size = recv(peer.get(), bytes, sizeof(bytes), 0);
    if (size <= 0) return false;
    seen.append(bytes, static_cast<size_t>(size));
    for (auto stream = streams.begin(); stream != streams.end();) {
      const std::string end = Frame(kHeaders, kEndHeaders | kEndStream, *stream, "").substr(3);
      stream = seen.find(end) == std::string::npos ? std::next(stream) : streams.erase(stream);
    }
  }
  return true;
}

TEST(ListenerTest, CutsOffWhoCancelsTooMuchAndKeepsThemOut) {
  ListenerServer server("127.0.0.1:0", {.max_cancelled_calls = 100});
  const auto bystander = Connect(Target(server.port()));
  ASSERT_THAT(Call(bystander), StartsWith("ipv4:"));
  const UniqueFd peer = RawConnection(server.port(), 2);
  SendUntilItEnds(peer, kPreface + kNoSettings + CancelledCalls(2'000));
  AwaitTrue([&] { return server.listener()->counts().cut_off == 1; });
  EXPECT_TRUE(IsEnded(RawConnection(server.port(), 2))) << "is let in again at once";
  EXPECT_THAT(Call(bystander), StartsWith("ipv4:"));
  EXPECT_LE(server.begun(), 100u + 2u) << "more were begun than may be cancelled";
}

TEST(ListenerTest, WhoTakesAnswersWithAResetIsNotCutOff) {
  ListenerServer server("127.0.0.1:0", {.max_cancelled_calls = 2'000, .max_streams = 100});
  const UniqueFd peer = RawConnection(server.port(), 2);
  std::string frames = kPreface + kNoSettings;
  uint32_t stream = 1;
  for (int round = 0; round < 100; ++round) {
    std::set<uint32_t> streams;
    for (int i = 0; i < 10; ++i, stream += 2) {
      frames += Frame(kHeaders, kEndHeaders | kEndStream, stream, CallFields());
      streams.insert(stream);
    }
    ASSERT_EQ(send(peer.get(), frames.data(), frames.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(frames.size()));
    ASSERT_TRUE(AwaitAnswers(peer, streams));
    frames.clear();
    for (const uint32_t ended : streams) {
      frames += Frame(kRstStream, 0, ended, std::string(4, '\0'));
    }
  }
  EXPECT_EQ(server.listener()->counts().cut_off, 0u);
}

// A call whose header block goes on in frames of one field each, without an end.
std::string EndlessHeaders(uint32_t stream) {
  std::string frames = Frame(kHeaders, 0, stream, CallFields());
  const std::string field = "\x10\x01x\x40" + std::string(64, 'x');
  while (frames.size() < core::kMaxReceiveMessageBytes / 2) {
    frames += Frame(kContinuation, 0, stream, field);
  }
  return frames;
}

TEST(ListenerTest, CutsOffWhoSendsCallsOfManyFieldsAndKeepsThemOut) {
  ListenerServer server;
  const auto bystander = Connect(Target(server.port()));
  ASSERT_THAT(Call(bystander), StartsWith("ipv4:"));
  const UniqueFd peer = RawConnection(server.port(), 2);
  std::string frames = kPreface + kNoSettings;
  for (uint32_t stream = 1; stream < 2'000; stream += 2) {
    frames += Frame(kHeaders, kEndHeaders, stream, CallFields() + std::string(200, '\x8f'));
  }
  SendUntilItEnds(peer, frames);
  AwaitTrue([&] { return server.listener()->counts().cut_off == 1; });
  EXPECT_TRUE(IsEnded(RawConnection(server.port(), 2))) << "is let in again at once";
  EXPECT_THAT(Call(bystander), StartsWith("ipv4:"));
}

// What gRPC makes of a block has no bound of its own, and what else the connection does hid it.
TEST(ListenerTest, CutsOffAHeaderBlockWithoutAnEndBesideOpenCalls) {
  ListenerServer server("127.0.0.1:0", {}, {}, /*reads=*/true);
  const UniqueFd peer = RawConnection(server.port(), 2);
  std::string frames = kPreface + kNoSettings;
  for (uint32_t stream = 1; stream < 200; stream += 2) {
    frames += Frame(kHeaders, kEndHeaders, stream, CallFields());
  }
  SendUntilItEnds(peer, frames + EndlessHeaders(201));
  AwaitTrue([&] { return server.listener()->counts().cut_off == 1; });
}

UniqueFd UnixConnection(const std::string& path) {
  UniqueFd peer(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  EXPECT_EQ(connect(peer.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return peer;
}

TEST(ListenerTest, CutsOffAHeaderBlockWithoutAnEndOnAUnixSocket) {
  const TempDirectory directory;
  const std::string path = directory.path() + "/socket";
  ListenerServer server("unix:" + path);
  const UniqueFd peer = UnixConnection(path);
  SendUntilItEnds(peer, kPreface + kNoSettings + EndlessHeaders(1));
  AwaitTrue([&] { return server.listener()->counts().cut_off == 1; });
}

TEST(ListenerTest, WhoSendsOneHeaderThatIsTooLongIsToldSo) {
  ListenerServer server;
  EXPECT_THAT(Call(Connect(Target(server.port())), std::string(9'000, 'x')),
              HasSubstr("size exceeds limit"));
  EXPECT_EQ(server.listener()->counts().cut_off, 0u);
}

// gRPC takes what such a block leaves for the beginning of the next one.
TEST(ListenerTest, CutsOffABlockThatEndsWithinAField) {
  ListenerServer server;
  const UniqueFd peer = RawConnection(server.port(), 2);
  SendUntilItEnds(peer, kPreface + kNoSettings + Frame(kHeaders, kEndHeaders, 2, "\x04\x0b/any") +
                            Frame(kHeaders, kEndHeaders, 1, "/method\x83\x86\x01\x09localhost"));
  AwaitTrue([&] { return server.listener()->counts().cut_off == 1; });
}

TEST(ListenerTest, CutsOffWhoStaysSilentBehindWhatWasTooMuch) {
  const TempDirectory directory;
  const std::string path = directory.path() + "/socket";
  ListenerServer server("unix:" + path);
  const UniqueFd peer = UnixConnection(path);
  std::string frames = kPreface + kNoSettings + Frame(kHeaders, 0, 1, CallFields());
  for (int i = 0; i < 10; ++i) frames += Frame(kContinuation, 0, 1, std::string(1'500, '\x8f'));
  // Many reads, of which a later one is the one that is refused.
  for (const char& byte : frames) {
    if (send(peer.get(), &byte, 1, MSG_NOSIGNAL) < 0) break;
  }
  EXPECT_TRUE(IsEnded(peer));
  AwaitTrue([&] { return server.listener()->counts().cut_off == 1; });
}

TEST(ReadGuardTest, LetsASocketBeThatHasTheNumberOfOneBefore) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const int number = ends[0];
  const ReadGuard guard(number, {.cancels = {}});
  close(ends[0]);
  close(ends[1]);
  int others[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, others), 0);
  const UniqueFd writer(others[1]);
  const UniqueFd reader(others[0]);
  ASSERT_EQ(reader.get(), number);
  const std::string bytes = kPreface + EndlessHeaders(1).substr(0, 60'000);
  ASSERT_EQ(send(writer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
  std::string read(bytes.size(), ' ');
  iovec piece{read.data(), read.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  EXPECT_EQ(recvmsg(reader.get(), &message, MSG_WAITALL), static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(read, bytes);
  EXPECT_EQ(guard.verdict(), FrameVerdict::kFine);
}

// Messages as large as they may be, one after the other and as many at once as may be unfinished on
// one connection.
void Upload(const std::shared_ptr<grpc::Channel>& channel) {
  const std::string body(core::kMaxReceiveMessageBytes, 'x');
  for (int i = 0; i < 3; ++i) EXPECT_THAT(Call(channel, {}, body), StartsWith("ipv4:"));
  std::vector<std::thread> callers;
  for (size_t i = 0; i < kMostUnfinishedBytes / body.size(); ++i) {
    callers.emplace_back([&] { EXPECT_THAT(Call(channel, {}, body), StartsWith("ipv4:")); });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST(ListenerTest, WhoSendsTheLargestMessagesIsNotCutOff) {
  ListenerServer server("127.0.0.1:0", {}, {}, /*reads=*/true);
  Upload(Connect(Target(server.port())));
  EXPECT_EQ(server.listener()->counts().cut_off, 0u);
}

TEST(ListenerTest, WhoIsAnsweredInTheMiddleOfTheLargestMessagesIsNotCutOff) {
  ListenerServer server;
  Upload(Connect(Target(server.port())));
  EXPECT_EQ(server.listener()->counts().cut_off, 0u);
}

// Uses up what there is, and gives it back at the end.
class NoDescriptors {
 public:
  NoDescriptors() {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    const UniqueFd next(open("/dev/null", O_RDONLY | O_CLOEXEC));
    const rlimit few{static_cast<rlim_t>(next.get()) + 20, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (;;) {
      UniqueFd fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
      if (!fd.ok()) break;
      held_.push_back(std::move(fd));
    }
  }
  ~NoDescriptors() {
    held_.clear();
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0);
  }
  void GiveBack(size_t count) { held_.resize(held_.size() - count); }

 private:
  rlimit before_{};
  std::vector<UniqueFd> held_;
};

TEST(ListenerTest, StopsAcceptingForEverOnceItWasOutOfDescriptors) {
  ListenerServer server;
  {
    NoDescriptors none;
    none.GiveBack(1);
    // The one that is free is ours; the server has none.
    const UniqueFd peer = RawConnection(server.port(), 2);
    EXPECT_TRUE(IsEnded(peer));
    AwaitTrue([&] { return server.listener()->counts().refused > 0; });
  }
  EXPECT_THAT(Call(Connect(Target(server.port()))), StartsWith("ipv4:"));
}

TEST(ListenerTest, LeavesDescriptorsToTheStore) {
  EXPECT_EQ(ConnectionsWithin(512), 128u);
  EXPECT_EQ(ConnectionsWithin(1024), 256u);
  EXPECT_EQ(ConnectionsWithin(20'768), 10'000u);
  EXPECT_EQ(ConnectionsWithin(1), 1u);
}

}  // namespace
}  // namespace idempotency::service
