// idempotency_load: puts load on a service that speaks idempotency.v1, checks every answer and
// says how fast they came.
#include <CLI/CLI.hpp>
#include <iostream>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/bench/client_load.h"
#include "tests/bench/flags.h"
#include "tests/bench/options.h"
#include "tests/bench/pipeline_load.h"
#include "tests/bench/plan.h"
#include "tests/bench/unary_load.h"

namespace idempotency::bench {
namespace {

constexpr char kDescription[] =
    "Puts load on a service that speaks idempotency.v1, checks every answer, and says how fast\n"
    "they came. Exits with 1 where an answer was wrong, 2 on wrong usage, 3 where it hangs.\n"
    "\n"
    "Closed loop (the default): --in-flight calls at a time. Open loop (--rate): operations start\n"
    "at a fixed rate, and latency counts from when they should have, whatever held them up.\n"
    "tests/bench/README.md says what the numbers mean.";

constexpr char kExamples[] =
    "Examples:\n"
    "  idempotency_load --target=127.0.0.1:7420 --in-flight=256\n"
    "  idempotency_load --target=127.0.0.1:7420 --mix=lifecycle --rate=5000 --in-flight=1000\n"
    "  idempotency_load --target=127.0.0.1:7420 --api=pipeline --commands=32 --in-flight=16\n"
    "  idempotency_load --target=127.0.0.1:7420 --api=client --connections=1\n";

const std::map<std::string, Api> kApis = {{"unary", Api::kUnary},
                                          {"batch", Api::kBatch},
                                          {"pipeline", Api::kPipeline},
                                          {"client", Api::kClient}};
const std::map<std::string, Mix> kMixes = {
    {"reserve", Mix::kReserve}, {"lifecycle", Mix::kLifecycle},    {"replay", Mix::kReplay},
    {"get", Mix::kGet},         {"in_progress", Mix::kInProgress}, {"hot", Mix::kHot}};

template <typename Value>
std::string NameIn(const std::map<std::string, Value>& names, Value value) {
  for (const auto& [name, named] : names) {
    if (named == value) return name;
  }
  return "?";
}

void AddLoadFlags(CLI::App* app, Options* options, std::string* api, std::string* mix) {
  app->add_option("--target", options->target, "The service: host:port, unix:/path")
      ->capture_default_str();
  app->add_option("--api", *api, "unary, batch, pipeline, or client (our C++ library)")
      ->check(CLI::IsMember(kApis))
      ->capture_default_str();
  app->add_option("--mix", *mix,
                  "reserve: fresh keys. lifecycle: Reserve, then Complete. replay: Reserve of\n"
                  "completed keys. get: GetOperation of them. in_progress: Reserve of keys that\n"
                  "another attempt holds. hot: all want one key, one completes it, all others\n"
                  "wait for that; then the next key")
      ->check(CLI::IsMember(kMixes))
      ->capture_default_str();
  app->add_option("--in-flight", options->in_flight,
                  "Calls at a time (pipeline: messages; client: threads)")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  app->add_option("--connections", options->connections,
                  "TCP connections (pipeline: with a stream each)")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app->add_option("--commands", options->commands, "Commands a message of batch and pipeline")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app->add_option("--batching", options->batching, "client: calls share Pipeline streams")
      ->capture_default_str();
}

void AddDataFlags(CLI::App* app, Options* options) {
  app->add_option("--keys", options->keys,
                  "Keys brought in before the measurement (replay, get, in_progress)")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40))
      ->capture_default_str();
  app->add_flag("!--no-prefill", options->prefill,
                "They are there already, by an earlier run with the same --seed");
  app->add_option("--hot-keys", options->hot_keys, "hot: keys at a time")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 20))
      ->capture_default_str();
  app->add_option("--namespace", options->shape.name_space)->capture_default_str();
  app->add_option("--body-bytes", options->shape.body_bytes, "Of the answer that Complete stores")
      ->check(CLI::Range(80, 3 * 1024 * 1024))
      ->capture_default_str();
  app->add_option("--lease-seconds", options->shape.lease_seconds)->capture_default_str();
  app->add_flag("--echo", options->echo,
                "The target is idempotency_echo: nothing is brought in, bodies count by size");
}

std::string Check(const Options& options) {
  if (options.mix == Mix::kHot && options.api == Api::kBatch) {
    return "--mix=hot cannot be had with --api=batch, where no command may wait.";
  }
  if (options.mix == Mix::kHot && options.api == Api::kPipeline && options.commands != 1) {
    return "--mix=hot needs --commands=1: commands of one message would wait for each other.";
  }
  return CheckCommonFlags(options);
}

std::unique_ptr<Load> MakeLoad(Api api, Plan* plan) {
  switch (api) {
    case Api::kUnary:
    case Api::kBatch:
      return std::make_unique<UnaryLoad>(plan);
    case Api::kPipeline:
      return std::make_unique<PipelineLoad>(plan);
    case Api::kClient:
      return std::make_unique<ClientLoad>(plan);
  }
  return nullptr;
}

// Brings in the keys that the mix asks about, in large messages.
bool Prefill(Options options) {
  options.mix = options.mix == Mix::kInProgress ? Mix::kReserve : Mix::kLifecycle;
  options.api = Api::kPipeline;
  options.operations = options.keys;
  options.rate = 0;
  options.connections = 1;
  options.in_flight = 8;
  options.commands = 128;
  options.threads = 1;
  Plan plan(options);
  PipelineLoad(&plan).Run();
  for (const auto& [what, count] : plan.faults().kinds()) {
    std::cerr << "idempotency_load: bringing in the keys: " << count << " x " << what << std::endl;
  }
  return plan.faults().count() == 0;
}

bool NeedsOldKeys(const Options& options) {
  return options.mix == Mix::kReplay || options.mix == Mix::kGet || options.mix == Mix::kInProgress;
}

std::string TitleOf(const Options& options) {
  std::string title = absl::StrCat(NameIn(kMixes, options.mix), ", ", NameIn(kApis, options.api));
  if (options.api == Api::kBatch || options.api == Api::kPipeline) {
    absl::StrAppend(&title, " of ", options.commands);
  }
  return absl::StrCat(title, ", ", options.in_flight, " in flight, ", options.connections,
                      " connections");
}

int RunLoad(Options options) {
  ChooseSeed(&options);
  if (options.mix == Mix::kHot) options.shape.wait_seconds = 30;
  if (NeedsOldKeys(options) && options.prefill && !options.echo && !Prefill(options)) {
    return kExitWrongAnswers;
  }
  Plan plan(options);
  const Result result = MakeLoad(options.api, &plan)->Run();
  return Finish(TitleOf(options), options, plan.faults(), result);
}

int Main(int argc, char** argv) {
  Options options;
  std::string api = "unary";
  std::string mix = "reserve";
  CLI::App app(kDescription, "idempotency_load");
  app.footer(kExamples);
  AddLoadFlags(&app, &options, &api, &mix);
  AddDataFlags(&app, &options);
  AddCommonFlags(&app, &options);
  if (const std::optional<int> end = Parse(&app, argc, argv)) return *end;
  options.api = kApis.at(api);
  options.mix = kMixes.at(mix);
  if (const std::string wrong = Check(options); !wrong.empty()) {
    std::cerr << "idempotency_load: " << wrong << std::endl;
    return kExitWrongUsage;
  }
  return RunLoad(std::move(options));
}

}  // namespace
}  // namespace idempotency::bench

int main(int argc, char** argv) { return idempotency::bench::Main(argc, argv); }
