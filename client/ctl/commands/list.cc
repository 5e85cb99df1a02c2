#include <string>

#include "client/ctl/commands/commands.h"
#include "client/ctl/commands/options.h"
#include "client/ctl/format.h"
#include "client/ctl/pages.h"
#include "client/ctl/progress.h"
#include "client/ctl/time_proto.h"

namespace idempotency::ctl {
namespace {

struct ListOptions {
  std::string name;
  std::string scope;
  std::string prefix;
  std::string reference;
  std::vector<std::string> states;
  std::optional<absl::Duration> min_age;
  // 0: all.
  int64_t limit = kDefaultListLimit;
};

v1::ListOperationsRequest MakeRequest(const ListOptions& options) {
  v1::ListOperationsRequest request;
  request.set_namespace_(options.name);
  request.set_scope(options.scope);
  request.set_key_prefix(options.prefix);
  request.set_operation_ref(options.reference);
  for (const std::string& text : options.states) {
    if (const auto state = ParseEnum<v1::OperationState>(text)) request.add_states(*state);
  }
  if (options.min_age) *request.mutable_min_age() = ToProto(*options.min_age);
  return request;
}

std::string ListText(const v1::ListOperationsResponse& all, absl::Time now) {
  const std::vector<v1::Operation> operations(all.operations().begin(), all.operations().end());
  std::string text = operations.empty() ? "" : FormatOperationList(operations, now);
  text +=
      std::to_string(operations.size()) + (operations.size() == 1 ? " operation" : " operations");
  if (!all.next_page_token().empty()) text += "; there may be more: --limit=0 lists all";
  return text + "\n";
}

NextSteps AfterList(const v1::ListOperationsResponse& all, const Session& session) {
  for (const v1::Operation& operation : all.operations()) {
    if (operation.state() != v1::OPERATION_STATE_UNRESOLVED) continue;
    return {"Of what is UNRESOLVED nobody knows whether it happened: look, find out, settle.",
            {{"the first of them, and how to settle it",
              CommandLine(session.globals().target, "inspect").Id(operation.id()).ToString()}}};
  }
  return {};
}

ExitCode RunList(const ListOptions& options, Session& session) {
  v1::ListOperationsResponse all;
  const auto tell = [&](uint64_t listed) {
    session.Progress(ListProgress(listed, static_cast<uint64_t>(options.limit)));
  };
  if (const auto error =
          ListPages(session.connection(), MakeRequest(options), options.limit, tell, &all)) {
    v1::OperationId id;
    id.set_namespace_(options.name);
    return session.Fail(*error, session.Failed("list", /*changes=*/false, id));
  }
  session.Show(all, ListText(all, session.Now()));
  session.Advise(AfterList(all, session));
  return ExitCode::kOk;
}

}  // namespace

void AddList(CLI::App* app, Action* action) {
  const auto options = std::make_shared<ListOptions>();
  CLI::App* command = AddCommand(app, "list", "The operations of a namespace");
  command->add_option("NAMESPACE", options->name, "The contract that the keys live under")
      ->required()
      ->type_name("");
  AddRepeated(
      command, "--state",
      "pending, complete, unresolved, expired or freed; repeatable, or with commas [all but "
      "freed]",
      &options->states)
      ->delimiter(',')
      ->check(EnumName<v1::OperationState>())
      ->type_name("STATE");
  command->add_option("--scope", options->scope, "Only this scope")->type_name("SCOPE");
  command->add_option("--prefix", options->prefix, "Only keys that start so")->type_name("TEXT");
  command->add_option("--reference", options->reference, "Only with this owner's reference")
      ->type_name("TEXT");
  AddDuration(command, "--min-age", "Only what was not updated for so long", &options->min_age);
  command->add_option("--limit", options->limit, "At most so many; 0: all [100]")
      ->check(CLI::Validator(CLI::NonNegativeNumber).description(""))
      ->type_name("N");
  SetFooter(command,
            "\nWith --state=unresolved alone, oldest first.\n"
            "\nExit codes: 0 listed, 2 usage, 3 refused, 4 no answer.\n\nExample:\n"
            "  idempotencyctl list payments --state=unresolved --min-age=1h\n");
  OnNamed(command, action, options, &RunList);
}

}  // namespace idempotency::ctl
