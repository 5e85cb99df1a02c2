// Every command: what it takes, and what it does. Each Add registers one with the parser; when the
// command line names it, *action becomes what is to be done.
#ifndef IDEMPOTENCY_CLIENT_CTL_COMMANDS_COMMANDS_H_
#define IDEMPOTENCY_CLIENT_CTL_COMMANDS_COMMANDS_H_

#include <functional>
#include <string>

#include "client/ctl/exit_code.h"
#include "client/ctl/session.h"

namespace CLI {
class App;
}

namespace idempotency::ctl {

using Action = std::function<ExitCode(Session&)>;

// reserve.cc
void AddReserve(CLI::App* app, Action* action);
// on_call.cc
void AddOnCallCommands(CLI::App* app, Action* action);
// owner.cc
void AddRenew(CLI::App* app, Action* action);
void AddComplete(CLI::App* app, Action* action);
void AddRelease(CLI::App* app, Action* action);
void AddMarkUnresolved(CLI::App* app, Action* action);
// read.cc
void AddGet(CLI::App* app, Action* action);
void AddInspect(CLI::App* app, Action* action);
// list.cc
void AddList(CLI::App* app, Action* action);
// resolve.cc
void AddResolve(CLI::App* app, Action* action);
// resolve_csv.cc: a part of resolve.
void AddResolveCsv(CLI::App* resolve, Action* action);
// admin.cc
void AddDelete(CLI::App* app, Action* action);
void AddNamespaces(CLI::App* app, Action* action);
// backup.cc
void AddBackupCommands(CLI::App* app, Action* action);
// engine.cc
void AddEngineCommands(CLI::App* app, Action* action);
// transfer.cc
void AddTransferCommands(CLI::App* app, Action* action);
// server.cc
void AddHealth(CLI::App* app, Action* action);
void AddVersion(CLI::App* app, Action* action);
// Of `app`, which must be complete when the action runs.
void AddCompletion(CLI::App* app, Action* action);
// top.cc
void AddTop(CLI::App* app, Action* action);
// token.cc
void AddTokenCommands(CLI::App* app, Action* action);

// "idempotencyctl 0.1.0 (API idempotency.v1)"
std::string VersionText();

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_COMMANDS_COMMANDS_H_
