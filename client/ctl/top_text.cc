#include "client/ctl/top_text.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/ctl/duration_text.h"
#include "client/ctl/table.h"

namespace idempotency::ctl {
namespace {

constexpr double kMebibyte = 1024.0 * 1024.0;
constexpr char kRequests[] = "idempotency_requests_total";
constexpr char kDuration[] = "idempotency_request_duration_seconds";

std::string Count(double value) { return absl::StrFormat("%.0f", value); }
std::string Rate(double count, absl::Duration span) {
  return absl::StrFormat("%.1f", count / std::max(absl::ToDoubleSeconds(span), 1e-3));
}
std::string Mebibytes(double bytes) { return absl::StrFormat("%.0f MiB", bytes / kMebibyte); }
std::string Seconds(double seconds) {
  if (seconds < 0) return "";
  if (std::isinf(seconds)) return "over the last bucket";
  return SpanText(absl::Seconds(seconds));
}

std::set<std::string> LabelsOf(const Metrics& metrics, const std::string& name,
                               const std::string& label) {
  std::set<std::string> values;
  for (const Sample& sample : metrics.Get(name)) {
    const auto found = sample.labels.find(label);
    if (found != sample.labels.end()) values.insert(found->second);
  }
  return values;
}

std::string Requests(const Metrics& before, const Metrics& now, absl::Duration span) {
  Table table({"METHOD", "A SECOND", "NOT OK", "P50", "P99"});
  for (const std::string& method : LabelsOf(now, kRequests, "method")) {
    const double count =
        now.Sum(kRequests, "method", method) - before.Sum(kRequests, "method", method);
    if (count <= 0) continue;
    std::map<std::string, double> outcomes;
    for (const Sample& sample : now.Get(kRequests)) {
      if (sample.labels.at("method") == method) {
        outcomes[sample.labels.at("outcome")] += sample.value;
      }
    }
    for (const Sample& sample : before.Get(kRequests)) {
      if (sample.labels.at("method") == method) {
        outcomes[sample.labels.at("outcome")] -= sample.value;
      }
    }
    std::string others;
    for (const auto& [outcome, times] : outcomes) {
      if (times <= 0 || outcome == "ok" || outcome == "acquired") continue;
      absl::StrAppend(&others, others.empty() ? "" : ", ", outcome, " ", Rate(times, span));
    }
    table.Add({method, Rate(count, span), others,
               Seconds(Quantile(before, now, kDuration, "method", method, 0.5)),
               Seconds(Quantile(before, now, kDuration, "method", method, 0.99))});
  }
  return table.empty() ? "no requests\n" : table.ToString();
}

std::string Unresolved(const Metrics& now) {
  std::string text;
  for (const Sample& sample : now.Get("idempotency_unresolved_operations")) {
    if (sample.value <= 0) continue;
    const auto name = sample.labels.find("idempotency_namespace");
    absl::StrAppend(&text, text.empty() ? "" : ", ",
                    name == sample.labels.end() ? std::string("?") : name->second, " ",
                    Count(sample.value));
  }
  if (text.empty()) return "none";
  return absl::StrCat(text, "; the oldest for ",
                      Seconds(now.Max("idempotency_unresolved_oldest_age_seconds")));
}

// What somebody should look at now.
std::string Alarms(const Metrics& now) {
  std::string text;
  const auto say = [&](bool what, const char* words) {
    if (what) absl::StrAppend(&text, text.empty() ? "" : ", ", words);
  };
  say(now.Sum("idempotency_ready") == 0, "NOT READY");
  say(now.Sum("idempotency_store_alive") == 0, "STORE DEAD");
  say(now.Sum("idempotency_store_full") > 0, "STORE FULL");
  say(now.Sum("idempotency_store_stalled") > 0, "STORE STALLED");
  say(now.Sum("idempotency_clock_in_doubt") > 0, "CLOCK IN DOUBT");
  return text.empty() ? "none" : text;
}

}  // namespace

double Quantile(const Metrics& before, const Metrics& now, const std::string& histogram,
                const std::string& label, const std::string& value, double share) {
  std::map<double, double> buckets;  // counts up to each bound
  const auto add = [&](const Metrics& metrics, double sign) {
    for (const Sample& sample : metrics.Get(histogram + "_bucket")) {
      const auto found = sample.labels.find(label);
      const auto bound = sample.labels.find("le");
      if (found == sample.labels.end() || found->second != value) continue;
      if (bound == sample.labels.end()) continue;
      double limit = std::numeric_limits<double>::infinity();
      if (bound->second != "+Inf" && !absl::SimpleAtod(bound->second, &limit)) continue;
      buckets[limit] += sign * sample.value;
    }
  };
  add(now, 1);
  add(before, -1);
  if (buckets.empty() || buckets.rbegin()->second <= 0) return -1;
  const double wanted = share * buckets.rbegin()->second;
  for (const auto& [bound, count] : buckets) {
    if (count >= wanted) return bound;
  }
  return buckets.rbegin()->first;
}

std::string TopText(const Metrics& before, const Metrics& now, absl::Duration span) {
  const auto rose = [&](const char* name) { return now.Sum(name) - before.Sum(name); };
  Fields fields;
  fields.Add("alarms", Alarms(now));
  fields.Add("unresolved", Unresolved(now));
  fields.Add("pending", Count(now.Sum("idempotency_pending_operations")));
  fields.Add("lapses", Count(rose("idempotency_lapses_total")));
  fields.Add("late completions", Count(rose("idempotency_late_completions_total")));
  fields.Add("queued, waiting", absl::StrCat(Count(now.Sum("idempotency_queued_commands")), ", ",
                                             Count(now.Sum("idempotency_waiters"))));
  fields.Add("commits a second", Rate(rose("idempotency_commit_duration_seconds_count"), span));
  const double commits = rose("idempotency_commit_duration_seconds_count");
  fields.Add(
      "commit takes",
      commits > 0
          ? SpanText(absl::Seconds(rose("idempotency_commit_duration_seconds_sum") / commits))
          : "");
  fields.Add("keys", Count(now.Sum("idempotency_store_keys")));
  fields.Add("tables, disk free",
             absl::StrCat(Mebibytes(now.Sum("idempotency_store_table_bytes")), ", ",
                          Mebibytes(now.Sum("idempotency_disk_free_bytes"))));
  fields.Add("memory", Mebibytes(now.Sum("idempotency_process_resident_memory_bytes")));
  fields.Add("processors",
             absl::StrFormat("%.2f", rose("idempotency_process_cpu_seconds_total") /
                                         std::max(absl::ToDoubleSeconds(span), 1e-3)));
  return fields.ToString(0) + "\n" + Requests(before, now, span);
}

}  // namespace idempotency::ctl
