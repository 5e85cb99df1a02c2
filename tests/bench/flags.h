// What the load generators have in common on the command line, and at the end.
#ifndef IDEMPOTENCY_TESTS_BENCH_FLAGS_H_
#define IDEMPOTENCY_TESTS_BENCH_FLAGS_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "tests/bench/load.h"
#include "tests/bench/options.h"
#include "tests/bench/report.h"

namespace idempotency::bench {

inline constexpr int kExitWrongAnswers = 1;
inline constexpr int kExitWrongUsage = 2;

// Length, rate, threads, keys and output.
void AddCommonFlags(CLI::App* app, Options* options);

// Empty, or what is wrong.
std::string CheckCommonFlags(const Options& options);

// Nothing where all is well; else with what the process ends: 0 after --help, 2 on wrong usage.
std::optional<int> Parse(CLI::App* app, int argc, char** argv);

// Takes another seed where none was given.
void ChooseSeed(Options* options);

// Prints, writes --json, and says with what the process ends. `title` says what ran against what.
int Finish(const std::string& title, const Options& options, const Faults& faults,
           const Result& result);

}  // namespace idempotency::bench

#endif  // IDEMPOTENCY_TESTS_BENCH_FLAGS_H_
