// A server's metrics, as its --metrics_listen gives them, and how they are read from there.
#ifndef IDEMPOTENCY_CLIENT_CTL_METRICS_H_
#define IDEMPOTENCY_CLIENT_CTL_METRICS_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"

namespace idempotency::ctl {

struct Sample {
  std::map<std::string, std::string> labels;
  double value = 0;
};

// Samples by the names of their metrics, in Prometheus' text format. Pure.
class Metrics {
 public:
  // What is not a sample is left out.
  static Metrics Parse(std::string_view text);

  bool empty() const { return samples_.empty(); }
  const std::vector<Sample>& Get(const std::string& name) const;
  // Of all samples of that name, or of those with this label; 0: none.
  double Sum(const std::string& name) const;
  double Sum(const std::string& name, const std::string& label, const std::string& value) const;
  double Max(const std::string& name) const;

 private:
  std::map<std::string, std::vector<Sample>> samples_;
};

struct HttpAnswer {
  // One sentence; empty: `body` is what was asked for.
  std::string error;
  std::string body;
};

// GET http://ADDRESS/metrics in plain HTTP. The answer is bounded to 16 MiB, and the wait to
// `timeout`.
HttpAnswer FetchMetrics(const std::string& address, absl::Duration timeout);

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_METRICS_H_
