#include "client/ctl/run.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <utility>

#include "client/ctl/commands/commands.h"
#include "client/ctl/commands/options.h"
#include "client/ctl/printable.h"
#include "client/ctl/session.h"

namespace idempotency::ctl {
namespace {

constexpr char kDescription[] =
    "idempotencyctl: use and operate an idempotency-key service.\n"
    "\n"
    "An operation is named by three words, each exactly as it is (quote what the shell would\n"
    "change; a key may hold slashes):\n"
    "  NAMESPACE  the contract that the key lives under\n"
    "  SCOPE      whose key it is; '' where the namespace has no scopes\n"
    "  KEY        the caller's key for this operation\n"
    "Words that start with - or + go after --:  idempotencyctl get -- payments acct-1 -key\n"
    "\n"
    "Durations: 30s, 500ms, 24h, 1h30m, 30d. Options may stand before or after the command.\n";

constexpr char kStory[] =
    "A first try, from a shell:\n"
    "  idempotencyctl reserve payments acct-1 order-7 --request-file=charge.json\n"
    "  ... send the charge ...\n"
    "  idempotencyctl complete payments acct-1 order-7 --fencing-token=TOKEN \\\n"
    "      --verdict=succeeded --http-status=200 --body-file=reply.json\n";

void AddGlobals(CLI::App* app, Globals* globals) {
  app->add_option("--server", globals->target.server,
                  "Where the service is: HOST:PORT or unix:/PATH "
                  "[$IDEMPOTENCY_SERVER, else 127.0.0.1:7420]")
      ->type_name("ADDRESS");
  AddDuration(app, "--timeout",
              "How long to wait for the connection, and then for the answer; --wait comes on top "
              "[10s]",
              &globals->timeout)
      ->check(CLI::Validator(
          [](const std::string& text) {
            return text.find_first_not_of("0.") == std::string::npos ||
                           ParseDuration(text) < absl::Milliseconds(1)
                       ? std::string("must be at least 1ms")
                       : std::string();
          },
          ""));
  app->add_option_function<std::string>(
         "--output", [globals](const std::string& text) { globals->json = text == "json"; },
         "table for people, json (proto JSON, one document) for scripts [table]")
      ->check(CLI::IsMember({"table", "json"}).description(""))
      ->type_name("table|json");
  app->add_option_function<std::string>(
         "--color",
         [globals](const std::string& text) {
           if (text != "auto") globals->color = text == "always";
         },
         "Names of states in colour: auto is where standard output is a terminal and neither "
         "NO_COLOR nor TERM=dumb is set; never in JSON [auto]")
      ->check(CLI::IsMember({"auto", "always", "never"}).description(""))
      ->type_name("auto|always|never");
  app->add_option_function<std::string>(
         "--progress",
         [globals](const std::string& text) {
           if (text != "auto") globals->progress = text == "always";
         },
         "How far long work is, as a line of standard error that is written over: auto is where "
         "that is a terminal and TERM is not dumb; not with --quiet [auto]")
      ->check(CLI::IsMember({"auto", "always", "never"}).description(""))
      ->type_name("auto|always|never");
  app->add_flag("--quiet,-q", globals->quiet,
                "Only the result: no notices, no next steps (unless the outcome is unknown)");
}

void AddTarget(CLI::App* app, Target* target) {
  const auto add = [app](const char* name, std::string* value, const char* help) {
    app->add_option(name, *value, help)->type_name("FILE");
  };
  app->add_flag("--tls", target->tls, "Encrypt, and trust the authorities that the system trusts");
  add("--ca", &target->ca_file,
      "Encrypt, and trust the authorities in this file (PEM) [$IDEMPOTENCY_CA]");
  add("--cert", &target->certificate_file,
      "The certificate (PEM) that says who you are [$IDEMPOTENCY_CERT]");
  add("--key", &target->key_file, "The key of --cert (PEM) [$IDEMPOTENCY_KEY]");
  add("--token-file", &target->token_file,
      "A file with the bearer token that says who you are [$IDEMPOTENCY_TOKEN_FILE]");
  app->add_option("--server-name", target->server_name,
                  "Whom the server's certificate must name, where it is not the host of --server")
      ->type_name("NAME");
}

// What the command line does not say, the environment may.
Globals FromEnvironment(const System& system) {
  Globals globals;
  Target& target = globals.target;
  target.server = system.env("IDEMPOTENCY_SERVER").value_or(kDefaultServer);
  target.ca_file = system.env("IDEMPOTENCY_CA").value_or("");
  target.certificate_file = system.env("IDEMPOTENCY_CERT").value_or("");
  target.key_file = system.env("IDEMPOTENCY_KEY").value_or("");
  target.token_file = system.env("IDEMPOTENCY_TOKEN_FILE").value_or("");
  return globals;
}

void AddCommands(CLI::App* app, Action* action) {
  AddReserve(app, action);
  AddRenew(app, action);
  AddComplete(app, action);
  AddRelease(app, action);
  AddMarkUnresolved(app, action);
  AddGet(app, action);
  AddInspect(app, action);
  AddList(app, action);
  AddResolve(app, action);
  AddDelete(app, action);
  AddOnCallCommands(app, action);
  AddNamespaces(app, action);
  AddBackupCommands(app, action);
  AddEngineCommands(app, action);
  AddTransferCommands(app, action);
  AddHealth(app, action);
  AddTop(app, action);
  AddTokenCommands(app, action);
  AddCompletion(app, action);
  AddVersion(app, action);
}

// What the parser cannot be trusted with, as one sentence; nothing where all is well.
std::optional<std::string> Unfit(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (!IsUtf8(word)) return "not UTF-8: " + ShellQuote(word);
  }
  for (const std::string& word : words) {
    if (word == "--") break;
    // The parser would take the next word for the value.
    if (word.size() > 2 && word.rfind("--", 0) == 0 && word.find('=') == word.size() - 1) {
      return word.substr(0, word.size() - 1) + " has no value: give one, or leave it out";
    }
  }
  return std::nullopt;
}

ExitCode Refuse(const std::string& text, const System& system) {
  *system.err << "idempotencyctl: " << text << "\n"
              << "Run idempotencyctl COMMAND --help for what a command takes.\n";
  return ExitCode::kUsage;
}

}  // namespace

ExitCode RunTool(const std::vector<std::string>& words, const System& system) {
  if (const std::optional<std::string> why = Unfit(words)) return Refuse(*why, system);
  Globals globals = FromEnvironment(system);
  Action action;
  CLI::App app(kDescription, "idempotencyctl");
  app.require_subcommand(1);
  app.get_formatter()->column_width(kHelpColumn);
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  app.footer(std::string(kStory) + "\n" + ExitCodeHelp());
  AddGlobals(&app, &globals);
  AddTarget(&app, &globals.target);
  app.set_version_flag("--version", VersionText());
  AddCommands(&app, &action);
  try {
    // The parser takes them last first.
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::Success& asked_for) {
    app.exit(asked_for, *system.out, *system.err);
    return ExitCode::kOk;
  } catch (const CLI::ParseError& error) {
    return Refuse(error.what(), system);
  }
  Secrets secrets;
  if (const std::string why = ReadSecrets(globals.target, &secrets); !why.empty()) {
    return Refuse(why, system);
  }
  Session session(globals, std::move(secrets), &system, words);
  return session.Close(action(session));
}

}  // namespace idempotency::ctl
