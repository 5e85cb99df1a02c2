// Operators' commands besides resolve: delete, namespaces.
#include <string>

#include "client/ctl/commands/commands.h"
#include "client/ctl/commands/options.h"
#include "client/ctl/format.h"
#include "client/ctl/pages.h"

namespace idempotency::ctl {
namespace {

// --- delete --------------------------------------------------------------------------------------

struct DeleteOptions {
  v1::OperationId id;
  DecisionFlags decision;
  bool force = false;
};

ExitCode RunDelete(const DeleteOptions& options, Session& session) {
  v1::DeleteOperationRequest request;
  *request.mutable_id() = options.id;
  request.set_force(options.force);
  request.set_actor(ActorOf(options.decision, session));
  if (request.actor().empty()) return session.Misused(kNoActor);
  request.set_reason(options.decision.reason);
  request.set_etag(options.decision.etag);
  v1::DeleteOperationResponse response;
  if (const auto error = session.connection().DeleteOperation(request, &response)) {
    return session.Fail(*error, session.Failed("delete", /*changes=*/true, options.id));
  }
  session.Show(response,
               "DELETED: content and history are gone (or there were none); the next reserve "
               "acquires\n");
  return ExitCode::kOk;
}

// --- namespaces ----------------------------------------------------------------------------------

struct NamespacesOptions {
  // Empty: all of them.
  std::string name;
};

ExitCode ShowOne(const std::string& name, Session& session) {
  v1::GetNamespaceRequest request;
  request.set_name(name);
  v1::GetNamespaceResponse response;
  if (const auto error = session.connection().GetNamespace(request, &response)) {
    return session.Fail(*error, session.Failed("namespaces", /*changes=*/false, {}));
  }
  session.Show(response, FormatNamespace(response.namespace_()));
  return ExitCode::kOk;
}

ExitCode RunNamespaces(const NamespacesOptions& options, Session& session) {
  if (!options.name.empty()) return ShowOne(options.name, session);
  v1::ListNamespacesResponse all;
  if (const auto error = ListPages(session.connection(), &all)) {
    return session.Fail(*error, session.Failed("namespaces", /*changes=*/false, {}));
  }
  const std::vector<v1::Namespace> namespaces(all.namespaces().begin(), all.namespaces().end());
  session.Show(all, namespaces.empty() ? "no namespaces\n" : FormatNamespaceList(namespaces));
  return ExitCode::kOk;
}

}  // namespace

void AddDelete(CLI::App* app, Action* action) {
  const auto options = std::make_shared<DeleteOptions>();
  CLI::App* command = AddCommand(app, "delete", "Erase an operation, its answer and its history");
  AddId(command, &options->id);
  AddDecision(command, &options->decision);
  command->add_flag("--force", options->force,
                    "Also where it is open (but not with a live lease), or cannot be read");
  SetFooter(
      command,
      "\nExit codes: 0 deleted (also where there was nothing), 2 usage, 3 refused (LEASE_LIVE, "
      "WRONG_STATE,\nETAG_MISMATCH), 4 no answer (repeat it).\n\nExample:\n"
      "  idempotencyctl delete payments acct-1 order-7 --reason='erasure request 42'\n");
  OnNamed(command, action, options, &RunDelete);
}

void AddNamespaces(CLI::App* app, Action* action) {
  const auto options = std::make_shared<NamespacesOptions>();
  CLI::App* command = AddCommand(app, "namespaces", "The namespaces, or all about one");
  command->add_option("NAMESPACE", options->name, "All about this one")->type_name("");
  SetFooter(command,
            "\nExit codes: 0 listed, 2 usage, 3 refused, 4 no answer.\n\nExample:\n"
            "  idempotencyctl namespaces payments\n");
  OnNamed(command, action, options, &RunNamespaces);
}

}  // namespace idempotency::ctl
