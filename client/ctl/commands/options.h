// Options that several commands share, and how their text becomes values. A wrong value is refused
// by the parser, with the option's name, before anything runs.
#ifndef IDEMPOTENCY_CLIENT_CTL_COMMANDS_OPTIONS_H_
#define IDEMPOTENCY_CLIENT_CTL_COMMANDS_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "client/ctl/commands/commands.h"
#include "client/ctl/duration_text.h"
#include "client/ctl/enum_text.h"
#include "client/ctl/session.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::ctl {

// Where the descriptions start in --help.
inline constexpr size_t kHelpColumn = 34;

// A new command; global options may follow it.
CLI::App* AddCommand(CLI::App* app, const std::string& name, const std::string& description);

// What --help says last: exit codes, examples; and that there are global options.
void SetFooter(CLI::App* command, const std::string& text);

// When the command is named, *action runs `run` on what was parsed into `options`.
template <typename Options>
void OnNamed(CLI::App* command, Action* action, std::shared_ptr<Options> options,
             ExitCode (*run)(const Options&, Session&)) {
  command->callback([action, options, run] {
    *action = [options, run](Session& session) { return run(*options, session); };
  });
}

// The positionals NAMESPACE SCOPE KEY.
void AddId(CLI::App* command, v1::OperationId* id);

CLI::Option* AddDuration(CLI::App* app, const std::string& name, const std::string& help,
                         absl::Duration* value);
CLI::Option* AddDuration(CLI::App* app, const std::string& name, const std::string& help,
                         std::optional<absl::Duration>* value);

CLI::Option* AddToken(CLI::App* command, uint64_t* token);

// A validator for one of the names of E.
template <typename E>
CLI::Validator EnumName() {
  return CLI::Validator(
      [](const std::string& text) {
        if (ParseEnum<E>(text)) return std::string();
        std::string choices;
        for (const std::string& choice : EnumChoices(*google::protobuf::GetEnumDescriptor<E>())) {
          choices += (choices.empty() ? "" : ", ") + choice;
        }
        return text + " is none of " + choices;
      },
      "");
}

template <typename E>
CLI::Option* AddEnum(CLI::App* app, const std::string& name, const std::string& help, E* value) {
  return app
      ->add_option_function<std::string>(
          name, [value](const std::string& text) { *value = ParseEnum<E>(text).value_or(*value); },
          help)
      ->check(EnumName<E>());
}

// An option that may be given several times, one value each time.
CLI::Option* AddRepeated(CLI::App* app, const std::string& name, const std::string& help,
                         std::vector<std::string>* values);

// --- Which request it is -------------------------------------------------------------------

struct RequestFlags {
  std::string file;
  std::string fingerprint;
};
void AddRequest(CLI::App* command, const std::string& purpose, RequestFlags* flags);
// Nothing and no *error: neither flag was given.
std::optional<v1::Fingerprint> ReadFingerprint(const RequestFlags& flags, Session& session,
                                               std::string* error);

// --- Who works on it -----------------------------------------------------------------------------

void AddOwner(CLI::App* command, v1::Owner* owner);

// --- The answer to keep --------------------------------------------------------------------------

struct AnswerFlags {
  std::string body_file;
  int http_status = 0;
  // -1: none; 0 is a code.
  int grpc_code = -1;
  std::string status_message;
  std::string content_type;
  std::vector<std::string> headers;
};
void AddAnswer(CLI::App* command, AnswerFlags* flags);
// Nothing: no flag was given. *error: one sentence where the body cannot be read.
std::optional<v1::CachedResponse> ReadAnswer(const AnswerFlags& flags, Session& session,
                                             std::string* error);

// --- Who decides, and why ------------------------------------------------------------------------

struct DecisionFlags {
  std::string actor;
  std::string reason;
  std::string etag;
};
void AddDecision(CLI::App* command, DecisionFlags* flags);
// --actor, or who sits at the keyboard; empty where neither is known.
std::string ActorOf(const DecisionFlags& flags, const Session& session);
inline constexpr char kNoActor[] =
    "nobody is named who decides, and $USER is not set: add --actor=NAME";

// "NAME=VALUE" or "NAME: VALUE" at the first separator. The text must hold it.
std::pair<std::string, std::string> SplitPair(const std::string& text, char separator);
CLI::Validator HasSeparator(char separator, const std::string& form);

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_COMMANDS_OPTIONS_H_
