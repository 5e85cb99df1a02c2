// How engines report: lines to whoever opened them, never to a file or stream of their own.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_ENGINE_LOG_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_ENGINE_LOG_H_

#include <functional>
#include <string_view>

namespace idempotency::keystore {

inline constexpr int kLogDebug = 0;
inline constexpr int kLogInfo = 1;
inline constexpr int kLogWarning = 2;
inline constexpr int kLogError = 3;

// Must not block, and may be called from any thread. Never empty inside the engines.
using LogFunction = std::function<void(int level, std::string_view line)>;

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_ENGINE_LOG_H_
