// One run of the tool: what was said for all commands, the connection, and where output goes.
// Results go to standard output (one document with --output=json), everything else to standard
// error.
#ifndef IDEMPOTENCY_CLIENT_CTL_SESSION_H_
#define IDEMPOTENCY_CLIENT_CTL_SESSION_H_

#include <google/protobuf/message.h>

#include <istream>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "client/ctl/command_line.h"
#include "client/ctl/connection.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/next_step.h"
#include "client/ctl/system.h"
#include "client/ctl/target.h"

namespace idempotency::ctl {

struct Globals {
  Target target;
  absl::Duration timeout = absl::Seconds(10);
  bool json = false;
  bool quiet = false;
  // Unset: where standard output is a terminal that takes it.
  std::optional<bool> color;
  // Unset: where standard error is a terminal that takes it.
  std::optional<bool> progress;
};

// Thread safety: none; there is one thread.
class Session {
 public:
  // `secrets`: of the target. `words`: the arguments after the program's name. The system must
  // outlive the session.
  Session(Globals globals, Secrets secrets, const System* system, std::vector<std::string> words);

  Connection& connection() { return connection_; }
  absl::Time Now() const { return system_->now(); }
  std::string NewAttemptId() const { return system_->new_attempt_id(); }
  std::istream& in() const { return *system_->in; }
  // For what Show does not show: bodies and files. GiveOutputToBody first.
  std::ostream& out() const { return *system_->out; }
  // Who sits at the keyboard; empty where the environment does not say.
  std::string User() const;
  const Globals& globals() const { return globals_; }

  Subject SubjectOf(const v1::OperationId& id) const;
  // What Fail needs to know of a call with this verb.
  FailedCall Failed(std::string verb, bool changes, const v1::OperationId& id) const;

  // Standard output is for a body (--body-out=-): what Show prints goes to standard error.
  void GiveOutputToBody() { shown_ = system_->err; }
  // Whether the body is in the file (or on standard output); says so where it is not.
  bool WriteAnswer(const std::string& path, const v1::CachedResponse& response);

  // The answer: `document` as proto JSON, or `text`.
  void Show(const google::protobuf::Message& document, std::string_view text);
  // One of several answers: a line of text, or a document on one line.
  void ShowLine(const google::protobuf::Message& document, std::string_view text);
  // In place of the last one on a terminal; elsewhere below it.
  void ShowScreen(std::string_view text);
  // Waits; true: interrupted.
  bool Pause(absl::Duration span);
  // Not with --quiet.
  void Advise(const NextSteps& steps);
  // One line on standard error; not with --quiet.
  void Note(std::string_view text);

  // How far something is that takes its time (progress.h): on a terminal, one line of standard
  // error that the next writes over; elsewhere, and with --quiet, nothing. May be called on another
  // thread while this one waits. Whatever else is written takes it away first.
  void Progress(std::string_view text);
  void EndProgress();

  // Goes on as another program; returns only where that cannot be done, and says why.
  std::string Become(const std::string& program, const std::vector<std::string>& words);

  ExitCode Fail(const CallError& error, const FailedCall& call);
  // One line on standard error: nothing was sent.
  ExitCode Misused(std::string_view text);

  // The last word: `code`, unless standard output could not take what was written to it.
  ExitCode Close(ExitCode code);

 private:
  // What is shown, in colour where it is to be.
  std::string Painted(std::string_view text) const;

  const Globals globals_;
  const System* const system_;
  const std::vector<std::string> words_;
  std::ostream* shown_;
  const bool colored_;
  const bool draws_progress_;
  bool in_progress_ = false;
  Connection connection_;
};

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_SESSION_H_
