#include "service/listener/read_guard.h"

#include <dlfcn.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "keystore/clock.h"

// The sanitizers' own, which must see what is read; nothing in other builds.
extern "C" __attribute__((weak)) ssize_t __interceptor_recvmsg(int, msghdr*, int);  // NOLINT

namespace idempotency::service {

namespace {

core::Duration Now() { return keystore::ReadKernelTime().boot; }

// A socket's own number, which no other ever has; 0: not known.
uint64_t CookieOf(int descriptor) {
  uint64_t cookie = 0;
  socklen_t size = sizeof(cookie);
  if (getsockopt(descriptor, SOL_SOCKET, SO_COOKIE, &cookie, &size) != 0) return 0;
  return cookie;
}

}  // namespace

struct GuardedConnection {
  GuardedConnection(int descriptor, const FrameLimits& limits)
      : cookie(CookieOf(descriptor)), frames(limits, Now()) {}

  const uint64_t cookie;
  // Of whoever reads: gRPC has one reader at a time for a connection.
  FrameGuard frames;
  std::atomic<uint64_t> answered{0};
  std::atomic<FrameVerdict> verdict{FrameVerdict::kFine};
};

namespace {

// By descriptor. A few locks, since everything that is read asks here.
class Guarded {
 public:
  void Add(int descriptor, std::shared_ptr<GuardedConnection> connection) {
    Shard& shard = ShardOf(descriptor);
    absl::MutexLock lock(&shard.mutex);
    shard.connections.insert_or_assign(descriptor, std::move(connection));
  }

  // Where it is still that one.
  void Remove(int descriptor, const std::shared_ptr<GuardedConnection>& connection) {
    Shard& shard = ShardOf(descriptor);
    absl::MutexLock lock(&shard.mutex);
    const auto found = shard.connections.find(descriptor);
    if (found != shard.connections.end() && found->second == connection) {
      shard.connections.erase(found);
    }
  }

  std::shared_ptr<GuardedConnection> Find(int descriptor) {
    Shard& shard = ShardOf(descriptor);
    absl::MutexLock lock(&shard.mutex);
    const auto found = shard.connections.find(descriptor);
    return found == shard.connections.end() ? nullptr : found->second;
  }

 private:
  struct alignas(64) Shard {
    absl::Mutex mutex;
    absl::flat_hash_map<int, std::shared_ptr<GuardedConnection>> connections ABSL_GUARDED_BY(mutex);
  };

  Shard& ShardOf(int descriptor) {
    return shards_[static_cast<size_t>(descriptor) % shards_.size()];
  }

