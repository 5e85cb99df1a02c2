#include "client/ctl/session.h"

#include <google/protobuf/util/json_util.h>

#include <utility>

#include "client/ctl/body_file.h"
#include "client/ctl/color.h"
#include "client/ctl/format.h"

namespace idempotency::ctl {
namespace {

std::string Json(const google::protobuf::Message& document, bool on_one_line = false) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = !on_one_line;
  std::string text;
  // Cannot fail: nothing of the API needs a type registry.
  [[maybe_unused]] const auto status =
      google::protobuf::util::MessageToJsonString(document, &text, options);
  return text;
}

bool IsDumb(const System& system) { return system.env("TERM").value_or("") == "dumb"; }

// A terminal, unless its user wants none (no-color.org) or it knows none.
bool TakesColor(const System& system) {
  return system.screen && !system.env("NO_COLOR") && !IsDumb(system);
}

// A line is only written over where the terminal knows how to clear it.
bool TakesProgress(const System& system) { return system.terminal && !IsDumb(system); }

std::string WhyNoBody(const v1::CachedResponse& response) {
  if (response.body_omitted()) return "it was larger than what the namespace keeps";
  return "this answer holds none (get needs --request-file or --fingerprint to be given it)";
}

}  // namespace

Session::Session(Globals globals, Secrets secrets, const System* system,
                 std::vector<std::string> words)
    : globals_(std::move(globals)),
      system_(system),
      words_(std::move(words)),
      shown_(system->out),
      colored_(globals_.color.value_or(TakesColor(*system))),
      draws_progress_(!globals_.quiet && globals_.progress.value_or(TakesProgress(*system))),
      connection_(globals_.target, std::move(secrets), globals_.timeout, system->interrupt) {}

std::string Session::User() const {
  return system_->env("USER").value_or(system_->env("LOGNAME").value_or(""));
}

Subject Session::SubjectOf(const v1::OperationId& id) const {
  Subject subject;
  subject.server = globals_.target;
  subject.id = id;
  subject.actor = User();
  return subject;
}

FailedCall Session::Failed(std::string verb, bool changes, const v1::OperationId& id) const {
  FailedCall call;
  call.verb = std::move(verb);
  call.changes = changes;
  call.repeat = SameCommand(globals_.target.server, words_);
  call.subject = SubjectOf(id);
  return call;
}

bool Session::WriteAnswer(const std::string& path, const v1::CachedResponse& response) {
  if (!response.has_body()) {
    *system_->err << "idempotencyctl: no body was written to " << path << ": "
                  << WhyNoBody(response) << "\n";
    return false;
  }
  const std::string error = WriteBody(path, response.body(), *system_->out);
  if (!error.empty()) *system_->err << "idempotencyctl: " << error << "\n";
  return error.empty();
}

void Session::Show(const google::protobuf::Message& document, std::string_view text) {
  EndProgress();
  if (globals_.json) {
    *shown_ << Json(document);
  } else {
    *shown_ << Painted(text);
  }
}

std::string Session::Painted(std::string_view text) const {
  // Not where it is shown on standard error.
  return colored_ && shown_ == system_->out ? Colored(text) : std::string(text);
}

void Session::ShowLine(const google::protobuf::Message& document, std::string_view text) {
  // At once: whoever reads it wants to know when it happens.
  if (globals_.json) {
    *shown_ << Json(document, /*on_one_line=*/true) << std::endl;
  } else {
    *shown_ << Painted(text) << std::endl;
  }
}

void Session::ShowScreen(std::string_view text) {
  if (system_->screen) *shown_ << "\x1b[H\x1b[2J";
  *shown_ << text << (system_->screen ? "" : "\n") << std::flush;
}

bool Session::Pause(absl::Duration span) {
  system_->pause(span);
  return system_->interrupt->triggered();
}

void Session::Advise(const NextSteps& steps) {
  const std::string text = ToText(steps);
  if (globals_.quiet || text.empty()) return;
  // With JSON, standard output holds the document and nothing else.
  if (globals_.json) {
    *system_->err << text;
  } else {
    *shown_ << "\n" << Painted(text);
  }
}

void Session::Note(std::string_view text) {
  EndProgress();
  if (!globals_.quiet) *system_->err << text << std::endl;
}

void Session::Progress(std::string_view text) {
  if (!draws_progress_) return;
  in_progress_ = true;
  // To the line's beginning, and what the last one left goes.
  *system_->err << "\r\x1b[K" << text << std::flush;
}

void Session::EndProgress() {
  if (std::exchange(in_progress_, false)) *system_->err << "\r\x1b[K" << std::flush;
}

std::string Session::Become(const std::string& program, const std::vector<std::string>& words) {
  system_->out->flush();
  system_->err->flush();
  return system_->become(program, words);
}

ExitCode Session::Fail(const CallError& error, const FailedCall& call) {
  EndProgress();
  if (globals_.json) {
    v1::Result result;
    *result.mutable_error() = ToProto(error);
    *shown_ << Json(result);
  }
  *system_->err << FormatError(error, call.verb, globals_.target.server);
  // A riddle is worse than noise: an unknown outcome is explained also with --quiet.
  if (!globals_.quiet || error.delivery == Delivery::kUnknown) {
    *system_->err << ToText(AfterError(error, call));
  }
  return ExitCodeOf(error);
}

ExitCode Session::Misused(std::string_view text) {
  EndProgress();
  *system_->err << "idempotencyctl: " << text << "\n";
  return ExitCode::kUsage;
}

ExitCode Session::Close(ExitCode code) {
  system_->out->flush();
  if (system_->out->good()) return code;
  *system_->err << "idempotencyctl: standard output took not all of the answer; what was done "
                   "stands (exit code "
                << static_cast<int>(code) << " otherwise)\n";
  return ExitCode::kNotWritten;
}

}  // namespace idempotency::ctl
