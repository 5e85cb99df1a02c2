#include "service/listener/connection_watch.h"

#include <algorithm>

namespace idempotency::service {
namespace {

// A call and its cancellation are two frames, with at least this many bytes together.
constexpr uint64_t kLeastCancelledBytes = 24;
constexpr uint64_t kWorthALook = 16 * 1024;

uint64_t Open(const CallCounts& counts) {
  return counts.started - std::min(counts.started, counts.succeeded + counts.failed);
}

}  // namespace

ConnectionWatch::ConnectionWatch(const Allowance::Size& cancels, uint32_t max_calls,
                                 core::Duration now)
    : max_cancelled_at_once_(cancels.at_once),
      max_calls_(max_calls),
      cancels_(cancels, now),
      looked_at_(now),
      taken_at_(now) {}

bool ConnectionWatch::IsWorthALook(uint64_t bytes_received) const {
  const uint64_t enough = kLeastCancelledBytes * max_cancelled_at_once_;
  return bytes_received >= bytes_at_look_ + std::min(kWorthALook, enough);
}

bool ConnectionWatch::IsDeaf(const SocketBytes& bytes, const CallCounts& counts,
                             core::Duration now) {
  if (bytes.unsent == 0 || bytes.acknowledged != acknowledged_) {
    bytes_at_taking_ = bytes.received;
    counts_at_taking_ = counts;
    taken_at_ = now;
  }
  acknowledged_ = bytes.acknowledged;
  const bool calls =
      counts.started != counts_at_taking_.started || counts.messages != counts_at_taking_.messages;
  const uint64_t more = bytes.received - bytes_at_taking_;
  if (!calls) return more > kMaxDeafBytes;
  return more > kMaxDeafBytesOfCalls && now - taken_at_ >= kDeafPatience;
}

bool ConnectionWatch::IsNeverEnding(uint64_t bytes_received, uint64_t open) const {
  const uint64_t messages = open >= kMostUnfinishedBytes / kMaxUnfinishedBytes
                                ? kMostUnfinishedBytes
                                : kMaxUnfinishedBytes * open;
  return bytes_received - bytes_at_progress_ > kMaxWordlessBytes + messages;
}

bool ConnectionWatch::HasNotBegun(uint64_t bytes_received, const CallCounts& counts) const {
  return counts.started == 0 && bytes_received - bytes_at_progress_ > kMaxBytesBeforeACall;
}

Conduct ConnectionWatch::Look(const SocketBytes& counted, const CallCounts& counts,
                              core::Duration now) {
  SocketBytes bytes = counted;
  bytes.received = std::max(bytes.received, bytes_at_look_);
  const core::Duration span = now - looked_at_;
  const bool may_go_on = cancels_.SpendSpread(counts.failed - counts_.failed, now);
  const bool is_deaf = IsDeaf(bytes, counts, now);
  // Not by the end of a call: a peer can arrange for many of those, one after the other.
  if (counts.started != counts_.started || counts.messages != counts_.messages) {
    bytes_at_progress_ = bytes.received;
    open_at_progress_ = std::max(Open(counts_), Open(counts));
  }
  const uint64_t forgiven = kForgivenBytesPerSecond * static_cast<uint64_t>(span.count()) / 1000;
  bytes_at_progress_ = std::min(bytes.received, bytes_at_progress_ + forgiven);
  looked_at_ = now;
  bytes_at_look_ = bytes.received;
  counts_ = counts;
  if (!may_go_on) return Conduct::kCancelFlood;
  if (Open(counts) > max_calls_) return Conduct::kTooManyCalls;
  if (is_deaf) return Conduct::kDeaf;
  if (HasNotBegun(bytes.received, counts)) return Conduct::kNeverEnding;
  if (!IsNeverEnding(bytes.received, std::max(Open(counts), open_at_progress_))) {
    endless_since_.reset();
  } else if (!endless_since_) {
    endless_since_ = now;
  }
  const bool is_endless = endless_since_ && now - *endless_since_ >= kEndlessPatience;
  return is_endless ? Conduct::kNeverEnding : Conduct::kFine;
}

}  // namespace idempotency::service
