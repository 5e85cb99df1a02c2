#include "service/listener/peer_limits.h"

#include <algorithm>
#include <iterator>

namespace idempotency::service {
namespace {

core::Duration KeptOutFor(uint32_t strikes) {
  core::Duration span = kFirstKeptOut;
  for (uint32_t i = 1; i < strikes && span < kLongestKeptOut; ++i) span *= 2;
  return std::min(span, kLongestKeptOut);
}

}  // namespace

bool PeerLimits::IsForgotten(const Peer& peer, core::Duration now) {
  return now >= peer.kept_out_until + kLongestKeptOut;
}

Admittance PeerLimits::Enter(const std::string& peer, core::Duration now) {
  const auto known = peers_.find(peer);
  if (known != peers_.end() && known->second.strikes > 0) {
    if (now < known->second.kept_out_until) return Admittance::kKeptOut;
    if (IsForgotten(known->second, now)) known->second.strikes = 0;
  }
  if (known != peers_.end() && known->second.connections >= limits_.max_connections_per_peer) {
    return Admittance::kTooManyOfPeer;
  }
  if (connections_ >= limits_.max_connections) return Admittance::kTooMany;
  ++connections_;
  ++peers_[peer].connections;
  return Admittance::kAdmitted;
}

void PeerLimits::Left(const std::string& peer) {
  const auto known = peers_.find(peer);
  if (known == peers_.end() || known->second.connections == 0) return;
  --connections_;
  --known->second.connections;
  if (known->second.connections == 0 && known->second.strikes == 0) peers_.erase(known);
}

void PeerLimits::Misbehaved(const std::string& peer, core::Duration now) {
  Peer& misbehaved = peers_[peer];
  // Its other connections may be found out while it is kept out already: one deed.
  if (misbehaved.strikes > 0 && now < misbehaved.kept_out_until) return;
  if (misbehaved.strikes > 0 && IsForgotten(misbehaved, now)) misbehaved.strikes = 0;
  ++misbehaved.strikes;
  misbehaved.kept_out_until = now + KeptOutFor(misbehaved.strikes);
  if (peers_.size() > kMaxRemembered) Forget(now);
}

void PeerLimits::Forget(core::Duration now) {
  // Those that have come back are remembered anyway; of the others, the ones whose time is up.
  for (const bool only_forgotten : {true, false}) {
    for (auto peer = peers_.begin(); peer != peers_.end();) {
      const bool goes = peer->second.connections == 0 &&
                        (IsForgotten(peer->second, now) ||
                         (!only_forgotten && now >= peer->second.kept_out_until));
      peer = goes ? peers_.erase(peer) : std::next(peer);
    }
    if (peers_.size() <= kMaxRemembered) return;
  }
}

}  // namespace idempotency::service
