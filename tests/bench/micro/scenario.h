// What is measured, apart from how: the same scenarios are timed (micro_bench.cc) and counted in
// instructions (micro_count.cc).
//
//   scenario->Prepare();   // not measured: makes what the next Run needs
//   scenario->Run();       // measured: operations() operations, each found to have worked
//
// A scenario that does not get the answer it expects ends the process: what has gone wrong has
// no speed.
//
// Thread safety: none.
#ifndef IDEMPOTENCY_TESTS_BENCH_MICRO_SCENARIO_H_
#define IDEMPOTENCY_TESTS_BENCH_MICRO_SCENARIO_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace idempotency::bench {

struct Settings {
  // Where stores are made, each in a directory of its own that goes with it.
  std::string directory;
  // How many keys are stored before reads are measured.
  uint64_t keys = 100'000;
};

class Scenario {
 public:
  explicit Scenario(size_t operations) : operations_(operations) {}
  virtual ~Scenario() = default;
  Scenario(const Scenario&) = delete;
  Scenario& operator=(const Scenario&) = delete;

  virtual void Prepare() = 0;
  virtual void Run() = 0;
  // How many bytes one operation has made; zero where that says nothing.
  virtual double bytes_per_operation() const { return 0; }

  size_t operations() const { return operations_; }

 private:
  const size_t operations_;
};

struct ScenarioEntry {
  std::string name;  // part/operation or part/operation/batch
  std::function<std::unique_ptr<Scenario>(const Settings&)> make;
};

using ScenarioEntries = std::vector<ScenarioEntry>;

void AddStepScenarios(ScenarioEntries& entries);
void AddCodecScenarios(ScenarioEntries& entries);
void AddEngineScenarios(ScenarioEntries& entries);
void AddShellScenarios(ScenarioEntries& entries);
// Only where the service is built.
void AddIdentityScenarios(ScenarioEntries& entries);
ScenarioEntries AllScenarios();

// Ends the process where `holds` is false.
void Require(bool holds, std::string_view what);

}  // namespace idempotency::bench

#endif  // IDEMPOTENCY_TESTS_BENCH_MICRO_SCENARIO_H_
