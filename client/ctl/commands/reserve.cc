#include <string>
#include <utility>

#include "client/ctl/body_file.h"
#include "client/ctl/commands/commands.h"
#include "client/ctl/commands/options.h"
#include "client/ctl/format.h"
#include "client/ctl/time_proto.h"

namespace idempotency::ctl {
namespace {

struct ReserveOptions {
  v1::OperationId id;
  RequestFlags request;
  std::string attempt_id;
  std::optional<absl::Duration> lease;
  std::optional<absl::Duration> wait;
  std::optional<absl::Duration> operation_age;
  v1::Owner owner;
  std::vector<std::string> labels;
  bool dispatch_later = false;
  bool start_over = false;
  std::string body_out;
};

v1::ReserveRequest MakeRequest(const ReserveOptions& options, const Session& session) {
  v1::ReserveRequest request;
  *request.mutable_id() = options.id;
  request.set_attempt_id(options.attempt_id.empty() ? session.NewAttemptId() : options.attempt_id);
  if (options.lease) *request.mutable_lease_duration() = ToProto(*options.lease);
  if (options.wait) *request.mutable_wait_duration() = ToProto(*options.wait);
  if (options.operation_age) *request.mutable_operation_age() = ToProto(*options.operation_age);
  *request.mutable_owner() = options.owner;
  // Duplicates are told who is at it: let that be somebody.
  if (options.owner.worker().empty()) request.mutable_owner()->set_worker(session.User());
  for (const std::string& label : options.labels) {
    const auto [name, value] = SplitPair(label, '=');
    (*request.mutable_labels())[name] = value;
  }
  request.set_dispatch_later(options.dispatch_later);
  request.set_start_over(options.start_over);
  return request;
}

// The same call with the same attempt id. The request file is named by its digest: the file may
// change, or was standard input.
std::string RepeatOf(const ReserveOptions& options, const v1::ReserveRequest& request,
                     const Session& session) {
  CommandLine command(session.globals().target, "reserve");
  command.Id(options.id).Flag("attempt-id", request.attempt_id());
  if (request.has_fingerprint()) {
    command.Flag("fingerprint", FormatFingerprint(request.fingerprint()));
  }
  const auto duration = [&](const char* name, const std::optional<absl::Duration>& value) {
    if (value) command.Flag(name, DurationText(*value));
  };
  duration("lease", options.lease);
  duration("wait", options.wait);
  duration("operation-age", options.operation_age);
  command.OptionalFlag("worker", options.owner.worker())
      .OptionalFlag("reference", options.owner.operation_ref())
      .OptionalFlag("traceparent", options.owner.traceparent());
  for (const std::string& label : options.labels) command.Flag("label", label);
  if (options.dispatch_later) command.Switch("dispatch-later");
  if (options.start_over) command.Switch("start-over");
  return command.OptionalFlag("body-out", options.body_out).ToString();
}

CallOptions WaitOptions(const ReserveOptions& options, Session& session) {
  CallOptions call;
  if (!options.wait || *options.wait == absl::ZeroDuration()) return call;
  call.wait = *options.wait;
  call.before_send = [&session, wait = *options.wait] {
    session.Note("waiting up to " + DurationText(wait) +
                 " for an operation in progress to end (Ctrl-C is safe)");
  };
  return call;
}

ExitCode Report(const ReserveOptions& options, const v1::ReserveRequest& request,
                const v1::ReserveResponse& response, Session& session) {
  ExitCode code = ExitCodeOf(response.outcome());
  bool body_written = false;
  if (!options.body_out.empty() && code == ExitCode::kCompleted) {
    body_written = session.WriteAnswer(options.body_out, response.operation().response());
    if (!body_written) code = ExitCode::kNotWritten;
  }
  // Only the service's clock counts.
  const absl::Time now =
      response.has_server_time() ? FromProto(response.server_time()) : session.Now();
  session.Show(response, FormatReserve(response, options.id, request.attempt_id(), now));
  Subject subject = session.SubjectOf(options.id);
  subject.etag = response.operation().etag();
  if (request.has_fingerprint()) subject.fingerprint = FormatFingerprint(request.fingerprint());
  session.Advise(AfterReserve(response, subject, options.dispatch_later, body_written));
  return code;
}

ExitCode RunReserve(const ReserveOptions& options, Session& session) {
  v1::ReserveRequest request = MakeRequest(options, session);
  std::string file_error;
  const std::optional<v1::Fingerprint> fingerprint =
      ReadFingerprint(options.request, session, &file_error);
  if (!file_error.empty()) return session.Misused(file_error);
  if (fingerprint) *request.mutable_fingerprint() = *fingerprint;
  if (options.body_out == "-") session.GiveOutputToBody();

  // Before anything is sent: whatever happens to this process, the call can be repeated.
  session.Note("attempt id: " + request.attempt_id());
  v1::ReserveResponse response;
  if (const auto error =
          session.connection().Reserve(request, &response, WaitOptions(options, session))) {
    FailedCall call = session.Failed("reserve", /*changes=*/true, options.id);
    call.repeat = RepeatOf(options, request, session);
    call.attempt_id = request.attempt_id();
    if (fingerprint) call.subject.fingerprint = FormatFingerprint(*fingerprint);
    return session.Fail(*error, call);
  }
  return Report(options, request, response, session);
}

}  // namespace

void AddReserve(CLI::App* app, Action* action) {
  const auto options = std::make_shared<ReserveOptions>();
  CLI::App* command = AddCommand(app, "reserve", "Claim an operation, or learn what became of it");
  AddId(command, &options->id);
  AddRequest(command, "is the fingerprint", &options->request);
  command
      ->add_option("--attempt-id", options->attempt_id,
                   "16-64 bytes; only to repeat this very call after a lost answer [random]")
      ->type_name("ID");
  AddDuration(command, "--lease", "How long it is yours [the namespace's default]",
              &options->lease);
  AddDuration(command, "--wait",
              "How long to wait for an operation in progress to end; the namespace has a maximum "
              "[not at all]",
              &options->wait);
  AddOwner(command, &options->owner);
  AddRepeated(command, "--label", "A label for people and tools, NAME=VALUE; repeatable",
              &options->labels)
      ->check(HasSeparator('=', "NAME=VALUE"))
      ->type_name("LABEL");
  AddDuration(command, "--operation-age",
              "How long ago this operation was first sent, in any attempt: older than what is "
              "remembered is TOO_OLD, never a guess",
              &options->operation_age);
  command->add_flag("--dispatch-later", options->dispatch_later,
                    "The effect starts only after renew --dispatched; a lease that lapses before "
                    "that frees the key");
  command->add_flag("--start-over", options->start_over,
                    "Treat an EXPIRED or TOO_OLD key as new: you have found out");
  command
      ->add_option("--body-out", options->body_out,
                   "Where a stored body goes, if COMPLETED; - for standard output")
      ->type_name("FILE");
  SetFooter(
      command,
      "\nExit codes: 0 acquired, 10 already held, 11 in progress, 12 completed, 13 unresolved,\n"
      "14 fingerprint mismatch, 15 expired, 16 too old, 2 usage, 3 refused, 4 no answer (repeat\n"
      "with the same --attempt-id), 5 --body-out not written, 20 not understood.\n"
      "\n"
      "Examples:\n"
      "  idempotencyctl reserve payments acct-1 order-7 --request-file=charge.json\n"
      "  idempotencyctl reserve payments acct-1 order-7 --request-file=charge.json \\\n"
      "      --lease=2m --wait=30s --body-out=reply.json\n");
  OnNamed(command, action, options, &RunReserve);
}

}  // namespace idempotency::ctl
