// Whatever gRPC reads of a connection goes by a FrameGuard first.
//
// gRPC 1.51 has no place for that, and Debian's no fix for what it is needed against
// (frame_guard.h). So this file defines recvmsg and SSL_read for the program, as an allocator
// defines malloc: gRPC's calls come here, what was read is looked at, and the caller gets it, or
// the error of a connection that was reset. Everything else that reads with them is let through.
//
// Over TLS the descriptor of what was decrypted is not known: only headers are looked at, the
// connection ends, and its peer is not kept out.
#ifndef IDEMPOTENCY_SERVICE_LISTENER_READ_GUARD_H_
#define IDEMPOTENCY_SERVICE_LISTENER_READ_GUARD_H_

#include <cstdint>
#include <memory>

#include "service/listener/frame_guard.h"

namespace idempotency::service {

struct GuardedConnection;

// For one connection in the clear, from before anything is read of it. Thread safety: none; readers
// may be on any thread.
class ReadGuard {
 public:
  // It guards until the descriptor's number belongs to another one, also when this has gone: gRPC
  // may still read what came before the end.
  ReadGuard(int descriptor, const FrameLimits& limits);
  ~ReadGuard() = default;
  ReadGuard(const ReadGuard&) = delete;
  ReadGuard& operator=(const ReadGuard&) = delete;

  // Whether its peer has sent too much, and nothing more of it is read.
  FrameVerdict verdict() const;
  // How many of its calls have been answered so far.
  void SetAnswered(uint64_t answered);

 private:
  const std::shared_ptr<GuardedConnection> connection_;
};

// Connections over TLS may have headers as large as the largest that was set.
void AllowTlsMetadata(uint64_t bytes);
// How many connections over TLS have been cut off since this was last asked, by anybody.
uint64_t TakeTlsCutOffs();

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_LISTENER_READ_GUARD_H_
