// What an owner reports: renew, complete, release, mark-unresolved.
#include <string>
#include <utility>

#include "client/ctl/body_file.h"
#include "client/ctl/commands/commands.h"
#include "client/ctl/commands/options.h"
#include "client/ctl/format.h"
#include "client/ctl/time_proto.h"

namespace idempotency::ctl {
namespace {

// More is refused by the service, with the limit; this only keeps a wrong file out of memory.
constexpr size_t kMaxProgressFileBytes = 1024 * 1024;

FailedCall OwnerCall(const std::string& verb, const v1::OperationId& id, uint64_t token,
                     const Session& session) {
  FailedCall call = session.Failed(verb, /*changes=*/true, id);
  call.subject.fencing_token = token;
  return call;
}

// --- renew ---------------------------------------------------------------------------------------

struct RenewOptions {
  v1::OperationId id;
  uint64_t token = 0;
  std::optional<absl::Duration> lease;
  std::string progress_file;
  bool dispatched = false;
  v1::Owner owner;
};

ExitCode RunRenew(const RenewOptions& options, Session& session) {
  v1::RenewRequest request;
  *request.mutable_id() = options.id;
  request.set_fencing_token(options.token);
  if (options.lease) *request.mutable_lease_duration() = ToProto(*options.lease);
  request.set_dispatched(options.dispatched);
  if (options.owner.ByteSizeLong() != 0) *request.mutable_owner() = options.owner;
  if (!options.progress_file.empty()) {
    FileContent progress = ReadBody(options.progress_file, kMaxProgressFileBytes, session.in());
    if (!progress.error.empty()) return session.Misused(progress.error);
    if (progress.size > kMaxProgressFileBytes) {
      return session.Misused("--progress-file is far too large: at most 4 KiB are kept");
    }
    request.set_progress(std::move(progress.bytes));
  }
  v1::RenewResponse response;
  if (const auto error = session.connection().Renew(request, &response)) {
    FailedCall call = OwnerCall("renew", options.id, options.token, session);
    call.reads_input = options.progress_file == "-";
    return session.Fail(*error, call);
  }
  const absl::Time now =
      response.has_server_time() ? FromProto(response.server_time()) : session.Now();
  session.Show(response, "RENEWED: the operation is yours until its lease ends\n" +
                             FormatLease(response.lease(), now));
  Subject subject = session.SubjectOf(options.id);
  subject.fencing_token = options.token;
  session.Advise(AfterRenew(subject));
  return ExitCode::kOk;
}

// --- complete ------------------------------------------------------------------------------------

struct CompleteOptions {
  v1::OperationId id;
  uint64_t token = 0;
  v1::Verdict verdict = v1::VERDICT_UNSPECIFIED;
  AnswerFlags answer;
  std::string provider_request_id;
  std::optional<absl::Duration> retention;
};

std::string CompletedText(const v1::CompleteResponse& response, absl::Time now) {
  const std::string headline = response.already_complete()
                                   ? ": this very completion had been recorded before\n"
                                   : ": recorded; duplicates are told so\n";
  return EnumText(response.operation().state()) + headline +
         FormatOperation(response.operation(), now);
}

ExitCode RunComplete(const CompleteOptions& options, Session& session) {
  v1::CompleteRequest request;
  *request.mutable_id() = options.id;
  request.set_fencing_token(options.token);
  request.set_verdict(options.verdict);
  request.set_provider_request_id(options.provider_request_id);
  if (options.retention) *request.mutable_retention() = ToProto(*options.retention);
  std::string file_error;
  const auto answer = ReadAnswer(options.answer, session, &file_error);
  if (!file_error.empty()) return session.Misused(file_error);
  if (answer) *request.mutable_response() = *answer;
  v1::CompleteResponse response;
  if (const auto error = session.connection().Complete(request, &response)) {
    FailedCall call = OwnerCall("complete", options.id, options.token, session);
    call.reads_input = options.answer.body_file == "-";
    return session.Fail(*error, call);
  }
  session.Show(response, CompletedText(response, session.Now()));
  return ExitCode::kOk;
}

// --- release -------------------------------------------------------------------------------------

struct ReleaseOptions {
  v1::OperationId id;
  uint64_t token = 0;
  std::string detail;
};

ExitCode RunRelease(const ReleaseOptions& options, Session& session) {
  v1::ReleaseRequest request;
  *request.mutable_id() = options.id;
  request.set_fencing_token(options.token);
  request.set_detail(options.detail);
  v1::ReleaseResponse response;
  if (const auto error = session.connection().Release(request, &response)) {
    return session.Fail(*error, OwnerCall("release", options.id, options.token, session));
  }
  const bool unknown = response.state() == v1::OPERATION_STATE_UNRESOLVED;
  session.Show(response, EnumText(response.state()) +
                             (unknown ? ": an earlier attempt's outcome is still unknown\n"
                                      : ": given back; the next reserve acquires\n"));
  if (!unknown) return ExitCode::kOk;
  v1::Operation operation;
  operation.set_state(response.state());
  session.Advise(AfterLook(v1::NEXT_STEP_RECONCILE_FIRST, operation, std::nullopt,
                           session.SubjectOf(options.id)));
  return ExitCode::kUnresolved;
}

// --- mark-unresolved -----------------------------------------------------------------------------

struct MarkOptions {
  v1::OperationId id;
  uint64_t token = 0;
  v1::UnresolvedCause cause = v1::UNRESOLVED_CAUSE_OTHER;
  std::string detail;
  std::string provider_request_id;
  std::optional<absl::Duration> retry_after;
  bool reconcile_first = false;
};

ExitCode RunMark(const MarkOptions& options, Session& session) {
  v1::MarkUnresolvedRequest request;
  *request.mutable_id() = options.id;
  request.set_fencing_token(options.token);
  request.set_cause(options.cause);
  request.set_detail(options.detail);
  request.set_provider_request_id(options.provider_request_id);
  if (options.retry_after) *request.mutable_retry_after() = ToProto(*options.retry_after);
  request.set_reconcile_first(options.reconcile_first);
  v1::MarkUnresolvedResponse response;
  if (const auto error = session.connection().MarkUnresolved(request, &response)) {
    return session.Fail(*error, OwnerCall("mark-unresolved", options.id, options.token, session));
  }
  session.Show(response, EnumText(response.operation().state()) +
                             ": recorded; nothing runs it again silently\n" +
                             FormatOperation(response.operation(), session.Now()));
  Subject subject = session.SubjectOf(options.id);
  subject.etag = response.operation().etag();
  std::optional<absl::Duration> retry_after;
  if (response.has_retry_after()) retry_after = FromProto(response.retry_after());
  session.Advise(AfterLook(response.next_step(), response.operation(), retry_after, subject));
  return ExitCode::kOk;
}

}  // namespace

void AddRenew(CLI::App* app, Action* action) {
  const auto options = std::make_shared<RenewOptions>();
  CLI::App* command = AddCommand(app, "renew", "Extend the lease; record progress or the dispatch");
  AddId(command, &options->id);
  AddToken(command, &options->token);
  AddDuration(command, "--lease", "From now on; a lease never gets shorter [the default]",
              &options->lease);
  command
      ->add_option("--progress-file", options->progress_file,
                   "Kept for the next attempt, at most 4 KiB; - for standard input")
      ->type_name("FILE");
  command->add_flag("--dispatched", options->dispatched,
                    "The effect starts when this is acknowledged");
  AddOwner(command, &options->owner);
  SetFooter(command,
            "\nExit codes: 0 renewed, 2 usage, 3 refused (LEASE_LAPSED: report how it ended), 4 no "
            "answer.\n\nExample:\n"
            "  idempotencyctl renew payments acct-1 order-7 --fencing-token=7 --lease=2m\n");
  OnNamed(command, action, options, &RunRenew);
}

void AddComplete(CLI::App* app, Action* action) {
  const auto options = std::make_shared<CompleteOptions>();
  CLI::App* command = AddCommand(app, "complete", "End the operation with an answer to replay");
  AddId(command, &options->id);
  AddToken(command, &options->token);
  AddEnum(command, "--verdict", "succeeded, or failed for good", &options->verdict)
      ->check(CLI::IsMember({"succeeded", "failed"}).description(""))
      ->required()
      ->type_name("succeeded|failed");
  AddAnswer(command, &options->answer);
  command
      ->add_option("--provider-request-id", options->provider_request_id,
                   "The provider's own id of the call")
      ->type_name("ID");
  AddDuration(command, "--retention", "Replay the answer for longer than the policy says",
              &options->retention);
  SetFooter(
      command,
      "\nExit codes: 0 recorded (also when it was before), 2 usage, 3 refused, 4 no answer (repeat "
      "it).\n\nExample:\n"
      "  idempotencyctl complete payments acct-1 order-7 --fencing-token=7 --verdict=succeeded \\\n"
      "      --http-status=200 --content-type=application/json --body-file=reply.json\n");
  OnNamed(command, action, options, &RunComplete);
}

void AddRelease(CLI::App* app, Action* action) {
  const auto options = std::make_shared<ReleaseOptions>();
  CLI::App* command =
      AddCommand(app, "release", "Give the key back: this attempt did nothing, for certain");
  AddId(command, &options->id);
  AddToken(command, &options->token);
  command->add_option("--detail", options->detail, "Why, for the history")->type_name("TEXT");
  SetFooter(command,
            "\nExit codes: 0 freed, 13 an earlier attempt's outcome is still unknown, 2 usage, 3 "
            "refused,\n4 no answer.\n\nExample:\n"
            "  idempotencyctl release payments acct-1 order-7 --fencing-token=7 "
            "--detail='card declined before the call'\n");
  OnNamed(command, action, options, &RunRelease);
}

void AddMarkUnresolved(CLI::App* app, Action* action) {
  const auto options = std::make_shared<MarkOptions>();
  CLI::App* command =
      AddCommand(app, "mark-unresolved", "Record that nobody can tell whether it happened");
  AddId(command, &options->id);
  AddToken(command, &options->token);
  AddEnum(command, "--cause",
          "timeout, connection-lost, server-error, owner-cancelled or other [other]",
          &options->cause)
      ->type_name("CAUSE");
  command->add_option("--detail", options->detail, "What was seen, for the history")
      ->type_name("TEXT");
  command
      ->add_option("--provider-request-id", options->provider_request_id,
                   "The provider's own id of the call")
      ->type_name("ID");
  AddDuration(command, "--retry-after", "What the provider asked for", &options->retry_after);
  command->add_flag("--reconcile-first", options->reconcile_first,
                    "No further attempt, whatever the policy: somebody must resolve it");
  SetFooter(command,
            "\nExit codes: 0 recorded, 2 usage, 3 refused, 4 no answer.\n\nExample:\n"
            "  idempotencyctl mark-unresolved payments acct-1 order-7 --fencing-token=7 "
            "--cause=timeout\n");
  OnNamed(command, action, options, &RunMark);
}

}  // namespace idempotency::ctl
