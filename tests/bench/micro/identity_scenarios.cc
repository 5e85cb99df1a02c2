// Who calls, and whether they may: what each call pays for that before anything else is done.
#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "keystore/clock.h"
#include "service/config.h"
#include "service/identity/authenticator.h"
#include "service/identity/static_tokens.h"
#include "tests/bench/micro/ingredients.h"
#include "tests/bench/micro/scenario.h"
#include "tests/service/identity/jwt_maker.h"
#include "tests/support/test_authority.h"

namespace idempotency::bench {
namespace {

using service::Authenticator;
using service::Credentials;

constexpr size_t kOperations = 256;
constexpr int kRules = 100;

class IdentityScenario : public Scenario {
 public:
  using Question = std::function<bool()>;
  explicit IdentityScenario(Question question)
      : Scenario(kOperations), question_(std::move(question)) {}

  // What is remembered is remembered by then.
  void Prepare() override { Require(question_(), "a caller is not known"); }
  void Run() override {
    for (size_t i = 0; i < kOperations; ++i) Require(question_(), "a caller is not known");
  }

 private:
  const Question question_;
};

// Certificates hold by the clock of the machine.
core::Time Now() { return keystore::ReadKernelTime().wall; }

std::shared_ptr<Authenticator> Open(const service::IdentitySettings& settings, bool certificates) {
  auto authenticator =
      Authenticator::Open(settings, certificates, [](const service::FileReport&) {});
  Require(authenticator.ok(), "the files of callers cannot be read");
  return std::shared_ptr<Authenticator>(*std::move(authenticator));
}

std::unique_ptr<Scenario> Ask(std::shared_ptr<Authenticator> authenticator, std::string text,
                              bool is_certificate) {
  return std::make_unique<IdentityScenario>(
      [authenticator, text = std::move(text), is_certificate, now = Now()] {
        Credentials credentials;
        if (is_certificate) {
          credentials.certificate = text;
        } else {
          credentials.authorization = text;
          credentials.private_transport = true;
        }
        return authenticator->Authenticate(credentials, now).fault == service::AuthFault::kNone;
      });
}

std::unique_ptr<Scenario> Certificate(const Settings&) {
  const testing::TestAuthority authority("clients");
  return Ask(Open({}, true),
             authority.Issue({.names = "URI:spiffe://example.org/ns/payments/sa/api"}).certificate,
             true);
}

std::unique_ptr<Scenario> Token(const Settings& settings) {
  const std::string token(43, 't');
  const service::TokenDigest digest = service::DigestToken(token);
  service::IdentitySettings identity;
  identity.tokens_file = settings.directory + "/bench-tokens";
  std::ofstream(identity.tokens_file)
      << "ci sha256:"
      << absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()})
      << "\n";
  return Ask(Open(identity, false), "Bearer " + token, false);
}

std::unique_ptr<Scenario> Jwt(const Settings& settings) {
  const testing::SigningKey key = testing::SigningKey::P256("k");
  const std::string path = settings.directory + "/bench-jwks";
  std::ofstream(path) << testing::Jwks({key.Jwk()});
  service::IdentitySettings identity;
  identity.jwt_issuers.push_back({"cluster",
                                  "https://kubernetes.default.svc",
                                  {"idempotencyd"},
                                  path,
                                  std::chrono::seconds(0)});
  const int64_t now = std::chrono::floor<std::chrono::seconds>(Now().time_since_epoch()).count();
  return Ask(
      Open(identity, false),
      "Bearer " + key.Token(absl::StrCat(
                      R"({"iss":"https://kubernetes.default.svc","aud":["idempotencyd"],)",
                      R"("exp":)", now + 3600, R"(,"sub":"system:serviceaccount:payments:api"})")),
      false);
}

// The last of a hundred rules, each for a namespace and a caller of its own.
std::unique_ptr<Scenario> Rules(const Settings&) {
  std::string text = "unlisted_namespaces: ALLOW\nidentity: {tokens_file: t}\naccess:\n";
  for (int i = 0; i < kRules; ++i) {
    absl::StrAppend(&text, "- {identities: ['spiffe://example.org/ns/team-", i,
                    "/sa/*'], namespaces: ['team-", i, ".*'], roles: [CALLER]}\n");
  }
  const auto config = service::Config::LoadText(text, "bench");
  Require(config.ok(), "the configuration of the bench is wrong");
  const service::Principal principal{
      absl::StrCat("spiffe://example.org/ns/team-", kRules - 1, "/sa/api"),
      service::PrincipalKind::kUri};
  const std::string name_space = absl::StrCat("team-", kRules - 1, ".payments");
  return std::make_unique<IdentityScenario>([config = *config, principal, name_space] {
    return config->access().Allows(principal, service::Permission::kOperate, name_space, "acct-1");
  });
}

}  // namespace

void AddIdentityScenarios(ScenarioEntries& entries) {
  entries.push_back({"identity/certificate", &Certificate});
  entries.push_back({"identity/token", &Token});
  entries.push_back({"identity/jwt", &Jwt});
  entries.push_back({"identity/rules_100", &Rules});
}

}  // namespace idempotency::bench
