// How much the large answers take that have been made and are not sent yet. A caller that takes
// nothing keeps its answers in the transport; ten thousand calls that replay 3 MiB each would be
// 30 GiB.
//
// Thread safety: all methods may be called from any thread.
#ifndef IDEMPOTENCY_SERVICE_FRONT_HELD_ANSWERS_H_
#define IDEMPOTENCY_SERVICE_FRONT_HELD_ANSWERS_H_

#include <atomic>
#include <cstddef>

namespace idempotency::service {

// Of all unary calls and batches together.
inline constexpr size_t kMaxHeldAnswerBytes = size_t{256} * 1024 * 1024;

class HeldAnswers {
 public:
  explicit HeldAnswers(size_t max_bytes = kMaxHeldAnswerBytes) : max_bytes_(max_bytes) {}

  // False where there is no room for it; then nothing is held.
  [[nodiscard]] bool Hold(size_t bytes) {
    if (bytes_.fetch_add(bytes) + bytes <= max_bytes_) return true;
    bytes_.fetch_sub(bytes);
    return false;
  }
  void LetGo(size_t bytes) { bytes_.fetch_sub(bytes); }
  size_t bytes() const { return bytes_; }

 private:
  const size_t max_bytes_;
  std::atomic<size_t> bytes_{0};
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_FRONT_HELD_ANSWERS_H_
