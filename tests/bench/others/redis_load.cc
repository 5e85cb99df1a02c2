#include "tests/bench/others/redis_load.h"

#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::bench {
namespace {

constexpr size_t kReadBytes = size_t{64} * 1024;
constexpr char kNamespace[] = "bench";

int ConnectTo(const std::string& target) {
  const HostAndPort at = SplitTarget(target);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(at.host.c_str(), at.port.c_str(), &hints, &found) != 0) {
    Die("cannot resolve " + target);
  }
  const int made = socket(found->ai_family, SOCK_STREAM, 0);
  const bool connected = made >= 0 && connect(made, found->ai_addr, found->ai_addrlen) == 0;
  freeaddrinfo(found);
  if (!connected) Die("cannot connect to " + target);
  const int on = 1;
  setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return made;
}

// False where the peer has gone. What is written is far less than a socket's buffer holds.
bool WriteAll(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (written <= 0) {
      if (errno == EINTR) continue;
      return false;
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

void AppendBulk(std::string_view text, std::string* out) {
  absl::StrAppend(out, "$", text.size(), "\r\n", absl::string_view(text.data(), text.size()),
                  "\r\n");
}

std::string_view KeyOf(const Identity& id) { return {id.key, kKeyBytes}; }

// --- Replies ------------------------------------------------------------------------------

bool TakeLine(std::string_view* in, std::string_view* line) {
  const size_t end = in->find("\r\n");
  if (end == std::string_view::npos) return false;
  *line = in->substr(0, end);
  in->remove_prefix(end + 2);
  return true;
}

bool ToNumber(std::string_view text, int64_t* number) {
  return std::from_chars(text.data(), text.data() + text.size(), *number).ec == std::errc();
}

// False where not all of it is there yet; *in is then left as it was.
bool TakeReply(std::string_view* in, RedisReply* reply) {
  std::string_view rest = *in;
  std::string_view line;
  if (!TakeLine(&rest, &line) || line.empty()) return false;
  reply->kind = line[0];
  reply->line = line.substr(1);
  int64_t size = 0;
  if (reply->kind == '$' && ToNumber(reply->line, &size) && size >= 0) {
    if (rest.size() < static_cast<size_t>(size) + 2) return false;
    reply->line = rest.substr(0, static_cast<size_t>(size));
    rest.remove_prefix(static_cast<size_t>(size) + 2);
  }
  if (reply->kind == '*' && ToNumber(reply->line, &size)) {
    reply->count = 0;
    for (int64_t i = 0; i < size; ++i) {
      RedisReply item;
      if (!TakeReply(&rest, &item)) return false;
      if (reply->count < std::size(reply->items)) reply->items[reply->count++] = item.line;
    }
  }
  *in = rest;
  return true;
}

}  // namespace

struct RedisLoad::Connection : Peer {
  ~Connection() override {
    if (socket >= 0) close(socket);
  }

  std::string out;
  std::vector<char> in = std::vector<char>(kReadBytes);
  size_t held = 0;  // bytes of it: the beginning of a reply that is not complete yet
  size_t answered = 0;
};

RedisLoad::RedisLoad(Plan* plan, std::string script)
    : SocketLoad(plan), script_(std::move(script)) {}

std::unique_ptr<SocketLoad::Peer> RedisLoad::NewPeer() {
  auto connection = std::make_unique<Connection>();
  connection->socket = ConnectTo(options().target);
  if (!script_.empty() && digest_.empty()) LoadScript(connection->socket);
  return connection;
}

void RedisLoad::LoadScript(int socket) {
  std::string command = "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n";
  AppendBulk(script_, &command);
  if (!WriteAll(socket, command)) Die("cannot load the script");
  char buffer[1024];
  std::string_view rest;
  RedisReply reply;
  for (size_t size = 0; !TakeReply(&rest, &reply);) {
    const ssize_t got = recv(socket, buffer + size, sizeof(buffer) - size, 0);
    if (got <= 0) Die("cannot load the script");
    size += static_cast<size_t>(got);
    rest = {buffer, size};
  }
  if (reply.kind != '$') Die(absl::StrCat("the script: ", std::string(reply.line)));
  digest_ = std::string(reply.line);
  // EVALSHA digest, two keys (the operation and the counter of tokens), seven arguments.
  head_ = "*12\r\n$7\r\nEVALSHA\r\n";
  AppendBulk(digest_, &head_);
  head_ += "$1\r\n2\r\n";
}

void RedisLoad::AppendCommand(const Caller& caller, std::string* out) const {
  const Identity& id = caller.id();
  const std::string_view scope(id.scope, kScopeBytes);
  const std::string_view digest(id.digest, kDigestBytes);
  const std::string_view attempt(id.attempt, kAttemptBytes);
  std::string key;
  key.append(kNamespace).append("/").append(scope).append("/").append(KeyOf(id));
  const std::string lease = absl::StrCat(options().shape.lease_seconds);
  if (script_.empty()) {
    // SET key value NX EX seconds; the value is what a caller needs to find again.
    out->append("*6\r\n$3\r\nSET\r\n");
    AppendBulk(key, out);
    AppendBulk(absl::StrCat(absl::string_view(digest.data(), digest.size()),
                            absl::string_view(attempt.data(), attempt.size())),
               out);
    out->append("$2\r\nNX\r\n$2\r\nEX\r\n");
    AppendBulk(lease, out);
    return;
  }
  out->append(head_);
  AppendBulk(key, out);
  AppendBulk("tokens", out);
  AppendBulk("sha256/bytes-1", out);
  AppendBulk(digest, out);
  AppendBulk(attempt, out);
  AppendBulk(lease, out);
  AppendBulk("bench-1", out);
  AppendBulk("86400", out);    // retention
  AppendBulk("2592000", out);  // memory
}

void RedisLoad::Send(Slot* slot) {
  auto* const connection = static_cast<Connection*>(slot);
  connection->out.clear();
  connection->answered = 0;
  for (const uint32_t index : connection->active) {
    AppendCommand(connection->callers[index], &connection->out);
  }
  // Where it cannot be written, the thread that reads notices.
  (void)WriteAll(connection->socket, connection->out);
}

Answer RedisLoad::ToAnswer(const Identity& id, const RedisReply& reply) const {
  Answer answer;
  answer.key = KeyOf(id);
  const bool set = script_.empty() && reply.line == "OK";
  const bool acquired = !script_.empty() && reply.count == 4 && reply.items[0] == "ACQUIRED";
  int64_t token = set ? 1 : 0;
  if (acquired && !ToNumber(reply.items[1], &token)) token = 0;
  answer.token = static_cast<uint64_t>(token);
  answer.outcome = set || acquired ? v1::RESERVE_OUTCOME_ACQUIRED : 0;
  answer.is_error = reply.kind == '-';
  answer.message = reply.line;
  return answer;
}

void RedisLoad::OnReadable(Peer* peer) {
  auto* const connection = static_cast<Connection*>(peer);
  std::vector<char>& in = connection->in;
  if (connection->held == in.size()) in.resize(2 * in.size());
  const ssize_t got = recv(connection->socket, in.data() + connection->held,
                           in.size() - connection->held, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) return OnLost(peer, "the connection was closed");
  const int64_t now = MonotonicNanos();
  std::string_view rest(in.data(), connection->held + static_cast<size_t>(got));
  std::vector<std::pair<uint32_t, Answer>> answers;
  RedisReply reply;
  while (connection->answered < connection->active.size() && TakeReply(&rest, &reply)) {
    const uint32_t index = connection->active[connection->answered++];
    answers.emplace_back(index, ToAnswer(connection->callers[index].id(), reply));
  }
  // The last of them sends the next commands, but only this thread has what was read.
  for (const auto& [index, answer] : answers) OnAnswer(peer, index, answer, now);
  std::memmove(in.data(), rest.data(), rest.size());
  connection->held = rest.size();
}

}  // namespace idempotency::bench
