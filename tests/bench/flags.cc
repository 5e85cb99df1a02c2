#include "tests/bench/flags.h"

#include <unistd.h>

#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/bench/clock.h"
#include "tests/bench/identity.h"

namespace idempotency::bench {

void AddCommonFlags(CLI::App* app, Options* options) {
  app->add_option("--threads", options->threads, "Threads of the load generator itself")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app->add_option("--rate", options->rate,
                  "Operations a second, started on time: open loop. 0: closed loop")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  app->add_option(
         "--tick-us", options->tick_us,
         "Open loop: what is due within so many microseconds is started together, and the\n"
         "wait counts; less costs the client more")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app->add_option("--seconds", options->seconds, "How long is measured")->capture_default_str();
  app->add_option("--warmup", options->warmup_seconds, "Seconds before that")
      ->capture_default_str();
  app->add_option("--operations", options->operations,
                  "Exactly so many operations, all of them measured, instead of --seconds");
  app->add_option("--scopes", options->scopes, "Scopes that the keys are spread over")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1'000'000}))
      ->capture_default_str();
  app->add_option("--first-key", options->first_key, "Number of the first key")
      ->capture_default_str();
  app->add_option("--seed", options->seed,
                  "Of keys and choices; another seed, other keys. 0: a new one each time");
  app->add_option("--server-pid", options->server_pid,
                  "Report CPU and memory of this process and its children, too");
  app->add_option("--json", options->json, "Write the result to this file, too");
  app->add_option("--label", options->label, "A name for the run, for the reports");
}

std::string CheckCommonFlags(const Options& options) {
  if (options.seconds <= 0) return "--seconds must be above zero.";
  if (options.warmup_seconds < 0) return "--warmup must not be below zero.";
  return {};
}

std::optional<int> Parse(CLI::App* app, int argc, char** argv) {
  try {
    app->parse(argc, argv);
  } catch (const CLI::ParseError& end) {
    return app->exit(end) == 0 ? 0 : kExitWrongUsage;
  }
  return std::nullopt;
}

void ChooseSeed(Options* options) {
  if (options->seed != 0) return;
  const auto process = static_cast<uint64_t>(getpid());
  options->seed = Mix64(static_cast<uint64_t>(MonotonicNanos()) ^ Mix64(process));
}

int Finish(const std::string& title, const Options& options, const Faults& faults,
           const Result& result) {
  const std::string pace = options.rate > 0 ? absl::StrFormat("%.0f a second", options.rate)
                                            : std::string("closed loop");
  Report report;
  report.title = absl::StrCat(options.label, options.label.empty() ? "" : ": ", title, ", ", pace);
  report.settings = {{"title", title},
                     {"label", options.label},
                     {"in_flight", absl::StrCat(options.in_flight)},
                     {"connections", absl::StrCat(options.connections)},
                     {"commands", absl::StrCat(options.commands)},
                     {"threads", absl::StrCat(options.threads)},
                     {"rate", absl::StrCat(options.rate)},
                     {"keys", absl::StrCat(options.keys)},
                     {"body_bytes", absl::StrCat(options.shape.body_bytes)},
                     {"seed", absl::StrCat(options.seed)}};
  report.result = result;
  report.faults = faults.count();
  report.fault_kinds = faults.kinds();
  PrintTable(report, &std::cout);
  if (!options.json.empty() && !WriteJson(report, options.json)) {
    std::cerr << "cannot write " << options.json << std::endl;
    return kExitWrongUsage;
  }
  return report.faults == 0 ? 0 : kExitWrongAnswers;
}

}  // namespace idempotency::bench
