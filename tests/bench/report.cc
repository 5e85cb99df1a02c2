#include "tests/bench/report.h"

#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace idempotency::bench {
namespace {

constexpr double kPercentiles[] = {50, 90, 99, 99.9, 99.99};
constexpr double kNanosPerMicro = 1000;
constexpr double kBytesPerMebibyte = 1024.0 * 1024;

double Micros(double nanos) { return nanos / kNanosPerMicro; }

// "p99.9"
std::string NameOf(double percentile) { return absl::StrCat("p", percentile); }

double PerSecond(const Histogram& of, const Result& result) {
  return result.seconds > 0 ? static_cast<double>(of.count()) / result.seconds : 0;
}

// Of one process, an operation.
double CpuMicros(double seconds, const Result& result) {
  const auto operations = static_cast<double>(result.meter.operations.count());
  return operations > 0 ? seconds * 1e6 / operations : 0;
}

std::string Quote(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted.push_back('\\');
    if (static_cast<unsigned char>(c) < ' ') {
      absl::StrAppendFormat(&quoted, "\\u%04x", static_cast<unsigned>(c));
    } else {
      quoted.push_back(c);
    }
  }
  return quoted + "\"";
}

void PrintRow(const char* name, const Histogram& of, std::ostream* out) {
  *out << absl::StrFormat("  %-10s %8.0f", name, Micros(of.mean()));
  for (const double percentile : kPercentiles) {
    *out << absl::StrFormat(" %8.0f", Micros(static_cast<double>(of.Percentile(percentile))));
  }
  *out << absl::StrFormat(" %9.0f\n", Micros(static_cast<double>(of.max())));
}

std::string LatencyJson(const Histogram& of) {
  std::string json = absl::StrFormat("{\"mean\": %.1f", Micros(of.mean()));
  for (const double percentile : kPercentiles) {
    absl::StrAppendFormat(&json, ", \"%s\": %.1f", NameOf(percentile),
                          Micros(static_cast<double>(of.Percentile(percentile))));
  }
  absl::StrAppendFormat(&json, ", \"max\": %.1f}", Micros(static_cast<double>(of.max())));
  return json;
}

}  // namespace

void PrintTable(const Report& report, std::ostream* out) {
  const Result& result = report.result;
  const Meter& meter = result.meter;
  *out << report.title << "\n"
       << absl::StrFormat("  operations %d in %.2f s: %.0f a second (calls %.0f a second)\n",
                          meter.operations.count(), result.seconds,
                          PerSecond(meter.operations, result), PerSecond(meter.calls, result));
  *out << absl::StrFormat("  %-10s %8s", "latency us", "mean");
  for (const double percentile : kPercentiles) *out << absl::StrFormat(" %8s", NameOf(percentile));
  *out << absl::StrFormat(" %9s\n", "max");
  PrintRow("call", meter.calls, out);
  if (meter.calls.count() != meter.operations.count()) {
    PrintRow("operation", meter.operations, out);
  }
  *out << absl::StrFormat("  CPU us an operation: client %.1f",
                          CpuMicros(result.client_cpu_seconds, result));
  if (result.server.resident_bytes > 0) {
    *out << absl::StrFormat(", server %.1f; server's memory %.0f MiB",
                            CpuMicros(result.server_cpu_seconds, result),
                            static_cast<double>(result.server.resident_bytes) / kBytesPerMebibyte);
  }
  *out << absl::StrFormat("\n  of the machine: others used %.0f %%, stolen %.0f %%",
                          100 * result.others_share, 100 * result.stolen_share);
  *out << "\n  wrong answers: " << report.faults << "\n";
  for (const auto& [what, count] : report.fault_kinds) {
    *out << "    " << count << " x " << what << "\n";
  }
  out->flush();
}

std::string ToJson(const Report& report) {
  const Result& result = report.result;
  const Meter& meter = result.meter;
  std::string json = absl::StrCat("{\n  \"title\": ", Quote(report.title), ",\n  \"settings\": {");
  const char* comma = "";
  for (const auto& [name, value] : report.settings) {
    absl::StrAppend(&json, comma, Quote(name), ": ", Quote(value));
    comma = ", ";
  }
  absl::StrAppendFormat(&json, "},\n  \"seconds\": %.4f,\n", result.seconds);
  absl::StrAppendFormat(&json, "  \"operations\": %d,\n  \"operations_per_second\": %.1f,\n",
                        meter.operations.count(), PerSecond(meter.operations, result));
  absl::StrAppendFormat(&json, "  \"calls\": %d,\n  \"calls_per_second\": %.1f,\n",
                        meter.calls.count(), PerSecond(meter.calls, result));
  absl::StrAppend(&json, "  \"call_latency_us\": ", LatencyJson(meter.calls), ",\n",
                  "  \"operation_latency_us\": ", LatencyJson(meter.operations), ",\n");
  absl::StrAppendFormat(&json, "  \"client_cpu_us_per_operation\": %.2f,\n",
                        CpuMicros(result.client_cpu_seconds, result));
  absl::StrAppendFormat(&json, "  \"server_cpu_us_per_operation\": %.2f,\n",
                        CpuMicros(result.server_cpu_seconds, result));
  absl::StrAppendFormat(&json, "  \"server_resident_bytes\": %d,\n  \"server_peak_bytes\": %d,\n",
                        result.server.resident_bytes, result.server.peak_resident_bytes);
  absl::StrAppendFormat(&json, "  \"others_cpu_share\": %.3f,\n  \"stolen_cpu_share\": %.3f,\n",
                        result.others_share, result.stolen_share);
  absl::StrAppend(&json, "  \"wrong_answers\": ", report.faults, ",\n  \"wrong_answer_kinds\": {");
  comma = "";
  for (const auto& [what, count] : report.fault_kinds) {
    absl::StrAppend(&json, comma, Quote(what), ": ", count);
    comma = ", ";
  }
  absl::StrAppend(&json, "}\n}\n");
  return json;
}

bool WriteJson(const Report& report, const std::string& path) {
  std::ofstream file(path);
  file << ToJson(report);
  file.close();
  return file.good();
}

}  // namespace idempotency::bench
