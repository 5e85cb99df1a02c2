// Draws that depend on nothing but a seed: the same on every machine and with every library.
//
// Thread safety: none; a value.
#ifndef IDEMPOTENCY_TESTS_PROOF_SIM_RANDOM_H_
#define IDEMPOTENCY_TESTS_PROOF_SIM_RANDOM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace idempotency::proof {

// One step of splitmix64: good bits, and any two seeds give unrelated draws.
constexpr uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class Random {
 public:
  explicit Random(uint64_t seed) : state_(Mix(seed)) {}
  // The draws of one part of a whole: independent of how much the other parts draw.
  Random(uint64_t seed, uint64_t part) : state_(Mix(Mix(seed) ^ Mix(~part))) {}

  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15u;
    return Mix(state_);
  }
  // 0 .. limit - 1; limit is above zero.
  uint64_t Below(uint64_t limit) { return Next() % limit; }
  bool OneIn(uint64_t chance) { return Below(chance) == 0; }
  bool Percent(int percent) { return Below(100) < static_cast<uint64_t>(percent); }
  template <typename T>
  const T& Any(const std::vector<T>& values) {
    return values[Below(values.size())];
  }

 private:
  uint64_t state_;
};

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_SIM_RANDOM_H_
