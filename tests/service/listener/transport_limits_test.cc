// gRPC's own limits hold for connections that we accept and hand to it.
#include "service/listener/transport_limits.h"

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/listener/listener_server.h"
#include "tests/support/http2_frames.h"

namespace idempotency::service {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kFirstWords = kPreface + Frame(kSettings, 0, 0, "");

void Send(const UniqueFd& socket, const std::string& bytes) {
  (void)!send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

// What the server's first SETTINGS frame says of this.
uint32_t SettingOf(const UniqueFd& socket, uint16_t wanted) {
  std::string header(9, '\0');
  if (recv(socket.get(), header.data(), header.size(), MSG_WAITALL) != 9) return 0;
  const auto byte = [](char c) { return static_cast<uint32_t>(static_cast<unsigned char>(c)); };
  std::string settings(byte(header[1]) * 256 + byte(header[2]), '\0');
  (void)!recv(socket.get(), settings.data(), settings.size(), MSG_WAITALL);
  for (size_t at = 0; at + 6 <= settings.size(); at += 6) {
    if (byte(settings[at]) * 256 + byte(settings[at + 1]) != wanted) continue;
    uint32_t value = 0;
    for (size_t i = 2; i < 6; ++i) value = value * 256 + byte(settings[at + i]);
    return value;
  }
  return 0;
}

TEST(TransportLimitsTest, EndsConnectionsThatDoNotShakeHands) {
  ListenerServer server("127.0.0.1:0", {}, {.handshake_timeout = absl::Milliseconds(100)});
  const UniqueFd silent = RawConnection(server.port(), 2);
  const UniqueFd half = RawConnection(server.port(), 2);
  Send(half, kFirstWords.substr(0, 10));
  EXPECT_TRUE(IsEnded(silent));
  EXPECT_TRUE(IsEnded(half));
  AwaitTrue([&] { return server.listener()->counts().open == 0; });
}

TEST(TransportLimitsTest, TellsHowManyStreamsAndHeadersThereMayBe) {
  ListenerServer server("127.0.0.1:0", {},
                        {.max_streams_per_connection = 77, .max_metadata_bytes = 12'345});
  for (const auto& [setting, value] : {std::pair(3, 77U), std::pair(6, 12'345U)}) {
    const UniqueFd peer = RawConnection(server.port(), 2);
    Send(peer, kFirstWords);
    EXPECT_EQ(SettingOf(peer, static_cast<uint16_t>(setting)), value);
  }
}

TEST(TransportLimitsTest, EndsConnectionsThatAreIdle) {
  ListenerServer server("127.0.0.1:0", {}, {.max_connection_idle = absl::Milliseconds(100)});
  const auto channel = Connect(Target(server.port()));
  ASSERT_THAT(Call(channel), StartsWith("ipv4:"));
  AwaitTrue([&] { return server.listener()->counts().open == 0; });
  EXPECT_THAT(Call(channel), StartsWith("ipv4:"));
}

TEST(TransportLimitsTest, EndsConnectionsThatAreOld) {
  ListenerServer server("127.0.0.1:0", {},
                        {.max_connection_idle = absl::ZeroDuration(),
                         .max_connection_age = absl::Milliseconds(100),
                         .max_connection_age_grace = absl::Milliseconds(100)});
  const auto channel = Connect(Target(server.port()));
  ASSERT_THAT(Call(channel), StartsWith("ipv4:"));
  AwaitTrue([&] { return server.listener()->counts().open == 0; });
}

TEST(TransportLimitsTest, AsksConnectionsThatAreSilent) {
  ListenerServer server("127.0.0.1:0", {}, {.keepalive = absl::Milliseconds(100)});
  const UniqueFd peer = RawConnection(server.port(), 2);
  Send(peer, kFirstWords);
  // It asks: a PING frame, which is of type 6, comes behind its settings.
  std::string bytes;
  while (bytes.find(std::string("\0\0\x08\x06\0\0\0\0\0", 9)) == std::string::npos) {
    char more[256];
    const ssize_t size = recv(peer.get(), more, sizeof(more), 0);
    ASSERT_GT(size, 0);
    bytes.append(more, static_cast<size_t>(size));
  }
}

TEST(TransportLimitsTest, EndsConnectionsThatPingTooOften) {
  ListenerServer server;
  const UniqueFd peer = RawConnection(server.port(), 2);
  Send(peer, kFirstWords);
  const std::string ping = std::string("\0\0\x08\x06\0\0\0\0\0", 9) + "12345678";
  for (int i = 0; i < 10; ++i) Send(peer, ping);
  EXPECT_TRUE(IsEnded(peer));
}

TEST(TransportLimitsTest, RefusesHeadersThatAreTooLarge) {
  ListenerServer server("127.0.0.1:0", {}, {.max_metadata_bytes = 4'096});
  const auto channel = Connect(Target(server.port()));
  EXPECT_THAT(Call(channel, std::string(2'000, 'x')), StartsWith("ipv4:"));
  // gRPC may end the connection as well.
  EXPECT_THAT(Call(channel, std::string(5'000, 'x')), StartsWith("error: "));
}

}  // namespace
}  // namespace idempotency::service