  std::array<Shard, 64> shards_;
};

// Read until the process ends, by whatever is left then.
Guarded& TheGuarded() {
  static Guarded* const guarded = new Guarded;
  return *guarded;
}

std::atomic<uint64_t> tls_cut_offs{0};

FrameVerdict TakeAll(FrameGuard* frames, const msghdr& message, size_t size) {
  FrameVerdict verdict = FrameVerdict::kFine;
  const core::Duration now = Now();
  for (size_t i = 0; i < message.msg_iovlen && size > 0; ++i) {
    const iovec& piece = message.msg_iov[i];
    const size_t some = std::min(size, piece.iov_len);
    verdict = frames->Take({static_cast<const char*>(piece.iov_base), some}, now);
    size -= some;
  }
  return verdict;
}

void Forget(int descriptor) {
  const int error = errno;
  if (const auto connection = TheGuarded().Find(descriptor)) {
    TheGuarded().Remove(descriptor, connection);
  }
  errno = error;
}

// False: the peer has sent too much.
bool MayHave(int descriptor, const msghdr& message, size_t size) {
  const std::shared_ptr<GuardedConnection> connection = TheGuarded().Find(descriptor);
  if (connection == nullptr) return true;
  connection->frames.SetAnswered(connection->answered);
  const FrameVerdict verdict = TakeAll(&connection->frames, message, size);
  if (verdict == FrameVerdict::kFine) return true;
  // The number may have passed on to another socket, which is none of ours.
  if (CookieOf(descriptor) != connection->cookie) {
    TheGuarded().Remove(descriptor, connection);
    return true;
  }
  connection->verdict = verdict;
  // gRPC forgets an error where it has just read something else. This it finds again, and the
  // listener is told.
  shutdown(descriptor, SHUT_RD);
  return false;
}

// --- TLS -----------------------------------------------------------------------------------------

std::atomic<uint64_t> tls_metadata_bytes{FrameLimits().metadata_bytes};

void FreeFrames(void* /*ssl*/, void* frames, CRYPTO_EX_DATA* /*all*/, int /*index*/, long /*arg*/,
                void* /*arg*/) {
  delete static_cast<FrameGuard*>(frames);
}

// False: the peer has sent too much.
bool MayHave(SSL* ssl, std::string_view bytes) {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, &FreeFrames);
  auto* frames = static_cast<FrameGuard*>(SSL_get_ex_data(ssl, index));
  if (frames == nullptr) {
    // Whatever was agreed on: what does not begin as HTTP/2 does is not looked at.
    if (SSL_is_server(ssl) == 0) return true;
    auto made = std::make_unique<FrameGuard>(
        // What a connection may cancel is its listener's business, which is not known here;
        // cancelled calls are counted from outside as well (connection_watch.h).
        FrameLimits{.metadata_bytes = tls_metadata_bytes}, Now());
    if (SSL_set_ex_data(ssl, index, made.get()) != 1) return false;
    frames = made.release();
  }
  return frames->Take(bytes, Now()) == FrameVerdict::kFine;
}

// The one that would have been called were it not for ours.
template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

ssize_t ReadMessage(int descriptor, msghdr* message, int flags) {
  static const auto next = Next<decltype(recvmsg)>("recvmsg");
  if (__interceptor_recvmsg != nullptr) return __interceptor_recvmsg(descriptor, message, flags);
  return next(descriptor, message, flags);
}

}  // namespace

ReadGuard::ReadGuard(int descriptor, const FrameLimits& limits)
    : connection_(std::make_shared<GuardedConnection>(descriptor, limits)) {
  TheGuarded().Add(descriptor, connection_);
}

FrameVerdict ReadGuard::verdict() const { return connection_->verdict; }

void ReadGuard::SetAnswered(uint64_t answered) { connection_->answered = answered; }

void AllowTlsMetadata(uint64_t bytes) {
  uint64_t most = tls_metadata_bytes;
  while (most < bytes && !tls_metadata_bytes.compare_exchange_weak(most, bytes)) {
  }
}

uint64_t TakeTlsCutOffs() { return tls_cut_offs.exchange(0); }

}  // namespace idempotency::service

// --- For the whole program -----------------------------------------------------------------------

extern "C" ssize_t recvmsg(int descriptor, msghdr* message, int flags) {
  const ssize_t size = idempotency::service::ReadMessage(descriptor, message, flags);
  if ((flags & (MSG_PEEK | MSG_ERRQUEUE)) != 0) return size;
  // It has ended, and its number may soon be another's.
  const bool has_ended = size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR);
  if (has_ended) idempotency::service::Forget(descriptor);
  if (size <= 0 || idempotency::service::MayHave(descriptor, *message, static_cast<size_t>(size))) {
    return size;
  }
  errno = ECONNRESET;
  return -1;
}

extern "C" int SSL_read(SSL* ssl, void* bytes, int most) {
  static const auto next = idempotency::service::Next<decltype(SSL_read)>("SSL_read");
  const int size = next(ssl, bytes, most);
  if (size <= 0 || idempotency::service::MayHave(
                       ssl, {static_cast<const char*>(bytes), static_cast<size_t>(size)})) {
    return size;
  }
  ++idempotency::service::tls_cut_offs;
  // What SSL_get_error looks for, to call it an error of the protocol.
  ERR_raise(ERR_LIB_USER, ERR_R_OPERATION_FAIL);
  return -1;
}
