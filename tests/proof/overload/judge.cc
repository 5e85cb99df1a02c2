#include "tests/proof/overload/judge.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <functional>

namespace idempotency::proof {
namespace {

constexpr double kTenthsASecond = 10;
// What is looked at for the end of an overload: half a second.
constexpr size_t kRecoveryTenths = 5;

double PerSecond(const Phase& phase, size_t from, size_t to, uint64_t Tenth::*what) {
  to = std::min(to, phase.tenths.size());
  if (from >= to) return 0;
  uint64_t sum = 0;
  for (size_t i = from; i < to; ++i) sum += phase.tenths[i].*what;
  return static_cast<double>(sum) * kTenthsASecond / static_cast<double>(to - from);
}

std::vector<float> Join(const Phase& phase, size_t from, size_t to,
                        std::vector<float> Tenth::*what) {
  std::vector<float> all;
  for (size_t i = from; i < std::min(to, phase.tenths.size()); ++i) {
    const std::vector<float>& some = phase.tenths[i].*what;
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

double Median(const std::vector<Round>& rounds, const std::function<double(const Round&)>& of) {
  std::vector<double> values;
  for (const Round& round : rounds) values.push_back(of(round));
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[(values.size() - 1) / 2];
}

std::string Text(const char* what, double is, double most) {
  char text[160];
  std::snprintf(text, sizeof text, what, is, most);
  return text;
}

}  // namespace

double GoodPerSecond(const Phase& phase, size_t from, size_t to) {
  return PerSecond(phase, from, to, &Tenth::good);
}

double RefusedPerSecond(const Phase& phase, size_t from, size_t to) {
  return PerSecond(phase, from, to, &Tenth::refused);
}

std::vector<float> GoodMs(const Phase& phase, size_t from, size_t to) {
  return Join(phase, from, to, &Tenth::good_ms);
}

std::vector<float> RefusedMs(const Phase& phase, size_t from, size_t to) {
  return Join(phase, from, to, &Tenth::refused_ms);
}

double Percentile(std::vector<float> values, double percent) {
  if (values.empty()) return 0;
  const auto place = static_cast<size_t>(static_cast<double>(values.size() - 1) * percent / 100);
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(place),
                   values.end());
  return static_cast<double>(values[place]);
}

double Ratio(const Round& round) {
  const double normal = (round.normal_before + round.normal_after) / 2;
  return normal > 0 ? round.overload / normal : 0;
}

double RecoverySeconds(const Phase& after, double normal, double normal_p99_ms) {
  for (size_t end = kRecoveryTenths; end <= after.tenths.size(); ++end) {
    const size_t from = end - kRecoveryTenths;
    if (GoodPerSecond(after, from, end) < kRecoveredGoodput * normal) continue;
    if (Percentile(GoodMs(after, from, end), 99) > kRecoveredLatency * normal_p99_ms) continue;
    return static_cast<double>(from) / kTenthsASecond;
  }
  return -1;
}

std::vector<std::string> Judge(const std::vector<Round>& rounds) {
  std::vector<std::string> wrong;
  const double ratio = Median(rounds, &Ratio);
  if (ratio < kLeastGoodput) {
    wrong.push_back(
        Text("goodput under overload is %.2f of normal, less than %.2f", ratio, kLeastGoodput));
  }
  const double offered = Median(rounds, [](const Round& r) {
    return r.normal_before > 0 ? r.offered_per_second / r.normal_before : 0;
  });
  if (offered < kLeastOffered) {
    wrong.push_back(Text("only %.1f times of what can be served was offered, less than %.1f",
                         offered, kLeastOffered));
  }
  // Else this was no overload, and proves nothing.
  if (Median(rounds, [](const Round& r) { return r.refused_per_second; }) <= 0) {
    wrong.emplace_back("nobody was refused");
  }
  const double refusal = Median(rounds, [](const Round& r) {
    return r.good_p99_ms > 0 ? r.refused_p99_ms / r.good_p99_ms : 1e9;
  });
  if (refusal > kMostRefusalTime) {
    wrong.push_back(Text("p99 of refusals is %.2f times that of those served, more than %.2f",
                         refusal, kMostRefusalTime));
  }
  const double recovery = Median(
      rounds, [](const Round& r) { return r.recovery_seconds < 0 ? 1e9 : r.recovery_seconds; });
  if (recovery > kMostRecoverySeconds) {
    wrong.push_back(Text("back at normal %.1f s after the overload, more than %.1f", recovery,
                         kMostRecoverySeconds));
  }
  for (const Round& round : rounds) {
    if (round.finished == 0) wrong.emplace_back("no holder could finish");
    if (round.without_retry_info > 0) wrong.emplace_back("a refusal without RetryInfo");
  }
  return wrong;
}

}  // namespace idempotency::proof
