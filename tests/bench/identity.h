// Who is who in a run: the n-th operation's key, scope, digest and body, computed and not stored,
// so that ten million keys cost the load generator no memory.
//
// Thread safety: everything here is a pure function.
#ifndef IDEMPOTENCY_TESTS_BENCH_IDENTITY_H_
#define IDEMPOTENCY_TESTS_BENCH_IDENTITY_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace idempotency::bench {

inline constexpr size_t kKeyBytes = 36;  // a UUID
inline constexpr size_t kScopeBytes = 11;
inline constexpr size_t kDigestBytes = 32;
inline constexpr size_t kAttemptBytes = 32;

// The first byte of an attempt id tells the echo server, which knows nothing, what to answer. The
// service does not look at it.
inline constexpr char kEchoAcquired = 'a';
inline constexpr char kEchoCompleted = 'c';
inline constexpr char kEchoInProgress = 'b';

// Mixes the bits of `value` (the finaliser of SplitMix64).
inline uint64_t Mix64(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// One operation as its caller names it. Fixed sizes, so that it is patched into a message.
struct Identity {
  char key[kKeyBytes];
  char scope[kScopeBytes];
  char digest[kDigestBytes];
  char attempt[kAttemptBytes];
  uint64_t hash = 0;
};

// The `index`-th operation of the run with this seed; `attempt` tells its attempts apart.
Identity MakeIdentity(uint64_t seed, uint64_t index, uint64_t scopes, uint64_t attempt, char hint);

// The answer that is stored for an operation: a JSON object of `bytes` bytes (at least a few
// dozen; shorter ones are cut), different for each.
std::string MakeBody(uint64_t hash, size_t bytes);

}  // namespace idempotency::bench

#endif  // IDEMPOTENCY_TESTS_BENCH_IDENTITY_H_
