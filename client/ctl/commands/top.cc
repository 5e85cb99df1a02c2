// top: how a server stands, again and again.
#include <string>

#include "absl/strings/str_cat.h"
#include "client/ctl/commands/commands.h"
#include "client/ctl/commands/options.h"
#include "client/ctl/duration_text.h"
#include "client/ctl/metrics.h"
#include "client/ctl/top_text.h"

namespace idempotency::ctl {
namespace {

struct TopOptions {
  std::string metrics = "127.0.0.1:9464";
  absl::Duration interval = absl::Seconds(2);
  // 0: until Ctrl-C.
  int64_t count = 0;
};

ExitCode RunTop(const TopOptions& options, Session& session) {
  if (session.globals().json) {
    return session.Misused("top is for people; scripts read the server's /metrics");
  }
  Metrics before;
  absl::Time read_before;
  for (int64_t shown = 0;;) {
    const HttpAnswer answer = FetchMetrics(options.metrics, session.globals().timeout);
    if (!answer.error.empty()) {
      session.Misused(answer.error);
      return ExitCode::kNoAnswer;
    }
    Metrics now = Metrics::Parse(answer.body);
    const absl::Time read = session.Now();
    // The first look only begins a span, unless it is to be the only one.
    if (!before.empty()) {
      const absl::Duration span = read - read_before;
      session.ShowScreen(absl::StrCat(options.metrics, "  ", TimeText(read), "  over ",
                                      SpanText(span), "\n\n", TopText(before, now, span)));
      if (options.count != 0 && ++shown == options.count) return ExitCode::kOk;
    }
    before = std::move(now);
    read_before = read;
    if (session.Pause(options.interval)) return ExitCode::kInterrupted;
  }
}

}  // namespace

void AddTop(CLI::App* app, Action* action) {
  const auto options = std::make_shared<TopOptions>();
  CLI::App* command = AddCommand(app, "top", "How the server stands, again and again");
  command
      ->add_option("--metrics", options->metrics,
                   "What the server's --metrics_listen says [127.0.0.1:9464]")
      ->type_name("HOST:PORT");
  AddDuration(command, "--interval", "How often [2s]", &options->interval);
  command->add_option("--count", options->count, "How many times; 0: until Ctrl-C [0]")
      ->check(CLI::Validator(CLI::NonNegativeNumber).description(""))
      ->type_name("N");
  SetFooter(command,
            "\nReads GET /metrics in plain HTTP. Percentiles are bounds of the metrics' buckets.\n"
            "\nExit codes: 0 shown, 2 usage, 4 no answer, 130 Ctrl-C.\n");
  OnNamed(command, action, options, &RunTop);
}

}  // namespace idempotency::ctl
