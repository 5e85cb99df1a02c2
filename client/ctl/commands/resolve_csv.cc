// resolve from-csv: settles what a provider's list says, all at once.
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/ctl/body_file.h"
#include "client/ctl/commands/commands.h"
#include "client/ctl/commands/options.h"
#include "client/ctl/evidence.h"
#include "client/ctl/forecast.h"
#include "client/ctl/format.h"
#include "client/ctl/progress.h"
#include "client/ctl/table.h"
#include "client/ctl/time_proto.h"
#include "google/protobuf/struct.pb.h"

namespace idempotency::ctl {
namespace {

struct CsvOptions {
  std::string file;
  DecisionFlags decision;
  bool dry_run = false;
};

// What became of the lines; in a dry run, what would.
struct Tally {
  size_t lines = 0;
  size_t settled = 0;
  struct Other {
    size_t line = 0;
    v1::OperationId id;
    std::string reason;
    std::string message;
  };
  std::vector<Other> refused;
  // Dry run: what they depend on is not shown. The reason is the one that they may be refused with.
  std::vector<Other> unknown;
  // Dry run: a line is to be settled as not executed.
  bool frees = false;

  static Other About(const Evidence& evidence, std::string reason, std::string message) {
    return {evidence.line, evidence.request.id(), std::move(reason), std::move(message)};
  }
  void Refuse(const Evidence& evidence, std::string reason, std::string message) {
    refused.push_back(About(evidence, std::move(reason), std::move(message)));
  }
};

std::string Resolution(const v1::ResolveOperationRequest& request) {
  if (request.has_completed()) return "completed";
  return request.has_not_executed() ? "not-executed" : "abandoned";
}

// Says of each line what the server would answer, and changes nothing.
class DryRun {
 public:
  explicit DryRun(Session* session) : connection_(session->connection()), session_(*session) {}

  Connection::Error Look(const Evidence& evidence, Tally* tally) {
    std::optional<CallError> refusal;
    if (auto error = AskRole(evidence.request.id(), &refusal)) return error;
    v1::InspectOperationRequest request;
    *request.mutable_id() = evidence.request.id();
    v1::InspectOperationResponse response;
    if (!refusal) refusal = connection_.InspectOperation(request, &response);
    if (refusal && refusal->delivery != Delivery::kRefused) return refusal;
    if (refusal) {
      tally->Refuse(evidence, refusal->reason, refusal->message);
      return std::nullopt;
    }
    std::optional<absl::Duration> settle;
    if (evidence.request.has_not_executed()) {
      if (auto error = AskSettle(evidence.request.id().namespace_(), &settle)) return error;
    }
    const absl::Time now =
        response.has_server_time() ? FromProto(response.server_time()) : session_.Now();
    Count(evidence, ForecastResolve(evidence.request, response.operation(), settle, now), tally);
    return std::nullopt;
  }

 private:
  // Whether this caller may settle here. The server asks that before all else, and a request
  // without what every resolve must have (a resolution, an actor, a reason) is refused right after
  // it, before any record is looked at: sending one tells, and can change nothing. *refusal: not.
  Connection::Error AskRole(const v1::OperationId& id, std::optional<CallError>* refusal) {
    const auto place = std::make_pair(id.namespace_(), id.scope());
    if (const auto known = roles_.find(place); known != roles_.end()) {
      *refusal = known->second;
      return std::nullopt;
    }
    v1::ResolveOperationRequest request;
    *request.mutable_id() = id;
    v1::ResolveOperationResponse response;
    auto error = connection_.ResolveOperation(request, &response);
    if (error && error->delivery != Delivery::kRefused) return error;
    if (error && ReasonOf(*error) == v1::ERROR_REASON_INVALID_FIELD) error.reset();
    *refusal = error;
    // What else it may be (OVERLOADED) is of this moment.
    if (!error || ReasonOf(*error) == v1::ERROR_REASON_ACCESS_DENIED) roles_[place] = error;
    return std::nullopt;
  }

