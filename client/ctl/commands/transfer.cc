// Moving all records from one engine to another: out of one server into a file, out of that into
// another server; and the end of the store that they came from.
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/ctl/call_error.h"
#include "client/ctl/commands/commands.h"
#include "client/ctl/commands/options.h"
#include "client/ctl/duration_text.h"
#include "client/ctl/next_step.h"
#include "client/ctl/printable.h"
#include "client/ctl/progress.h"
#include "client/ctl/record_file.h"
#include "client/ctl/table.h"
#include "client/ctl/time_proto.h"

namespace idempotency::ctl {
namespace {

namespace wire = transfer::v1;

constexpr double kMebibyte = 1024.0 * 1024.0;

uint64_t Records(const wire::RecordCounts& counts) {
  return counts.pending() + counts.unresolved() + counts.complete() + counts.expired() +
         counts.freed();
}

std::string TotalsText(const wire::Trailer& totals, uint64_t bodies_omitted) {
  const wire::RecordCounts& counts = totals.counts();
  Fields fields;
  fields.Add("complete", std::to_string(counts.complete()));
  fields.Add("pending", std::to_string(counts.pending()));
  fields.Add("unresolved", std::to_string(counts.unresolved()));
  fields.Add("expired", std::to_string(counts.expired()));
  fields.Add("freed", std::to_string(counts.freed()));
  if (bodies_omitted > 0) fields.Add("bodies omitted", std::to_string(bodies_omitted));
  fields.Add("size", absl::StrFormat("%.1f MiB", static_cast<double>(totals.bytes()) / kMebibyte));
  fields.Add("digest", absl::BytesToHexString(totals.digest()));
  return fields.ToString();
}

// A bar where somebody knows how many there are.
std::string MovedText(std::string_view what, uint64_t records, uint64_t estimated) {
  return ProgressLine(what, estimated == 0 ? "" : RoughProgressBar(records, estimated),
                      absl::StrCat(records, " records"));
}

// The answer came, or a part of it, and could not be kept.
ExitCode NotKept(const std::string& why, Session& session) {
  (void)session.Misused(why);
  return ExitCode::kNotWritten;
}

// What ends a transfer has no reason of the API's, and yet it is the service that says these:
// nothing on the way does.
ExitCode Fail(CallError error, const FailedCall& call, Session& session) {
  const std::string code = StatusCodeName(error.code);
  if (code == "ABORTED" || code == "ALREADY_EXISTS" || code == "DATA_LOSS") {
    error.delivery = Delivery::kRefused;
  }
  return session.Fail(error, call);
}

// --- export --------------------------------------------------------------------------------------

struct ExportFlags {
  std::string to;
};

// What is gathered while the records come.
struct Exported {
  wire::Header header;
  std::optional<wire::Trailer> trailer;
  uint64_t records = 0;
  std::string error;  // of the file
};

bool Keep(const wire::ExportRecordsResponse& part, RecordFileWriter& file, Exported& exported,
          Session& session) {
  exported.error = file.Write(part);
  if (part.has_header()) exported.header = part.header();
  if (part.has_trailer()) exported.trailer = part.trailer();
  exported.records += static_cast<uint64_t>(part.chunk().records_size());
  session.Progress(MovedText("exporting", exported.records, exported.header.estimated_records()));
  return exported.error.empty();
}

ExitCode RunExport(const ExportFlags& flags, Session& session) {
  RecordFileWriter file(flags.to, &session.out());
  if (flags.to == "-") session.GiveOutputToBody();
  if (const std::string why = file.Open(); !why.empty()) return session.Misused(why);
  Exported exported;
  const auto error = session.connection().ExportRecords(
      [&](const wire::ExportRecordsResponse& part) { return Keep(part, file, exported, session); });
  if (!exported.error.empty()) return NotKept(exported.error, session);
  if (error) return Fail(*error, session.Failed("export", /*changes=*/false, {}), session);
  if (!exported.trailer) {
    return NotKept("the server ended without a trailer, so that nothing is whole; export again",
                   session);
  }
  if (const std::string why = file.Finish(); !why.empty()) return NotKept(why, session);
  session.Show(*exported.trailer, absl::StrCat("EXPORTED: ", Records(exported.trailer->counts()),
                                               " records of ", Printable(exported.header.engine()),
                                               " are whole, and nobody changed them meanwhile\n",
                                               TotalsText(*exported.trailer, 0)));
  session.Note("what was written holds every answer in the clear: keep it as you keep the store");
  if (exported.header.has_retired()) {
    const wire::Retirement& retired = exported.header.retired();
    session.Note(absl::StrCat("this store was retired ",
                              AgeText(FromProto(retired.retire_time()), session.Now()),
                              ", and its records were moved to ", Printable(retired.moved_to()),
                              ": what was granted since is not in what was written, and import "
                              "refuses it"));
  }
  return ExitCode::kOk;
}

// --- import --------------------------------------------------------------------------------------

struct ImportFlags {
  std::string from;
  bool dry_run = false;
  bool omit_large_bodies = false;
  bool of_retired_store = false;
};

// What is gathered while the server tells.
struct Imported {
  std::optional<wire::ImportConflict> conflict;
  std::optional<wire::ImportSummary> summary;
};

std::string ConflictText(const wire::ImportConflict& conflict) {
  return absl::StrCat("in the way is ", ShellQuote(Printable(conflict.namespace_())), " ",
                      ShellQuote(Printable(conflict.scope())), " ",
                      ShellQuote(Printable(conflict.key())));
}

std::string ImportedText(const wire::ImportSummary& summary, bool dry_run) {
  const wire::ImportProgress& done = summary.progress();
  const std::string counts =
      dry_run ? absl::StrCat("WOULD IMPORT: ", done.written(), " records would be written, ",
                             done.present(), " are there already and equal\n")
              : absl::StrCat("IMPORTED: the store was read back and holds these ",
                             Records(summary.stored().counts()), " records and no others; ",
                             done.written(), " were written, ", done.present(),
                             " were there already\n");
  return absl::StrCat(counts, TotalsText(summary.stored(), done.bodies_omitted()));
}

// The next message for the server; false: there is none.
bool NextRequest(RecordFileReader& file, wire::ImportRecordsRequest* request) {
  wire::ExportRecordsResponse part;
  if (!file.Next(&part)) return false;
  request->Clear();
  // A second header is no part of an export: the server refuses what has none of both.
  if (part.has_chunk()) request->mutable_chunk()->Swap(part.mutable_chunk());
  if (part.has_trailer()) request->mutable_trailer()->Swap(part.mutable_trailer());
  return true;
}

void Tell(const wire::ImportRecordsResponse& response, uint64_t estimated, Imported& imported,
          Session& session) {
  if (response.has_conflict()) imported.conflict = response.conflict();
  if (response.has_summary()) imported.summary = response.summary();
  if (!response.has_progress()) return;
  session.Progress(MovedText(
      "importing", response.progress().written() + response.progress().present(), estimated));
}

ExitCode RunImport(const ImportFlags& flags, Session& session) {
  RecordFileReader file(flags.from, &session.in());
  if (const std::string why = file.Open(); !why.empty()) return session.Misused(why);
  wire::ExportRecordsResponse first;
  if (!file.Next(&first) || !first.has_header()) {
    return session.Misused(file.error().empty() ? flags.from + " has no header; export again"
                                                : file.error());
  }
  wire::ImportBegin begin;
  begin.mutable_header()->Swap(first.mutable_header());
  begin.set_dry_run(flags.dry_run);
  begin.set_omit_large_bodies(flags.omit_large_bodies);
  begin.set_of_retired_store(flags.of_retired_store);
  Imported imported;
  const auto error = session.connection().ImportRecords(
      begin, [&](wire::ImportRecordsRequest* request) { return NextRequest(file, request); },
      [&](const wire::ImportRecordsResponse& response) {
        Tell(response, begin.header().estimated_records(), imported, session);
      });
  if (!file.error().empty()) (void)session.Misused(file.error());
  if (imported.conflict) (void)session.Misused(ConflictText(*imported.conflict));
  if (error) {
    FailedCall call = session.Failed("import", /*changes=*/!flags.dry_run, {});
    call.reads_input = flags.from == "-";
    return Fail(*error, call, session);
  }
  if (!imported.summary) {
    return NotKept("the server ended without a summary; run the import again", session);
  }
  session.Show(*imported.summary, ImportedText(*imported.summary, flags.dry_run));
  return ExitCode::kOk;
}

// --- retire --------------------------------------------------------------------------------------

struct RetireFlags {
  std::string digest;
  std::string moved_to;
  bool undo = false;
  std::string actor;
  std::string reason;
};

// As export prints it, or as its JSON has it; nothing for anything else.
std::optional<std::string> ParseDigest(const std::string& text) {
  constexpr size_t kDigestBytes = 32;
  std::string bytes;
  if (text.size() == 2 * kDigestBytes) {
    if (text.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) return std::nullopt;
    return absl::HexStringToBytes(text);
  }
  if (!absl::Base64Unescape(text, &bytes) || bytes.size() != kDigestBytes) return std::nullopt;
  return bytes;
}

// One sentence where an option is missing that this one of both acts needs.
std::string MissingOf(const RetireFlags& flags) {
  if (flags.undo) return flags.reason.empty() ? "--undo needs --reason=TEXT" : "";
  if (flags.digest.empty()) return "--digest=HEX is required: what export has printed";
  return flags.moved_to.empty() ? "--moved-to=TEXT is required: where the records are now" : "";
}

std::string RetirementText(const wire::Retirement& retirement, absl::Time now) {
  Fields fields;
  fields.Add("since", AgeText(FromProto(retirement.retire_time()), now));
  fields.Add("by", Printable(retirement.actor()));
  fields.Add("moved to", Printable(retirement.moved_to()));
  fields.Add("digest", absl::BytesToHexString(retirement.digest()));
  return fields.ToString();
}

ExitCode RunUndo(const std::string& actor, const RetireFlags& flags, Session& session) {
  wire::ReinstateStoreRequest request;
  request.set_actor(actor);
  request.set_reason(flags.reason);
  wire::ReinstateStoreResponse response;
  if (const auto error = session.connection().ReinstateStore(request, &response)) {
    return Fail(*error, session.Failed("retire --undo", /*changes=*/true, {}), session);
  }
  session.Show(response, absl::StrCat("NOT RETIRED: servers may be started on this store again\n",
                                      response.has_retirement()
                                          ? "What was taken back:\n" +
                                                RetirementText(response.retirement(), session.Now())
                                          : ""));
  session.Note("see to it that nothing serves the store that the records were moved to");
  return ExitCode::kOk;
}

std::string RetiredText(const wire::Retirement& retirement, absl::Time now) {
  return absl::StrCat(
      "RETIRED: no server starts on this store any more but with --transfer=export\n",
      RetirementText(retirement, now));
}

ExitCode RunRetire(const RetireFlags& flags, Session& session) {
  if (const std::string missing = MissingOf(flags); !missing.empty()) {
    return session.Misused(missing);
  }
  const std::string actor = flags.actor.empty() ? session.User() : flags.actor;
  if (actor.empty()) return session.Misused(kNoActor);
  if (flags.undo) return RunUndo(actor, flags, session);
  wire::RetireStoreRequest request;
  request.set_digest(ParseDigest(flags.digest).value_or(""));
  request.set_actor(actor);
  request.set_moved_to(flags.moved_to);
  wire::RetireStoreResponse response;
  session.Progress(ProgressLine("retiring", "", "the store is read"));
  const auto error = session.connection().RetireStore(request, &response);
  session.EndProgress();
  if (error) return Fail(*error, session.Failed("retire", /*changes=*/true, {}), session);
  session.Show(response.retirement(), RetiredText(response.retirement(), session.Now()));
  return ExitCode::kOk;
}

void AddExport(CLI::App* app, Action* action) {
  const auto flags = std::make_shared<ExportFlags>();
  CLI::App* command = AddCommand(app, "export", "Read all records, to move them to another engine");
  command
      ->add_option("--to", flags->to,
                   "The file to write, which must not exist; - is standard output")
      ->required()
      ->type_name("FILE");
  SetFooter(
      command,
      "\nOf a server that was started with --transfer=export, while no other server uses the\n"
      "store: it answers callers UNAVAILABLE, and nothing changes. The records are read\n"
      "twice, and the file has its name (mode 0600) only when they were the same both times.\n"
      "It holds answers in the clear, also where the server seals them.\n"
      "\nExit codes: 0 exported, 2 usage, 3 refused, 4 no answer, 5 not written.\n"
      "\nExample:\n"
      "  idempotencyctl export --to=records\n");
  OnNamed(command, action, flags, &RunExport);
}

void AddImport(CLI::App* app, Action* action) {
  const auto flags = std::make_shared<ImportFlags>();
  CLI::App* command =
      AddCommand(app, "import", "Write exported records into the store of another engine");
  command->add_option("--from", flags->from, "The file that export wrote; - is standard input")
      ->required()
      ->type_name("FILE");
  command->add_flag("--dry-run", flags->dry_run,
                    "Write nothing: check the file, and compare it with what is stored");
  command->add_flag("--omit-large-bodies", flags->omit_large_bodies,
                    "Keep an answer that is too large for the engine without its body, and not "
                    "refuse it");
  command->add_flag(
      "--of-retired-store", flags->of_retired_store,
      "Also what was exported once its store had been retired, where nobody has served "
      "the store that its records were moved to");
  SetFooter(command,
            "\nInto a server that was started with --transfer=import on an empty store, while no\n"
            "other server uses that. What was cut off is run again: records that are there and\n"
            "equal stay, and none is ever written over. At the end the store is read back and\n"
            "compared; until then no server serves it.\n"
            "\nExit codes: 0 imported, 2 usage, 3 refused (also where the file is damaged), 4 no\n"
            "answer.\n"
            "\nExample:\n"
            "  idempotencyctl import --from=records --dry-run\n");
  OnNamed(command, action, flags, &RunImport);
}

void AddRetire(CLI::App* app, Action* action) {
  const auto flags = std::make_shared<RetireFlags>();
  CLI::App* command =
      AddCommand(app, "retire", "Keep servers off a store whose records were moved away");
  CLI::Option* const digest =
      command->add_option("--digest", flags->digest, "What export has printed of this store")
          ->type_name("HEX")
          ->check(CLI::Validator(
              [](const std::string& text) {
                return ParseDigest(text) ? std::string()
                                         : text + " is not a digest that export has printed";
              },
              ""));
  CLI::Option* const moved_to =
      command->add_option("--moved-to", flags->moved_to, "Where the records are now, in words")
          ->type_name("TEXT");
  CLI::Option* const undo = command->add_flag(
      "--undo", flags->undo, "Take it back, where the move is called off; needs --reason");
  command->add_option("--reason", flags->reason, "Of --undo: on what evidence")
      ->type_name("TEXT")
      ->needs(undo);
  undo->excludes(digest)->excludes(moved_to);
  command->add_option("--actor", flags->actor, "Who decides [$USER]")->type_name("NAME");
  SetFooter(
      command,
      "\nOf a server that was started with --transfer=export on the OLD store, while no other\n"
      "server uses it, once import has said IMPORTED with the same digest. The store is read,\n"
      "and refused where it comes to another digest. Then that it is retired is noted in the\n"
      "store itself, durably: every start of a server on it is refused, and so is an import\n"
      "into it, but for --transfer=export. Stop the servers that run on it first: one that was\n"
      "forgotten writes nothing any more, and refuses all calls once it has noticed. May be\n"
      "repeated.\n"
      "\n--undo lets servers start on it again. Only where nobody has served the new store:\n"
      "else what was done there would be done twice.\n"
      "\nExit codes: 0 retired (--undo: not retired), 2 usage, 3 refused, 4 no answer (repeat\n"
      "it).\n"
      "\nExample:\n"
      "  idempotencyctl --server=OLD retire --digest=5b1c... --moved-to='etcd payments-1'\n");
  OnNamed(command, action, flags, &RunRetire);
}

}  // namespace

void AddTransferCommands(CLI::App* app, Action* action) {
  AddExport(app, action);
  AddImport(app, action);
  AddRetire(app, action);
}

}  // namespace idempotency::ctl
