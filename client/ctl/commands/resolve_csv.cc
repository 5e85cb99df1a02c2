// resolve from-csv: settles what a provider's list says, all at once.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/ctl/body_file.h"
#include "client/ctl/commands/commands.h"
#include "client/ctl/commands/options.h"
#include "client/ctl/evidence.h"
#include "client/ctl/format.h"
#include "client/ctl/table.h"
#include "google/protobuf/struct.pb.h"

namespace idempotency::ctl {
namespace {

struct CsvOptions {
  std::string file;
  DecisionFlags decision;
  bool dry_run = false;
};

// What became of the lines.
struct Tally {
  size_t lines = 0;
  // Settled; dry run: would be.
  size_t settled = 0;
  // Not settled, and why.
  struct Refused {
    size_t line = 0;
    v1::OperationId id;
    std::string reason;
    std::string message;
  };
  std::vector<Refused> refused;

  void Refuse(const Evidence& evidence, std::string reason, std::string message) {
    refused.push_back(
        {evidence.line, evidence.request.id(), std::move(reason), std::move(message)});
  }
};

std::string Resolution(const v1::ResolveOperationRequest& request) {
  if (request.has_completed()) return "completed";
  return request.has_not_executed() ? "not-executed" : "abandoned";
}

// Asks what the operation is now, and changes nothing.
Connection::Error Look(const Evidence& evidence, Session& session, Tally* tally) {
  v1::InspectOperationRequest request;
  *request.mutable_id() = evidence.request.id();
  v1::InspectOperationResponse response;
  if (auto error = session.connection().InspectOperation(request, &response)) {
    if (error->delivery != Delivery::kRefused) return error;
    tally->Refuse(evidence, error->reason, error->message);
    return std::nullopt;
  }
  const v1::Operation& operation = response.operation();
  const std::string& etag = evidence.request.etag();
  if (operation.state() != v1::OPERATION_STATE_UNRESOLVED) {
    tally->Refuse(evidence, EnumText(operation.state()),
                  "it is not UNRESOLVED; a repeat of what settled it would be taken");
  } else if (!etag.empty() && etag != operation.etag()) {
    tally->Refuse(evidence, "ETAG_MISMATCH", "it has changed since it was seen");
  } else {
    ++tally->settled;
  }
  return std::nullopt;
}

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

std::string TextOf(const Tally& tally, bool dry_run) {
  std::string text;
  if (!tally.refused.empty()) {
    Table table({"LINE", "OPERATION", "WHY NOT", "DETAIL"});
    for (const Tally::Refused& refused : tally.refused) {
      table.Add(
          {std::to_string(refused.line), FormatId(refused.id), refused.reason, refused.message});
    }
    text = table.ToString();
  }
  return absl::StrCat(text, tally.settled, dry_run ? " would be settled, " : " settled, ",
                      tally.refused.size(), dry_run ? " would not" : " not", ", of ", tally.lines,
                      tally.lines == 1 ? " line\n" : " lines\n");
}

google::protobuf::Struct DocumentOf(const Tally& tally, bool dry_run) {
  google::protobuf::Struct document;
  auto& fields = *document.mutable_fields();
  fields["dryRun"].set_bool_value(dry_run);
  fields["lines"].set_number_value(static_cast<double>(tally.lines));
  fields["settled"].set_number_value(static_cast<double>(tally.settled));
  auto* const list = fields["refused"].mutable_list_value();
  for (const Tally::Refused& refused : tally.refused) {
    auto& one = *list->add_values()->mutable_struct_value()->mutable_fields();
    one["line"].set_number_value(static_cast<double>(refused.line));
    one["namespace"].set_string_value(refused.id.namespace_());
    one["scope"].set_string_value(refused.id.scope());
    one["key"].set_string_value(refused.id.key());
    one["reason"].set_string_value(refused.reason);
    one["message"].set_string_value(refused.message);
  }
  return document;
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
  for (const Evidence& evidence : all) {
    ++tally.lines;
    session.Progress(absl::StrCat(options.dry_run ? "looking at " : "settling ", tally.lines,
                                  " of ", all.size()));
    const Connection::Error error =
        options.dry_run ? Look(evidence, session, &tally) : Settle(evidence, session, &tally);
    if (!error) continue;
    session.EndProgress();
    session.Note(absl::StrCat("line ", evidence.line, " of ", all.size() + 1, " (",
                              Resolution(evidence.request), " ", FormatId(evidence.request.id()),
                              ") had no answer; before it ", tally.settled,
                              options.dry_run ? " would be settled" : " were settled", " and ",
                              tally.refused.size(), " not. The whole file may be sent again."));
    FailedCall call = session.Failed("resolve from-csv", !options.dry_run, evidence.request.id());
    call.reads_input = options.file == "-";
    return session.Fail(*error, call);
  }
  session.EndProgress();
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
  command->add_flag("--dry-run", options->dry_run, "Say what would be settled, and change nothing");
  SetFooter(
      command,
      "\nEvery line is read before anything is sent; one that is wrong stops all of them. The\n"
      "same file may be sent again: what it has settled stays settled.\n\n" +
          EvidenceHelp() +
          "\nExit codes: 0 all settled, 2 usage, 3 some refused, 4 no answer (send it "
          "again).\n\nExample:\n"
          "  idempotencyctl resolve from-csv stripe.csv --reason='export of 2026-01-02' "
          "--dry-run\n");
  OnNamed(command, action, options, &RunCsv);
}

}  // namespace idempotency::ctl
