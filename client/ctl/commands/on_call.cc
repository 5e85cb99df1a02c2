// For the person on call: unresolved, explain, watch; and for the reviewer: contract show.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/ctl/commands/commands.h"
#include "client/ctl/commands/options.h"
#include "client/ctl/format.h"
#include "client/ctl/on_call_text.h"
#include "client/ctl/pages.h"
#include "client/ctl/progress.h"
#include "client/ctl/time_proto.h"

namespace idempotency::ctl {
namespace {

// --- unresolved ----------------------------------------------------------------------------------

struct UnresolvedOptions {
  // Empty: all of them.
  std::string name;
  std::string scope;
  std::optional<absl::Duration> min_age;
  int64_t limit = kDefaultListLimit;  // 0: all
};

Connection::Error NamesOf(const UnresolvedOptions& options, Session& session,
                          std::vector<std::string>* names) {
  if (!options.name.empty()) {
    names->push_back(options.name);
    return std::nullopt;
  }
  v1::ListNamespacesResponse all;
  if (auto error = ListPages(session.connection(), &all)) return error;
  for (const v1::Namespace& one : all.namespaces()) names->push_back(one.name());
  return std::nullopt;
}

// The oldest of a namespace, up to the limit. *more: there are others.
Connection::Error AddUnresolved(const UnresolvedOptions& options, const std::string& name,
                                Session& session, const TellListed& tell,
                                v1::ListOperationsResponse* all, bool* more) {
  v1::ListOperationsRequest request;
  request.set_namespace_(name);
  request.set_scope(options.scope);
  request.add_states(v1::OPERATION_STATE_UNRESOLVED);
  if (options.min_age) *request.mutable_min_age() = ToProto(*options.min_age);
  v1::ListOperationsResponse some;
  if (auto error = ListPages(session.connection(), request, options.limit, tell, &some)) {
    return error;
  }
  all->mutable_operations()->MergeFrom(some.operations());
  *more |= !some.next_page_token().empty();
  return std::nullopt;
}

ExitCode RunUnresolved(const UnresolvedOptions& options, Session& session) {
  std::vector<std::string> names;
  v1::ListOperationsResponse all;
  bool more = false;
  Connection::Error error = NamesOf(options, session, &names);
  for (size_t i = 0; i < names.size() && !error; ++i) {
    const auto earlier = static_cast<uint64_t>(all.operations_size());
    const auto tell = [&](uint64_t listed) {
      session.Progress(NamespacesProgress(i, names.size(), earlier + listed));
    };
    if (i > 0) tell(0);
    error = AddUnresolved(options, names[i], session, tell, &all, &more);
  }
  if (error) return session.Fail(*error, session.Failed("unresolved", /*changes=*/false, {}));
  std::vector<v1::Operation> operations(all.operations().begin(), all.operations().end());
  std::stable_sort(operations.begin(), operations.end(),
                   [](const v1::Operation& a, const v1::Operation& b) {
                     return FromProto(a.update_time()) < FromProto(b.update_time());
                   });
  std::string text = operations.empty() ? "" : FormatUnresolved(operations, session.Now());
  absl::StrAppend(&text, operations.size(), " unresolved",
                  more ? "; there may be more: --limit=0 lists all\n" : "\n");
  session.Show(all, text);
  if (operations.empty()) return ExitCode::kOk;
  const v1::OperationId& oldest = operations.front().id();
  const Target& server = session.globals().target;
  session.Advise({"Of none of these anybody knows whether it happened. Find out, then settle.",
                  {{"the oldest of them: what happened, and what is allowed",
                    CommandLine(server, "explain").Id(oldest).ToString()}}});
  return ExitCode::kOk;
}

// --- explain -------------------------------------------------------------------------------------

struct OneOptions {
  v1::OperationId id;
  absl::Duration interval = absl::Seconds(1);
};

ExitCode RunExplain(const OneOptions& options, Session& session) {
  v1::InspectOperationRequest request;
  *request.mutable_id() = options.id;
  v1::InspectOperationResponse response;
  if (const auto error = session.connection().InspectOperation(request, &response)) {
    return session.Fail(*error, session.Failed("explain", /*changes=*/false, options.id));
  }
  const absl::Time now =
      response.has_server_time() ? FromProto(response.server_time()) : session.Now();
  // Nobody needs the answer's bytes to understand what happened.
  if (response.operation().has_response()) {
    response.mutable_operation()->mutable_response()->clear_body();
  }
  session.Show(response, Explain(response, now));
  Subject subject = session.SubjectOf(options.id);
  subject.etag = response.operation().etag();
  session.Advise(AfterLook(response.next_step(), response.operation(), std::nullopt, subject));
  return ExitCode::kOk;
}

// --- watch ---------------------------------------------------------------------------------------

bool HasEnded(v1::OperationState state) {
  return state == v1::OPERATION_STATE_COMPLETE || state == v1::OPERATION_STATE_EXPIRED ||
         state == v1::OPERATION_STATE_FREED;
}

ExitCode RunWatch(const OneOptions& options, Session& session) {
  v1::GetOperationRequest request;
  *request.mutable_id() = options.id;
  std::string seen;
  for (;;) {
    v1::GetOperationResponse response;
    if (const auto error = session.connection().GetOperation(request, &response)) {
      return session.Fail(*error, session.Failed("watch", /*changes=*/false, options.id));
    }
    const v1::Operation& operation = response.operation();
    if (operation.etag() != seen) {
      session.ShowLine(response, WatchLine(operation, session.Now()));
    }
    seen = operation.etag();
    if (HasEnded(operation.state())) return ExitCodeOf(operation.state());
    if (session.Pause(options.interval)) return ExitCode::kInterrupted;
  }
}

// --- contract show -------------------------------------------------------------------------------

struct ContractOptions {
  std::string name;
};

ExitCode RunContract(const ContractOptions& options, Session& session) {
  v1::GetNamespaceRequest request;
  request.set_name(options.name);
  v1::GetNamespaceResponse response;
  if (const auto error = session.connection().GetNamespace(request, &response)) {
    return session.Fail(*error, session.Failed("contract show", /*changes=*/false, {}));
  }
  session.Show(response, FormatContract(response.namespace_()));
  return ExitCode::kOk;
}

}  // namespace

void AddOnCallCommands(CLI::App* app, Action* action) {
  const auto unresolved = std::make_shared<UnresolvedOptions>();
  CLI::App* list = AddCommand(app, "unresolved", "What nobody knows the outcome of, oldest first");
  list->add_option("NAMESPACE", unresolved->name, "Only of this one [all that may be seen]")
      ->type_name("");
  list->add_option("--scope", unresolved->scope, "Only this scope")->type_name("SCOPE");
  AddDuration(list, "--min-age", "Only what has been so for so long", &unresolved->min_age);
  list->add_option("--limit", unresolved->limit, "At most so many of a namespace; 0: all [100]")
      ->check(CLI::Validator(CLI::NonNegativeNumber).description(""))
      ->type_name("N");
  SetFooter(
      list,
      "\nNEXT is what the policy allows without a person: a reserve that would acquire a new\n"
      "attempt, and until when; or nothing.\n"
      "\nExit codes: 0 listed, 2 usage, 3 refused, 4 no answer.\n");
  OnNamed(list, action, unresolved, &RunUnresolved);

  const auto explained = std::make_shared<OneOptions>();
  CLI::App* explain =
      AddCommand(app, "explain", "What an operation went through, and what is allowed next");
  AddId(explain, &explained->id);
  SetFooter(explain, "\nExit codes: 0 explained, 2 usage, 3 refused, 4 no answer.\n");
  OnNamed(explain, action, explained, &RunExplain);

  const auto watched = std::make_shared<OneOptions>();
  CLI::App* watch = AddCommand(app, "watch", "A line for every change, until it has ended");
  AddId(watch, &watched->id);
  AddDuration(watch, "--interval", "How often to look [1s]", &watched->interval);
  SetFooter(watch,
            "\nExit codes: 12 it is complete, 15 expired, 17 freed, 2 usage, 3 refused, 4 no "
            "answer, 130 Ctrl-C.\n");
  OnNamed(watch, action, watched, &RunWatch);

  CLI::App* contract = AddCommand(app, "contract", "What has been agreed with providers");
  contract->require_subcommand(1);
  SetFooter(contract, "\nExit codes: 0 shown, 2 usage, 3 refused, 4 no answer.\n");
  const auto shown = std::make_shared<ContractOptions>();
  CLI::App* show = AddCommand(contract, "show", "The provider's rules beside what is done here");
  show->add_option("NAMESPACE", shown->name, "The contract that the keys live under")
      ->required()
      ->type_name("");
  SetFooter(show, "\nExit codes: 0 shown, 2 usage, 3 refused, 4 no answer.\n");
  OnNamed(show, action, shown, &RunContract);
}

}  // namespace idempotency::ctl
