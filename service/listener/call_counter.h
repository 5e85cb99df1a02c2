// How many calls a connection has carried, as gRPC counts them for channelz. What is counted
// there includes calls that never come to a handler.
#ifndef IDEMPOTENCY_SERVICE_LISTENER_CALL_COUNTER_H_
#define IDEMPOTENCY_SERVICE_LISTENER_CALL_COUNTER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "service/listener/connection_watch.h"

namespace idempotency::service {

// Thread safety: none. Each of its methods asks gRPC, which takes some microseconds.
class CallCounter {
 public:
  // `connection` as in PeerAddress. Nothing where gRPC does not know the connection (yet): its
  // handshake is not over, or it has ended.
  std::optional<CallCounts> Count(const std::string& connection);
  // The connection has ended.
  void Forget(const std::string& connection) { sockets_.erase(connection); }

  // Finds connections that gRPC has taken in since; once in a while is enough.
  void Refresh();

 private:
  void ReadSockets(intptr_t server);

  // gRPC's number of each connection; numbers rise.
  std::map<std::string, intptr_t, std::less<>> sockets_;
  intptr_t newest_ = 0;
};

// The number that belongs to a name in gRPC's JSON, where numbers are texts; 0: none.
uint64_t NumberIn(std::string_view json, std::string_view name);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_LISTENER_CALL_COUNTER_H_
