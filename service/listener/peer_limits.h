// How many connections there may be, and of whom: pure decisions, without sockets or a clock.
#ifndef IDEMPOTENCY_SERVICE_LISTENER_PEER_LIMITS_H_
#define IDEMPOTENCY_SERVICE_LISTENER_PEER_LIMITS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "keystore/core/time.h"
#include "service/listener/allowance.h"

namespace idempotency::service {

// Calls and streams at once of one connection, as each is told. More than may wait for one key, so
// that those who wait for it never keep out the Complete that they wait for. Each takes 20 KiB in
// gRPC 1.51 before it has said a word.
inline constexpr uint32_t kMaxStreamsPerConnection = 1'250;

// Of all headers of a call together, names and 32 bytes each included.
inline constexpr uint32_t kMaxHeaderListBytes = 8 * 1024;

// Who has more than this is cut off: beyond what it was told, since gRPC clears calls away later
// than they end.
inline constexpr uint32_t MaxCallsFor(uint32_t max_streams) {
  return max_streams + max_streams / 2;
}

inline constexpr core::Duration kCancelWindow{10'000};

// Each at least 1.
struct ConnectionLimits {
  uint32_t max_connections = 10'000;
  uint32_t max_connections_per_peer = 1'000;
  // Of one connection, in kCancelWindow.
  uint32_t max_cancelled_calls = 10'000;
  // Of one connection at once, as it is told.
  uint32_t max_streams = kMaxStreamsPerConnection;
  uint32_t max_metadata_bytes = kMaxHeaderListBytes;
};

// How many of max_cancelled_calls may be cancelled at once: gRPC clears a call away long after it
// has ended, so that each holds 20 KiB for a while. Whoever leaves cancels all that it has open,
// and a fifth more may have been cancelled just before.
constexpr Allowance::Size CancelsWithin(const ConnectionLimits& limits) {
  const uint32_t most = limits.max_cancelled_calls;
  return {
      .at_once = std::min(most, std::max(most / 8, limits.max_streams + limits.max_streams / 5)),
      .in_window = most,
      .window = kCancelWindow};
}

// A peer whose connection was closed for what it did is kept out for this long, doubled for each
// further time, up to the longest; forgotten once it has kept still for as long as the longest.
inline constexpr core::Duration kFirstKeptOut{1'000};
inline constexpr core::Duration kLongestKeptOut{60'000};
// Peers that are remembered for what they did.
inline constexpr size_t kMaxRemembered = 10'000;

enum class Admittance : uint8_t {
  kAdmitted,
  kTooMany,        // connections in all
  kTooManyOfPeer,  // of this peer
  kKeptOut,        // for what it did
};

// Thread safety: none. `now` is time that only rises, of any origin.
class PeerLimits {
 public:
  explicit PeerLimits(const ConnectionLimits& limits) : limits_(limits) {}

  // Where the answer is kAdmitted, the connection counts until Left.
  Admittance Enter(const std::string& peer, core::Duration now);
  void Left(const std::string& peer);
  // One of its connections is closed for what it did.
  void Misbehaved(const std::string& peer, core::Duration now);

  size_t connections() const { return connections_; }
  // Peers that something is known of.
  size_t remembered() const { return peers_.size(); }

 private:
  struct Peer {
    uint32_t connections = 0;
    uint32_t strikes = 0;
    core::Duration kept_out_until{0};
  };
  static bool IsForgotten(const Peer& peer, core::Duration now);
  // Drops peers that nothing has to be remembered of.
  void Forget(core::Duration now);

  const ConnectionLimits limits_;
  size_t connections_ = 0;
  std::map<std::string, Peer> peers_;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_LISTENER_PEER_LIMITS_H_
