// Times the scenarios with Google Benchmark. Time and CPU are those of one operation; CPU is the
// whole process's, RocksDB's threads included.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tests/bench/micro/scenario.h"

namespace idempotency::bench {
namespace {

constexpr char kUsage[] =
    R"(usage: micro_bench [--keys=N] [--directory=DIR] [--benchmark_... ...]

Times Step, codec, engine and the key store's shell; Time and CPU are those of one operation.

  --keys=N          how many keys are stored before reads are measured (100000; at least 8192)
  --directory=DIR   where stores are made and removed: name one on the disk to be measured
                    (default: the directory for temporary files)

  --benchmark_list_tests            names, and nothing else
  --benchmark_filter=REGEX          only these, as in 'engine/commit_.*/1024'
  --benchmark_min_time=SECONDS      for each (0.5)
  --benchmark_repetitions=N         then also mean, median and deviation
  --benchmark_out=FILE --benchmark_out_format=json|csv
)";

constexpr uint64_t kMinKeys = 8192;

void PrintUsage() { std::fputs(kUsage, stdout); }

// The scenario measured now: Google Benchmark asks for it again for every try at a length.
class Stage {
 public:
  explicit Stage(Settings settings) : settings_(std::move(settings)) {}

  Scenario& Get(const ScenarioEntry& entry) {
    if (name_ != entry.name) {
      scenario_.reset();
      scenario_ = entry.make(settings_);
      name_ = entry.name;
      // What is made once is made before anything is measured.
      scenario_->Prepare();
      scenario_->Run();
    }
    return *scenario_;
  }

 private:
  const Settings settings_;
  std::string name_;
  std::unique_ptr<Scenario> scenario_;
};

void Measure(benchmark::State& state, const ScenarioEntry& entry, Stage& stage) {
  Scenario& scenario = stage.Get(entry);
  const auto operations = static_cast<benchmark::IterationCount>(scenario.operations());
  while (state.KeepRunningBatch(operations)) {
    state.PauseTiming();
    scenario.Prepare();
    state.ResumeTiming();
    scenario.Run();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
  const double bytes = scenario.bytes_per_operation();
  if (bytes > 0) state.counters["bytes"] = bytes;
}

// Takes our flags out of the command line; false: there is one that nobody knows.
bool TakeFlags(int argc, char** argv, Settings& settings) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag.rfind("--keys=", 0) == 0) {
      char* end = nullptr;
      settings.keys = std::strtoull(argv[i] + std::strlen("--keys="), &end, 10);
      if (*end == '\0' && settings.keys >= kMinKeys) continue;
    } else if (flag.rfind("--directory=", 0) == 0) {
      settings.directory = flag.substr(std::strlen("--directory="));
      if (std::filesystem::is_directory(settings.directory)) continue;
    }
    std::fprintf(stderr, "micro_bench: %s: unknown, or out of range; see --help\n", argv[i]);
    return false;
  }
  return true;
}

int Main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv, &PrintUsage);
  Settings settings{.directory = std::filesystem::temp_directory_path().string()};
  if (!TakeFlags(argc, argv, settings)) return 2;
  const ScenarioEntries entries = AllScenarios();
  Stage stage(settings);
  for (const ScenarioEntry& entry : entries) {
    benchmark::RegisterBenchmark(
        entry.name.c_str(),
        [&entry, &stage](benchmark::State& state) { Measure(state, entry, stage); })
        ->UseRealTime()
        ->MeasureProcessCPUTime();
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace idempotency::bench

int main(int argc, char** argv) { return idempotency::bench::Main(argc, argv); }