  // Unset where the server does not say: the namespace was taken out of its configuration.
  Connection::Error AskSettle(const std::string& name, std::optional<absl::Duration>* settle) {
    auto known = settle_.find(name);
    if (known == settle_.end()) {
      v1::GetNamespaceRequest request;
      request.set_name(name);
      v1::GetNamespaceResponse response;
      const auto error = connection_.GetNamespace(request, &response);
      if (error && error->delivery != Delivery::kRefused) return error;
      std::optional<absl::Duration> said;
      if (!error) said = FromProto(response.namespace_().settle_duration());
      known = settle_.emplace(name, said).first;
    }
    *settle = known->second;
    return std::nullopt;
  }

  static void Count(const Evidence& evidence, Forecast forecast, Tally* tally) {
    switch (forecast.answer) {
      case Forecast::Answer::kSettles:
        ++tally->settled;
        tally->frees = tally->frees || evidence.request.has_not_executed();
        break;
      case Forecast::Answer::kRefuses:
        tally->Refuse(evidence, std::move(forecast.reason), std::move(forecast.message));
        break;
      case Forecast::Answer::kUnknown:
        tally->unknown.push_back(
            Tally::About(evidence, std::move(forecast.reason), std::move(forecast.message)));
        break;
    }
  }

  Connection& connection_;
  const Session& session_;
  // By namespace and scope: why not, or nothing where it may.
  std::map<std::pair<std::string, std::string>, std::optional<CallError>> roles_;
  std::map<std::string, std::optional<absl::Duration>> settle_;
};

Connection::Error Settle(const Evidence& evidence, Session& session, Tally* tally) {
  v1::ResolveOperationResponse response;
  if (auto error = session.connection().ResolveOperation(evidence.request, &response)) {
    if (error->delivery != Delivery::kRefused) return error;
    tally->Refuse(evidence, error->reason, error->message);
    return std::nullopt;
  }
  ++tally->settled;
  return std::nullopt;
}

std::string TableOf(const char* why, const std::vector<Tally::Other>& others) {
  Table table({"LINE", "OPERATION", why, "DETAIL"});
  for (const Tally::Other& other : others) {
    table.Add({std::to_string(other.line), FormatId(other.id), other.reason, other.message});
  }
  return table.empty() ? "" : table.ToString();
}

std::string TextOf(const Tally& tally, bool dry_run) {
  std::string text =
      absl::StrCat(TableOf("WHY NOT", tally.refused), TableOf("PERHAPS NOT", tally.unknown),
                   tally.settled, dry_run ? " would be settled, " : " settled, ",
                   tally.refused.size(), dry_run ? " would not" : " not");
  if (!tally.unknown.empty()) {
    absl::StrAppend(&text, ", ", tally.unknown.size(), " cannot be told");
  }
  absl::StrAppend(&text, ", of ", tally.lines, tally.lines == 1 ? " line\n" : " lines\n");
  if (tally.frees) absl::StrAppend(&text, "Not known: ", kLongerSettle, ".\n");
  return text;
}

void AddOthers(const std::vector<Tally::Other>& others, google::protobuf::Value* field) {
  auto* const list = field->mutable_list_value();
  for (const Tally::Other& other : others) {
    auto& one = *list->add_values()->mutable_struct_value()->mutable_fields();
    one["line"].set_number_value(static_cast<double>(other.line));
    one["namespace"].set_string_value(other.id.namespace_());
    one["scope"].set_string_value(other.id.scope());
    one["key"].set_string_value(other.id.key());
    one["reason"].set_string_value(other.reason);
    one["message"].set_string_value(other.message);
  }
}

google::protobuf::Struct DocumentOf(const Tally& tally, bool dry_run) {
  google::protobuf::Struct document;
  auto& fields = *document.mutable_fields();
  fields["dryRun"].set_bool_value(dry_run);
  fields["lines"].set_number_value(static_cast<double>(tally.lines));
  fields["settled"].set_number_value(static_cast<double>(tally.settled));
  AddOthers(tally.refused, &fields["refused"]);
  if (dry_run) AddOthers(tally.unknown, &fields["unknown"]);
  if (tally.frees) fields["notKnown"].set_string_value(kLongerSettle);
  return document;
}

ExitCode NoAnswer(const CallError& error, const Evidence& evidence, size_t lines,
                  const CsvOptions& options, const Tally& tally, Session& session) {
  session.Note(absl::StrCat("line ", evidence.line, " of ", lines + 1, " (",
                            Resolution(evidence.request), " ", FormatId(evidence.request.id()),
                            ") had no answer; before it ", tally.settled,
                            options.dry_run ? " would be settled" : " were settled", " and ",
                            tally.refused.size(), " not. The whole file may be sent again."));
  FailedCall call = session.Failed("resolve from-csv", !options.dry_run, evidence.request.id());
  call.reads_input = options.file == "-";
  return session.Fail(error, call);
}

ExitCode RunCsv(const CsvOptions& options, Session& session) {
  const std::string actor = ActorOf(options.decision, session);
  if (actor.empty()) return session.Misused(kNoActor);
  const FileContent file = ReadBody(options.file, kMaxBodyBytes, session.in());
  if (!file.error.empty()) return session.Misused(file.error);
  if (file.size > file.bytes.size()) {
    return session.Misused(absl::StrCat(options.file, " is larger than 15 MiB; split it"));
  }
  std::string wrong;
  const std::vector<Evidence> all =
      ReadEvidence(file.bytes, actor, options.decision.reason, &wrong);
  if (!wrong.empty()) {
    return session.Misused(absl::StrCat(options.file, ": ", wrong, "\nNothing was sent."));
  }
  Tally tally;
  DryRun dry_run(&session);
  for (const Evidence& evidence : all) {
    ++tally.lines;
    session.Progress(
        LinesProgress(options.dry_run ? "looking at" : "settling", tally.lines, all.size()));
    const Connection::Error error =
        options.dry_run ? dry_run.Look(evidence, &tally) : Settle(evidence, session, &tally);
    if (error) return NoAnswer(*error, evidence, all.size(), options, tally, session);
  }
  session.Show(DocumentOf(tally, options.dry_run), TextOf(tally, options.dry_run));
  return tally.refused.empty() ? ExitCode::kOk : ExitCode::kRefused;
}

}  // namespace

void AddResolveCsv(CLI::App* resolve, Action* action) {
  const auto options = std::make_shared<CsvOptions>();
  CLI::App* command =
      AddCommand(resolve, "from-csv", "Settle many, by a file with a line of evidence for each");
  command->add_option("FILE", options->file, "The file; - for standard input")
      ->required()
      ->type_name("");
  command->add_option("--actor", options->decision.actor, "Who decides [$USER]")->type_name("NAME");
  command
      ->add_option("--reason", options->decision.reason,
                   "On what evidence, for lines that do not say it themselves")
      ->type_name("TEXT");
  command->add_flag("--dry-run", options->dry_run,
                    "Say what the server would answer now, and change nothing");
  SetFooter(
      command,
      "\nEvery line is read before anything is sent; one that is wrong stops all of them. The\n"
      "same file may be sent again: what it has settled stays settled.\n\n"
      "--dry-run judges each line by what the operation is now, its etag, the namespace's\n"
      "settle_duration and your role; what the server does not show is said, and counted apart.\n"
      "It reads as READER, and asks of each scope whether you may settle there.\n\n" +
          EvidenceHelp() +
          "\nExit codes: 0 all settled (--dry-run: none would be refused), 2 usage, 3 some "
          "refused, 4 no\nanswer (send it again).\n\nExample:\n"
          "  idempotencyctl resolve from-csv stripe.csv --reason='export of 2026-01-02' "
          "--dry-run\n");
  OnNamed(command, action, options, &RunCsv);
}

}  // namespace idempotency::ctl
