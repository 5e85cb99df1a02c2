#include "service/listener/call_counter.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "grpc/grpc.h"
#include "grpc/support/alloc.h"

namespace idempotency::service {
namespace {

constexpr intptr_t kPage = 500;
// Connections that ended before they were first seen here are not forgotten by anybody.
constexpr size_t kMaxSockets = 50'000;

struct FreeText {
  void operator()(char* text) const { gpr_free(text); }
};
using Text = std::unique_ptr<char, FreeText>;

// What stands behind `name` up to the next quotation mark, from *from on; moves *from behind it.
// Empty where there is none. gRPC's names and numbers hold nothing that JSON has to escape.
std::string_view TextIn(std::string_view json, std::string_view name, size_t* from) {
  const std::string wanted = absl::StrCat("\"", std::string(name), "\":\"");
  const size_t at = json.find(wanted, *from);
  if (at == std::string_view::npos) return {};
  const size_t begin = at + wanted.size();
  const size_t end = std::min(json.find('"', begin), json.size());
  *from = end;
  return json.substr(begin, end - begin);
}

uint64_t ToNumber(std::string_view text) {
  uint64_t number = 0;
  return absl::SimpleAtoi(std::string(text), &number) ? number : 0;
}

}  // namespace

uint64_t NumberIn(std::string_view json, std::string_view name) {
  size_t from = 0;
  return ToNumber(TextIn(json, name, &from));
}

std::optional<CallCounts> CallCounter::Count(const std::string& connection) {
  const auto socket = sockets_.find(connection);
  if (socket == sockets_.end()) return std::nullopt;
  const Text json(grpc_channelz_get_socket(socket->second));
  if (json == nullptr) return std::nullopt;
  const std::string_view text(json.get());
  return CallCounts{NumberIn(text, "streamsStarted"), NumberIn(text, "streamsSucceeded"),
                    NumberIn(text, "streamsFailed"), NumberIn(text, "messagesReceived")};
}

void CallCounter::Refresh() {
  if (sockets_.size() > kMaxSockets) {
    sockets_.clear();
    newest_ = 0;
  }
  const Text json(grpc_channelz_get_servers(0));
  if (json == nullptr) return;
  const std::string_view servers(json.get());
  const intptr_t before = newest_;
  intptr_t newest = newest_;
  for (size_t from = 0;;) {
    const std::string_view server = TextIn(servers, "serverId", &from);
    if (server.empty()) break;
    // Each server of the process has its own connections, numbered together.
    newest_ = before;
    ReadSockets(static_cast<intptr_t>(ToNumber(server)));
    newest = std::max(newest, newest_);
  }
  newest_ = newest;
}

void CallCounter::ReadSockets(intptr_t server) {
  for (size_t found = static_cast<size_t>(kPage); found == static_cast<size_t>(kPage);) {
    const Text json(grpc_channelz_get_server_sockets(server, newest_ + 1, kPage));
    if (json == nullptr) return;
    const std::string_view sockets(json.get());
    found = 0;
    for (size_t from = 0;;) {
      // {"name":"chttp2 ipv4:127.0.0.1:34567","socketId":"12"}
      const std::string_view name = TextIn(sockets, "name", &from);
      const std::string_view id = TextIn(sockets, "socketId", &from);
      if (name.empty() || id.empty()) break;
      ++found;
      newest_ = std::max(newest_, static_cast<intptr_t>(ToNumber(id)));
      const size_t space = name.rfind(' ');
      sockets_.insert_or_assign(std::string(name.substr(space + 1)),
                                static_cast<intptr_t>(ToNumber(id)));
    }
  }
}

}  // namespace idempotency::service
