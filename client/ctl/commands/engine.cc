// What the server keeps its store in.
#include <memory>

#include "client/ctl/commands/commands.h"
#include "client/ctl/commands/options.h"
#include "client/ctl/engine_text.h"

namespace idempotency::ctl {
namespace {

// For members and hosts that do not answer; comes on top of the timeout.
constexpr absl::Duration kLookTime = absl::Seconds(30);

struct CheckFlags {};

ExitCode RunCheck(const CheckFlags&, Session& session) {
  engine::v1::CheckEngineResponse response;
  if (const auto error = session.connection().CheckEngine({}, &response, {.wait = kLookTime})) {
    return session.Fail(*error, session.Failed("engine check", /*changes=*/false, {}));
  }
  SortFindings(&response);
  session.Show(response, FormatEngineCheck(response));
  return ExitCodeOf(response);
}

}  // namespace

void AddEngineCommands(CLI::App* app, Action* action) {
  CLI::App* engine = AddCommand(app, "engine", "What the server keeps its store in");
  engine->require_subcommand(1);
  SetFooter(engine, "\nExit codes: those of the command.\n");

  CLI::App* check =
      AddCommand(engine, "check", "Look whether it keeps what the service promises, and why not");
  SetFooter(
      check,
      "\nThe server looks at the disk, the etcd or the PostgreSQL below it, and changes nothing.\n"
      "The worst comes first; whatever is not known is not called well. Ask each server of\n"
      "several: each has its own clock and its own way to the store. After installing, after an\n"
      "upgrade of the store, and first of all when something is odd.\n"
      "\nExit codes: 0 no guarantee fails (there may be warnings), 2 usage, 3 refused, 4 no "
      "answer,\n7 a guarantee fails.\n\nExample:\n"
      "  idempotencyctl engine check --output=json | jq '.findings[] | select(.severity !=\n"
      "      \"SEVERITY_OK\")'\n");
  OnNamed(check, action, std::make_shared<CheckFlags>(), &RunCheck);
}

}  // namespace idempotency::ctl
