// Whether a connection behaves: pure decisions about what it has sent so far.
//
// gRPC 1.51 hands over every call that a peer begins, also those that it cancels at once, and no
// limit of its own counts those: a peer that goes on like this fills the memory. So does one that
// begins more calls than it was told there may be, and never says that it was told; one that pings
// without taking the answers; and one that sends what is neither a call nor a message. None of this
// is seen by the code that answers calls, so connections are looked at from outside, by the bytes
// and the calls that were counted of them. (Headers are looked at from inside: frame_guard.h.)
#ifndef IDEMPOTENCY_SERVICE_LISTENER_CONNECTION_WATCH_H_
#define IDEMPOTENCY_SERVICE_LISTENER_CONNECTION_WATCH_H_

#include <cstdint>
#include <optional>

#include "keystore/core/time.h"
#include "service/listener/allowance.h"
#include "service/listener/bytes_received.h"

namespace idempotency::service {

// Of one connection, since it began.
struct CallCounts {
  uint64_t started = 0;
  uint64_t succeeded = 0;  // ended with a status that was sent, also that of an error
  uint64_t failed = 0;     // ended otherwise: cancelled by the peer
  uint64_t messages = 0;   // received whole

  friend bool operator==(const CallCounts&, const CallCounts&) = default;
};

enum class Conduct : uint8_t {
  kFine,
  kCancelFlood,   // more calls cancelled than allowed
  kTooManyCalls,  // more at once than allowed; also those that gRPC has still to clear away
  kNeverEnding,   // bytes that never become a call or a message
  kDeaf,          // it goes on sending, and takes nothing of what answers it
};

// Bytes that may come while nothing is completed: so much for what is no message (headers,
// settings, pings; gRPC 1.51 may keep 2.6 KiB for a ping of 17 bytes), of which time forgives some,
// and for each open call its message, up to the most.
inline constexpr uint64_t kMaxWordlessBytes = 256 * 1024;
inline constexpr uint64_t kForgivenBytesPerSecond = 4 * 1024;
inline constexpr uint64_t kMaxUnfinishedBytes = 16 * 1024 * 1024;
inline constexpr uint64_t kMostUnfinishedBytes = 64 * 1024 * 1024;
// For how long there have to be more: gRPC may have taken megabytes of a call that it has not begun
// yet, where a machine is busy.
inline constexpr core::Duration kEndlessPatience{100};
// What gRPC may have taken before it has begun the first call: what it has just read and not looked
// at yet, a TLS record, settings. There is no other reason for more, so nothing is waited for.
inline constexpr uint64_t kMaxBytesBeforeACall = 48 * 1024;
// Bytes that may come of a peer that has no room for what is sent to it, and makes none. Where they
// bring calls or messages it is more, and only after a while: what it was sent may have got lost on
// the way, or its machine be busy.
inline constexpr uint64_t kMaxDeafBytes = 64 * 1024;
inline constexpr uint64_t kMaxDeafBytesOfCalls = 256 * 1024;
inline constexpr core::Duration kDeafPatience{250};

// Thread safety: none. `now` is time that only rises, of any origin.
class ConnectionWatch {
 public:
  // `cancels` may be cancelled, and `max_calls` be open.
  ConnectionWatch(const Allowance::Size& cancels, uint32_t max_calls, core::Duration now);

  // Whether as much has come since the last Look that it is worth counting calls.
  bool IsWorthALook(uint64_t bytes_received) const;
  Conduct Look(const SocketBytes& counted, const CallCounts& counts, core::Duration now);

 private:
  bool IsDeaf(const SocketBytes& bytes, const CallCounts& counts, core::Duration now);
  bool IsNeverEnding(uint64_t bytes_received, uint64_t open) const;
  bool HasNotBegun(uint64_t bytes_received, const CallCounts& counts) const;

  const uint64_t max_cancelled_at_once_;
  const uint64_t max_calls_;
  Allowance cancels_;
  core::Duration looked_at_;
  uint64_t bytes_at_look_ = 0;
  // When a call was last begun or a message completed.
  uint64_t bytes_at_progress_ = 0;
  // The calls that were open then, whose messages may have come since, though they have ended.
  uint64_t open_at_progress_ = 0;
  // Since when more than that have come without an end.
  std::optional<core::Duration> endless_since_;
  // When the peer last took something, or there was nothing to take.
  uint64_t bytes_at_taking_ = 0;
  CallCounts counts_at_taking_;
  core::Duration taken_at_;
  uint64_t acknowledged_ = 0;
  CallCounts counts_;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_LISTENER_CONNECTION_WATCH_H_
