#include <string>

#include "client/ctl/commands/commands.h"
#include "client/ctl/commands/options.h"
#include "client/ctl/format.h"

namespace idempotency::ctl {
namespace {

enum class Resolution { kCompleted, kNotExecuted, kAbandoned };

struct ResolveOptions {
  Resolution resolution = Resolution::kAbandoned;
  v1::OperationId id;
  DecisionFlags decision;
  std::string provider_request_id;
  // Only for kCompleted.
  v1::Verdict verdict = v1::VERDICT_UNSPECIFIED;
  AnswerFlags answer;
};

std::string VerbOf(Resolution resolution) {
  switch (resolution) {
    case Resolution::kCompleted:
      return "resolve completed";
    case Resolution::kNotExecuted:
      return "resolve not-executed";
    case Resolution::kAbandoned:
      return "resolve abandoned";
  }
  return "resolve";
}

std::string HeadlineOf(Resolution resolution) {
  switch (resolution) {
    case Resolution::kCompleted:
      return "settled as completed; duplicates are given this answer";
    case Resolution::kNotExecuted:
      return "settled as not executed; the next reserve acquires";
    case Resolution::kAbandoned:
      return "closed without a known outcome; duplicates are told to stop";
  }
  return "settled";
}

// Empty, or one sentence.
std::string SetResolution(const ResolveOptions& options, Session& session,
                          v1::ResolveOperationRequest* request) {
  std::string error;
  switch (options.resolution) {
    case Resolution::kCompleted: {
      auto* completed = request->mutable_completed();
      completed->set_verdict(options.verdict);
      const auto answer = ReadAnswer(options.answer, session, &error);
      if (answer) *completed->mutable_response() = *answer;
      break;
    }
    case Resolution::kNotExecuted:
      request->mutable_not_executed();
      break;
    case Resolution::kAbandoned:
      request->mutable_abandoned();
      break;
  }
  return error;
}

ExitCode RunResolve(const ResolveOptions& options, Session& session) {
  v1::ResolveOperationRequest request;
  *request.mutable_id() = options.id;
  request.set_actor(ActorOf(options.decision, session));
  if (request.actor().empty()) return session.Misused(kNoActor);
  request.set_reason(options.decision.reason);
  request.set_etag(options.decision.etag);
  request.set_provider_request_id(options.provider_request_id);
  const std::string file_error = SetResolution(options, session, &request);
  if (!file_error.empty()) return session.Misused(file_error);
  v1::ResolveOperationResponse response;
  if (const auto error = session.connection().ResolveOperation(request, &response)) {
    FailedCall call = session.Failed(VerbOf(options.resolution), /*changes=*/true, options.id);
    call.reads_input = options.answer.body_file == "-";
    return session.Fail(*error, call);
  }
  session.Show(response, EnumText(response.operation().state()) + ": " +
                             HeadlineOf(options.resolution) + "\n" +
                             FormatOperation(response.operation(), session.Now()));
  return ExitCode::kOk;
}

// One kind of resolution is one command, so that each takes only what it needs.
CLI::App* AddKind(CLI::App* resolve, const std::string& name, const std::string& description,
                  Resolution resolution, Action* action, std::shared_ptr<ResolveOptions>* parsed) {
  const auto options = std::make_shared<ResolveOptions>();
  options->resolution = resolution;
  CLI::App* command = AddCommand(resolve, name, description);
  AddId(command, &options->id);
  AddDecision(command, &options->decision);
  command
      ->add_option("--provider-request-id", options->provider_request_id,
                   "The provider's own id of the call")
      ->type_name("ID");
  OnNamed(command, action, options, &RunResolve);
  *parsed = options;
  return command;
}

constexpr char kExitCodes[] =
    "\nExit codes: 0 settled (a repeat too), 2 usage, 3 refused (LEASE_LIVE, NOT_SETTLED, "
    "WRONG_STATE,\nETAG_MISMATCH), 4 no answer (repeat it).\n";

}  // namespace

void AddResolve(CLI::App* app, Action* action) {
  CLI::App* resolve = AddCommand(app, "resolve", "Settle an UNRESOLVED operation");
  resolve->require_subcommand(1);
  SetFooter(
      resolve,
      std::string(kExitCodes) +
          "\nFind out first (idempotencyctl inspect), then say what is so:\n"
          "  idempotencyctl resolve completed payments acct-1 order-7 --verdict=succeeded \\\n"
          "      --reason='charge ch_1 is in the provider dashboard'\n");
  std::shared_ptr<ResolveOptions> options;
  CLI::App* completed =
      AddKind(resolve, "completed", "The effect happened; this is the answer to replay",
              Resolution::kCompleted, action, &options);
  AddEnum(completed, "--verdict", "succeeded, or failed for good", &options->verdict)
      ->check(CLI::IsMember({"succeeded", "failed"}).description(""))
      ->required()
      ->type_name("succeeded|failed");
  AddAnswer(completed, &options->answer);
  SetFooter(completed, kExitCodes);
  SetFooter(AddKind(resolve, "not-executed", "The effect did not happen: the next reserve acquires",
                    Resolution::kNotExecuted, action, &options),
            kExitCodes);
  SetFooter(AddKind(resolve, "abandoned", "Nobody will ever know: duplicates are told to stop",
                    Resolution::kAbandoned, action, &options),
            kExitCodes);
  AddResolveCsv(resolve, action);
}

}  // namespace idempotency::ctl
