#include "client/ctl/commands/options.h"

#include "absl/strings/strip.h"
#include "client/ctl/body_file.h"

namespace idempotency::ctl {
namespace {

CLI::Validator IsDuration() {
  return CLI::Validator(
      [](const std::string& text) {
        return ParseDuration(text) ? std::string()
                                   : text + " is no duration: write 30s, 500ms, 24h or 1h30m";
      },
      "");
}

CLI::Validator IsFingerprint() {
  return CLI::Validator(
      [](const std::string& text) {
        return ParseFingerprint(text)
                   ? std::string()
                   : text + " is no fingerprint: write ALGORITHM:HEX, as in sha256/bytes-1:9f86...";
      },
      "");
}

void AddWord(CLI::App* command, const std::string& name, const std::string& help,
             const std::function<void(const std::string&)>& set) {
  command->add_option_function<std::string>(name, set, help)->required()->type_name("");
}

}  // namespace

CLI::App* AddCommand(CLI::App* app, const std::string& name, const std::string& description) {
  CLI::App* command = app->add_subcommand(name, description);
  command->fallthrough();
  return command;
}

void SetFooter(CLI::App* command, const std::string& text) {
  command->footer(
      "Also --server, --timeout, --output=table|json, --quiet: idempotencyctl --help.\n" + text);
}

void AddId(CLI::App* command, v1::OperationId* id) {
  AddWord(command, "NAMESPACE", "The contract that the key lives under",
          [id](const std::string& text) { id->set_namespace_(text); });
  AddWord(command, "SCOPE", "Whose key it is; '' where the namespace has no scopes",
          [id](const std::string& text) { id->set_scope(text); });
  AddWord(command, "KEY", "The caller's key for this operation",
          [id](const std::string& text) { id->set_key(text); });
}

CLI::Option* AddDuration(CLI::App* app, const std::string& name, const std::string& help,
                         absl::Duration* value) {
  return app
      ->add_option_function<std::string>(
          name, [value](const std::string& text) { *value = ParseDuration(text).value_or(*value); },
          help)
      ->check(IsDuration())
      ->type_name("DURATION");
}

CLI::Option* AddDuration(CLI::App* app, const std::string& name, const std::string& help,
                         std::optional<absl::Duration>* value) {
  return app
      ->add_option_function<std::string>(
          name, [value](const std::string& text) { *value = ParseDuration(text); }, help)
      ->check(IsDuration())
      ->type_name("DURATION");
}

CLI::Option* AddToken(CLI::App* command, uint64_t* token) {
  return command
      ->add_option("--fencing-token,--token", *token, "The token that reserve gave this attempt")
      ->required()
      ->type_name("TOKEN");
}

CLI::Option* AddRepeated(CLI::App* app, const std::string& name, const std::string& help,
                         std::vector<std::string>* values) {
  // One value each time it is named: a second word belongs to the positionals.
  return app->add_option(name, *values, help)->type_size(1)->allow_extra_args(false);
}

void AddRequest(CLI::App* command, const std::string& purpose, RequestFlags* flags) {
  CLI::Option* file = command->add_option(
      "--request-file", flags->file,
      "The request, - for standard input: its SHA-256 (sha256/bytes-1) " + purpose);
  file->type_name("FILE");
  command->add_option("--fingerprint", flags->fingerprint, "The same, digested already")
      ->check(IsFingerprint())
      ->excludes(file)
      ->type_name("ALGORITHM:HEX");
}

std::optional<v1::Fingerprint> ReadFingerprint(const RequestFlags& flags, Session& session,
                                               std::string* error) {
  error->clear();
  if (!flags.fingerprint.empty()) return ParseFingerprint(flags.fingerprint);
  if (flags.file.empty()) return std::nullopt;
  return FingerprintFile(flags.file, session.in(), error);
}

void AddOwner(CLI::App* command, v1::Owner* owner) {
  const auto add = [command](const std::string& name, const std::string& help, auto set) {
    command->add_option_function<std::string>(name, set, help)->type_name("TEXT");
  };
  add("--worker", "Process or pod that works on it",
      [owner](const std::string& text) { owner->set_worker(text); });
  add("--reference", "Your own reference: an order, or the id of a workflow run",
      [owner](const std::string& text) { owner->set_operation_ref(text); });
  add("--traceparent", "W3C trace context",
      [owner](const std::string& text) { owner->set_traceparent(text); });
}

void AddAnswer(CLI::App* command, AnswerFlags* flags) {
  command
      ->add_option("--body-file", flags->body_file,
                   "The body to replay, byte for byte; - for standard input")
      ->type_name("FILE");
  CLI::Option* http =
      command->add_option("--http-status", flags->http_status, "The answer's HTTP status");
  http->check(CLI::Range(100, 599).description(""))->type_name("STATUS");
  command->add_option("--grpc-code", flags->grpc_code, "The answer's gRPC code, a number")
      ->check(CLI::Range(0, 16).description(""))
      ->excludes(http)
      ->type_name("CODE");
  command->add_option("--status-message", flags->status_message, "The message with it")
      ->type_name("TEXT");
  command->add_option("--content-type", flags->content_type, "The body's media type")
      ->type_name("TYPE");
  AddRepeated(command, "--header", "A header worth replaying, 'Name: value'; repeatable",
              &flags->headers)
      ->check(HasSeparator(':', "Name: value"))
      ->type_name("HEADER");
}

std::optional<v1::CachedResponse> ReadAnswer(const AnswerFlags& flags, Session& session,
                                             std::string* error) {
  error->clear();
  v1::CachedResponse answer;
  if (flags.http_status != 0) answer.set_http_status(flags.http_status);
  if (flags.grpc_code >= 0) answer.set_grpc_code(flags.grpc_code);
  answer.set_status_message(flags.status_message);
  answer.set_content_type(flags.content_type);
  for (const std::string& header : flags.headers) {
    const auto [name, value] = SplitPair(header, ':');
    v1::MetadataEntry* entry = answer.add_metadata();
    entry->set_name(name);
    entry->set_value(std::string(absl::StripLeadingAsciiWhitespace(value)));
  }
  if (!flags.body_file.empty()) {
    FileContent content = ReadBody(flags.body_file, kMaxBodyBytes, session.in());
    *error = content.error;
    if (content.size <= kMaxBodyBytes) {
      answer.set_body(std::move(content.bytes));
    } else {
      // The effect has happened: that is recorded, though its answer is too large to be sent.
      answer.set_body_omitted(true);
      answer.set_body_size(content.size);
      session.Note("the body is too large to send; only its size is recorded");
    }
  }
  // Not a field is set that has a default to compare with: nothing was given.
  if (answer.ByteSizeLong() == 0) return std::nullopt;
  return answer;
}

void AddDecision(CLI::App* command, DecisionFlags* flags) {
  command->add_option("--actor", flags->actor, "Who decides [$USER]")->type_name("NAME");
  command->add_option("--reason", flags->reason, "On what evidence")->required()->type_name("TEXT");
  command
      ->add_option("--etag", flags->etag,
                   "Act only on what inspect showed; refused if it has changed since")
      ->type_name("ETAG");
}

std::string ActorOf(const DecisionFlags& flags, const Session& session) {
  return flags.actor.empty() ? session.User() : flags.actor;
}

std::pair<std::string, std::string> SplitPair(const std::string& text, char separator) {
  const size_t at = text.find(separator);
  return {text.substr(0, at), text.substr(at + 1)};
}

CLI::Validator HasSeparator(char separator, const std::string& form) {
  return CLI::Validator(
      [separator, form](const std::string& text) {
        const size_t at = text.find(separator);
        const bool good = at != std::string::npos && at > 0;
        return good ? std::string() : text + " is not of the form " + form;
      },
      "");
}

}  // namespace idempotency::ctl
