// What an overload has to look like, and what says otherwise.
//
// Thread safety: pure functions over values.
#ifndef IDEMPOTENCY_TESTS_PROOF_OVERLOAD_JUDGE_H_
#define IDEMPOTENCY_TESTS_PROOF_OVERLOAD_JUDGE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace idempotency::proof {

// The answers of one tenth of a second.
struct Tenth {
  uint64_t good = 0;     // Reserves that were granted before their deadline
  uint64_t refused = 0;  // for load
  uint64_t late = 0;     // the deadline came first
  std::vector<float> good_ms;
  std::vector<float> refused_ms;
};

// All answers between two moments, tenth by tenth.
struct Phase {
  std::vector<Tenth> tenths;
  uint64_t finished = 0;             // Complete, MarkUnresolved, Release: applied
  uint64_t without_retry_info = 0;   // of the refused
  double longest_delay_seconds = 0;  // that a refusal asked for
  std::vector<std::string> wrong;    // answers that nobody may get; the first few
};

// Tenths [from, to) together, as a rate a second.
double GoodPerSecond(const Phase& phase, size_t from, size_t to);
double RefusedPerSecond(const Phase& phase, size_t from, size_t to);
// Zero where there are none.
double Percentile(std::vector<float> values, double percent);
std::vector<float> GoodMs(const Phase& phase, size_t from, size_t to);
std::vector<float> RefusedMs(const Phase& phase, size_t from, size_t to);

// One overload, between two times of normal load.
struct Round {
  double normal_before = 0;  // goodput a second
  double overload = 0;
  double normal_after = 0;
  double offered_per_second = 0;  // during the overload: served, refused and late
  double refused_per_second = 0;
  double late_per_second = 0;
  double good_p99_ms = 0;  // during the overload
  double refused_p99_ms = 0;
  uint64_t finished = 0;  // during the overload
  uint64_t without_retry_info = 0;
  double longest_delay_seconds = 0;
  double recovery_seconds = 0;  // negative: not within the time looked at
};

inline constexpr double kLeastGoodput = 0.8;     // of normal
inline constexpr double kLeastOffered = 8;       // times normal; else it was no overload
inline constexpr double kMostRefusalTime = 0.5;  // p99 of refusals to p99 of those served
inline constexpr double kMostRecoverySeconds = 5;
// When it is over: this much of normal goodput, and p99 within so many times of normal.
inline constexpr double kRecoveredGoodput = 0.8;
inline constexpr double kRecoveredLatency = 3;

double Ratio(const Round& round);
// Seconds from the begin of `after` until all is normal; -1: never.
double RecoverySeconds(const Phase& after, double normal, double normal_p99_ms);

// Everything that is not as it has to be; medians over the rounds, so that one disturbed by
// something else on the machine does not decide.
std::vector<std::string> Judge(const std::vector<Round>& rounds);

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_OVERLOAD_JUDGE_H_
