// Looking at one operation: get as its callers see it, inspect as operators do.
#include <string>

#include "client/ctl/body_file.h"
#include "client/ctl/commands/commands.h"
#include "client/ctl/commands/options.h"
#include "client/ctl/format.h"
#include "client/ctl/printable.h"
#include "client/ctl/time_proto.h"

namespace idempotency::ctl {
namespace {

// Shown where nobody said which request it is; the reader puts the file's name in its place.
constexpr char kUnknownRequest[] = "ALGORITHM:HEX";

Subject Seen(const v1::OperationId& id, const v1::Operation& operation,
             const std::string& fingerprint, const Session& session) {
  Subject subject = session.SubjectOf(id);
  subject.etag = operation.etag();
  subject.fingerprint = fingerprint;
  if (!operation.fingerprint().digest().empty()) {
    subject.fingerprint = FormatFingerprint(operation.fingerprint());
  } else if (fingerprint.empty() && !operation.fingerprint().algorithm().empty()) {
    subject.fingerprint = kUnknownRequest;
  }
  return subject;
}

// --- get -----------------------------------------------------------------------------------------

struct GetOptions {
  v1::OperationId id;
  std::optional<absl::Duration> wait;
  RequestFlags request;
  std::string body_out;
  bool exit_code = false;
};

CallOptions WaitOptions(const GetOptions& options, Session& session) {
  CallOptions call;
  if (!options.wait || *options.wait == absl::ZeroDuration()) return call;
  call.wait = *options.wait;
  call.before_send = [&session, wait = *options.wait] {
    session.Note("waiting up to " + DurationText(wait) + " for it to end");
  };
  return call;
}

ExitCode RunGet(const GetOptions& options, Session& session) {
  v1::GetOperationRequest request;
  *request.mutable_id() = options.id;
  if (options.wait) *request.mutable_wait_duration() = ToProto(*options.wait);
  std::string file_error;
  const auto fingerprint = ReadFingerprint(options.request, session, &file_error);
  if (!file_error.empty()) return session.Misused(file_error);
  if (fingerprint) *request.mutable_fingerprint() = *fingerprint;
  if (options.body_out == "-") session.GiveOutputToBody();

  v1::GetOperationResponse response;
  if (const auto error =
          session.connection().GetOperation(request, &response, WaitOptions(options, session))) {
    FailedCall call = session.Failed("get", /*changes=*/false, options.id);
    call.reads_input = options.request.file == "-";
    return session.Fail(*error, call);
  }
  const v1::Operation& operation = response.operation();
  ExitCode code = options.exit_code ? ExitCodeOf(operation.state()) : ExitCode::kOk;
  const bool ended = code == ExitCode::kOk || code == ExitCode::kCompleted;
  if (!options.body_out.empty() && !session.WriteAnswer(options.body_out, operation.response()) &&
      ended) {
    code = ExitCode::kNotWritten;
  }
  const absl::Time now =
      response.has_server_time() ? FromProto(response.server_time()) : session.Now();
  session.Show(response, FormatOperation(operation, now));
  std::optional<absl::Duration> retry_after;
  if (response.has_retry_after()) retry_after = FromProto(response.retry_after());
  const std::string given = fingerprint ? FormatFingerprint(*fingerprint) : "";
  session.Advise(AfterLook(response.next_step(), operation, retry_after,
                           Seen(options.id, operation, given, session)));
  return code;
}

// --- inspect -------------------------------------------------------------------------------------

struct InspectOptions {
  v1::OperationId id;
  std::string body_out;
};

std::string InspectText(const v1::InspectOperationResponse& response, absl::Time now) {
  std::string text = FormatOperation(response.operation(), now);
  if (response.fencing_token() != 0) {
    text += "newest fencing token " + std::to_string(response.fencing_token()) + "\n";
  }
  if (!response.detail().empty()) text += Printable(response.detail()) + "\n";
  return text;
}

ExitCode RunInspect(const InspectOptions& options, Session& session) {
  v1::InspectOperationRequest request;
  *request.mutable_id() = options.id;
  if (options.body_out == "-") session.GiveOutputToBody();
  v1::InspectOperationResponse response;
  if (const auto error = session.connection().InspectOperation(request, &response)) {
    return session.Fail(*error, session.Failed("inspect", /*changes=*/false, options.id));
  }
  const v1::Operation& operation = response.operation();
  ExitCode code = ExitCode::kOk;
  if (!options.body_out.empty() && !session.WriteAnswer(options.body_out, operation.response())) {
    code = ExitCode::kNotWritten;
  }
  const absl::Time now =
      response.has_server_time() ? FromProto(response.server_time()) : session.Now();
  session.Show(response, InspectText(response, now));
  session.Advise(AfterLook(response.next_step(), operation, std::nullopt,
                           Seen(options.id, operation, "", session)));
  return code;
}

}  // namespace

void AddGet(CLI::App* app, Action* action) {
  const auto options = std::make_shared<GetOptions>();
  CLI::App* command = AddCommand(app, "get", "Read an operation, or wait for it to end");
  AddId(command, &options->id);
  AddDuration(command, "--wait",
              "How long to wait while it is PENDING; the namespace has a maximum [not at all]",
              &options->wait);
  AddRequest(command, "must match for the stored answer to be given", &options->request);
  command
      ->add_option("--body-out", options->body_out,
                   "Where the stored body goes; - for standard output")
      ->type_name("FILE");
  command->add_flag("--exit-code", options->exit_code, "End with a code for the state found");
  SetFooter(
      command,
      "\nExit codes: 0 read, 2 usage, 3 refused (OPERATION_NOT_FOUND), 4 no answer, 5 --body-out "
      "not\nwritten. With --exit-code: 11 pending, 12 complete, 13 unresolved, 15 expired, 17 "
      "freed.\n\nExample:\n"
      "  idempotencyctl get payments acct-1 order-7 --wait=30s --request-file=charge.json \\\n"
      "      --body-out=reply.json\n");
  OnNamed(command, action, options, &RunGet);
}

void AddInspect(CLI::App* app, Action* action) {
  const auto options = std::make_shared<InspectOptions>();
  CLI::App* command =
      AddCommand(app, "inspect", "All about one operation, answer and history included");
  AddId(command, &options->id);
  command
      ->add_option("--body-out", options->body_out,
                   "Where the stored body goes; - for standard output")
      ->type_name("FILE");
  SetFooter(
      command,
      "\nExit codes: 0 read, 2 usage, 3 refused (OPERATION_NOT_FOUND), 4 no answer, 5 --body-out "
      "not\nwritten.\n\nExample:\n"
      "  idempotencyctl inspect payments acct-1 order-7\n");
  OnNamed(command, action, options, &RunInspect);
}

}  // namespace idempotency::ctl
