// Static bearer tokens for the server's identity.tokens_file: new ones, and the digests of others.
// Nothing is sent anywhere.
#include <openssl/evp.h>

#include <istream>
#include <string>

#include "absl/strings/escaping.h"
#include "client/ctl/commands/commands.h"
#include "client/ctl/commands/options.h"
#include "google/protobuf/struct.pb.h"

namespace idempotency::ctl {
namespace {

constexpr size_t kMinTokenBytes = 32;
constexpr size_t kMaxNameBytes = 64;

struct TokenOptions {
  std::string name;
};

std::string LineFor(const std::string& name, const std::string& token) {
  std::string digest(EVP_MAX_MD_SIZE, '\0');
  unsigned size = 0;
  EVP_Digest(token.data(), token.size(), reinterpret_cast<unsigned char*>(digest.data()), &size,
             EVP_sha256(), nullptr);
  digest.resize(size);
  return name + " sha256:" + absl::BytesToHexString(digest);
}

// Two attempt ids are 32 random bytes, in hexadecimal.
ExitCode RunNew(const TokenOptions& options, Session& session) {
  const std::string token = session.NewAttemptId() + session.NewAttemptId();
  const std::string line = LineFor(options.name, token);
  google::protobuf::Struct document;
  (*document.mutable_fields())["token"].set_string_value(token);
  (*document.mutable_fields())["line"].set_string_value(line);
  session.Show(document, token + "\n");
  session.Note("# for the server's identity.tokens_file:\n" + line);
  return ExitCode::kOk;
}

ExitCode RunHash(const TokenOptions& options, Session& session) {
  std::string token;
  std::getline(session.in(), token);
  if (!token.empty() && token.back() == '\r') token.pop_back();
  if (token.size() < kMinTokenBytes || token.find(' ') != std::string::npos) {
    return session.Misused(
        "standard input must hold one token of at least 32 random characters, without spaces: "
        "the server takes no shorter ones");
  }
  const std::string line = LineFor(options.name, token);
  google::protobuf::Struct document;
  (*document.mutable_fields())["line"].set_string_value(line);
  session.Show(document, line + "\n");
  return ExitCode::kOk;
}

void AddName(CLI::App* command, TokenOptions* options) {
  command->add_option("NAME", options->name, "Who has the token: callers are called token:NAME")
      ->required()
      ->check(CLI::Validator(
          [](const std::string& name) {
            constexpr char kAllowed[] =
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
            const bool good = !name.empty() && name.size() <= kMaxNameBytes &&
                              name.find_first_not_of(kAllowed) == std::string::npos;
            return good ? std::string() : "must be 1-64 letters, digits, '.', '_' and '-'";
          },
          ""));
}

}  // namespace

void AddTokenCommands(CLI::App* app, Action* action) {
  CLI::App* token = AddCommand(app, "token", "Static tokens for a server's tokens file");
  token->require_subcommand(1);
  SetFooter(token, "\nExit codes: 0, 2 usage. Nothing is sent.\n");

  const auto for_new = std::make_shared<TokenOptions>();
  CLI::App* made = AddCommand(
      token, "new", "Make one: the token to standard output, the server's line to standard error");
  AddName(made, for_new.get());
  SetFooter(made,
            "\nThe token is shown this once; keep it where only its user can read it:\n"
            "  (umask 077; idempotencyctl token new ci >ci.token 2>ci.line)\n");
  OnNamed(made, action, for_new, &RunNew);

  const auto for_hash = std::make_shared<TokenOptions>();
  CLI::App* hash =
      AddCommand(token, "hash", "The server's line for a token that standard input holds");
  AddName(hash, for_hash.get());
  SetFooter(hash, "\n  openssl rand -hex 32 | tee ci.token | idempotencyctl token hash ci\n");
  OnNamed(hash, action, for_hash, &RunHash);
}

}  // namespace idempotency::ctl
