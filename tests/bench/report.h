// What a run has measured, for people and for programs.
#ifndef IDEMPOTENCY_TESTS_BENCH_REPORT_H_
#define IDEMPOTENCY_TESTS_BENCH_REPORT_H_

#include <cstdint>
#include <map>
#include <ostream>
#include <string>

#include "tests/bench/load.h"

namespace idempotency::bench {

// Of any load generator of the family.
struct Report {
  std::string title;                            // what ran, in one line
  std::map<std::string, std::string> settings;  // what it ran with
  Result result;
  uint64_t faults = 0;
  std::map<std::string, uint64_t> fault_kinds;
};

void PrintTable(const Report& report, std::ostream* out);

// One JSON object: throughput a second, latencies in microseconds.
std::string ToJson(const Report& report);

// False where the file cannot be written.
bool WriteJson(const Report& report, const std::string& path);

}  // namespace idempotency::bench

#endif  // IDEMPOTENCY_TESTS_BENCH_REPORT_H_
