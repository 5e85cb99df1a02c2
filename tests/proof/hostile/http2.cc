#include "tests/proof/hostile/http2.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "tests/bench/clock.h"

namespace idempotency::proof {
namespace {

constexpr std::string_view kService = "/idempotency.v1.IdempotencyService/";

void AppendNumber(uint32_t number, int bytes, std::string* out) {
  for (int i = bytes - 1; i >= 0; --i) out->push_back(static_cast<char>(number >> (8 * i)));
}

// RFC 7541, 5.1 with a prefix of seven bits, and 5.2 without Huffman.
void AppendText(std::string_view text, std::string* out) {
  if (text.size() < 127) {
    out->push_back(static_cast<char>(text.size()));
  } else {
    out->push_back(127);
    size_t rest = text.size() - 127;
    for (; rest >= 128; rest /= 128) out->push_back(static_cast<char>(rest % 128 + 128));
    out->push_back(static_cast<char>(rest));
  }
  out->append(text);
}

}  // namespace

std::string Preface() { return kPreface + Frame(kSettings, 0, 0, ""); }

std::string Header(std::string_view name, std::string_view value) {
  std::string header(1, '\0');
  AppendText(name, &header);
  AppendText(value, &header);
  return header;
}

std::string CallHeaders(std::string_view method) {
  // Of the static table: ":method POST", ":scheme http", and the names ":path" and ":authority".
  std::string headers = "\x83\x86\x04";
  AppendText(std::string(kService) + std::string(method), &headers);
  headers.push_back('\x01');
  AppendText("localhost", &headers);
  return headers + Header("content-type", "application/grpc") + Header("te", "trailers");
}

std::string Call(uint32_t stream, std::string_view method, std::string_view message) {
  std::string framed(1, '\0');
  AppendNumber(static_cast<uint32_t>(message.size()), 4, &framed);
  framed.append(message);
  return Frame(kHeaders, kEndHeaders, stream, CallHeaders(method)) +
         Frame(kData, kEndStream, stream, framed);
}

RawPeer::RawPeer(int port, int host) {
  socket_ = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl((127U << 24) | static_cast<uint32_t>(host));
  const int one = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  // Ports run out otherwise: each connection that ends first here waits for a minute.
  const linger at_once{1, 0};
  setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  if (bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    Close();
    return;
  }
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return;
  pollfd ready{.fd = socket_, .events = POLLOUT};
  int error = 0;
  socklen_t size = sizeof(error);
  if (errno != EINPROGRESS || poll(&ready, 1, 1'000) != 1 ||
      getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
    Close();
  }
}

RawPeer::RawPeer(RawPeer&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}

RawPeer::~RawPeer() { Close(); }

void RawPeer::Close() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
}

bool RawPeer::Send(std::string_view bytes, int64_t until) {
  while (open() && !bytes.empty()) {
    const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      if (bench::MonotonicNanos() >= until) return false;
      pollfd ready{.fd = socket_, .events = POLLOUT};
      poll(&ready, 1, 10);
    } else {
      Close();
    }
  }
  return open();
}

bool RawPeer::Dribble(std::string_view bytes) {
  if (open() && send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0 && errno != EAGAIN) {
    Close();
  }
  return open();
}

void RawPeer::Drain() {
  std::array<char, 65536> bytes;
  while (open()) {
    const ssize_t size = recv(socket_, bytes.data(), bytes.size(), 0);
    if (size < 0 && errno == EAGAIN) return;
    if (size <= 0) Close();
  }
}

int RawPeer::Release() { return std::exchange(socket_, -1); }

void RawPeer::CloseHalf() {
  if (open()) shutdown(socket_, SHUT_WR);
}

}  // namespace idempotency::proof
