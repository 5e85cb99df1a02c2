// idempotencyd as a process, where connections are protected: what it refuses to start with, and
// certificates, tokens and keys that change while it runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "service/identity/static_tokens.h"
#include "tests/service/server/commands.h"
#include "tests/support/server_process.h"
#include "tests/support/test_authority.h"

namespace idempotency::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kToken[] = "a-token-that-must-not-be-written-anywhere";
// printf %s a-token-that-must-not-be-written-anywhere | sha256sum
constexpr char kLine[] =
    "ci sha256:7220b505d62c960430ba9e523e1b8f0c30fe267aa241ae24661236b1442feda7\n";
constexpr char kNames[] = "DNS:localhost,IP:127.0.0.1";

struct Ended {
  int exit_code = -1;
  std::string output;
};

// Runs it until it ends by itself, which it does where it refuses to start.
Ended RunToEnd(const std::string& flags) {
  const char* binary = std::getenv("IDEMPOTENCYD");
  EXPECT_NE(binary, nullptr) << "set IDEMPOTENCYD to the binary; tests/run.sh does";
  Ended ended;
  std::FILE* const pipe =
      popen(absl::StrCat("exec '", binary, "' --engine=memory ", flags, " 2>&1").c_str(), "r");
  char buffer[4096];
  while (std::fgets(buffer, sizeof(buffer), pipe) != nullptr) ended.output += buffer;
  const int status = pclose(pipe);
  ended.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ended;
}

class SecureDaemonTest : public ::testing::Test {
 protected:
  SecureDaemonTest() {
    WritePair(authority_.Issue({.names = kNames}));
    Write("tokens", kLine);
    Write("config.yaml", Config("tokens"));
  }

  std::string Config(const std::string& tokens_file) const {
    return absl::StrCat(
        "unlisted_namespaces: ALLOW\ntls: {certificate_file: ", Path("certificate"),
        ", private_key_file: ", Path("key"), "}\nidentity: {tokens_file: ", Path(tokens_file),
        "}\naccess: [{identities: ['token:*'], namespaces: ['*'], roles: [CALLER]}]\n");
  }
  std::string Path(const std::string& name) const { return directory_.file(name); }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name) + ".new") << text;
    std::filesystem::rename(Path(name) + ".new", Path(name));
  }
  void WritePair(const TestCertificate& pair) const {
    Write("certificate", pair.certificate);
    Write("key", pair.private_key);
  }

  // One call on a connection of its own.
  static grpc::Status Call(const ServerProcess& server, const TestAuthority& trusted,
                           const std::string& token) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto stub = v1::IdempotencyService::NewStub(grpc::CreateCustomChannel(
        absl::StrCat("127.0.0.1:", server.port()),
        grpc::SslCredentials({trusted.certificate(), "", ""}), arguments));
    grpc::ClientContext context;
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
    v1::ReserveResponse response;
    return stub->Reserve(&context, Reserve("k"), &response);
  }

  static void AwaitLog(const ServerProcess& server, const std::string& text) {
    while (server.Log().find(text) == std::string::npos) std::this_thread::yield();
  }

  const TempDirectory directory_;
  const TestAuthority authority_{"ca"};
};

TEST_F(SecureDaemonTest, RefusesToBeReachedWithoutProtectionAndSaysWhatToSet) {
  const Ended plaintext = RunToEnd("--listen=0.0.0.0:0");
  EXPECT_EQ(plaintext.exit_code, 2);
  EXPECT_EQ(plaintext.output,
            "idempotencyd: --listen=0.0.0.0:0 can be reached from other machines, and nothing "
            "would be encrypted: set up TLS by tls.certificate_file and tls.private_key_file in "
            "the file of --config, or listen on 127.0.0.1, [::1] or unix:/path. For development, "
            "--allow_plaintext goes without.\n");
  Write("anonymous.yaml",
        absl::StrCat("unlisted_namespaces: ALLOW\ntls: {certificate_file: ", Path("certificate"),
                     ", private_key_file: ", Path("key"), "}\n"));
  const Ended anonymous = RunToEnd("--listen=0.0.0.0:0 --config=" + Path("anonymous.yaml"));
  EXPECT_EQ(anonymous.exit_code, 2);
  EXPECT_THAT(anonymous.output, HasSubstr("whoever can connect could do everything: set "
                                          "tls.client_ca_file, identity.tokens_file or "
                                          "identity.jwt_issuers"));
}

TEST_F(SecureDaemonTest, RefusesToStartWithFilesThatDoNotFit) {
  const Ended old = RunToEnd("--tls_min_version=1.1");
  EXPECT_EQ(old.exit_code, 2);
  EXPECT_THAT(old.output, HasSubstr("--tls_min_version=1.1 is neither 1.3 nor 1.2"));
  const std::string config = "--listen=127.0.0.1:0 --config=" + Path("config.yaml");
  EXPECT_EQ(RunToEnd(config + " --check_config").exit_code, 0);
  Write("tokens", kToken);
  for (const char* check : {"", " --check_config"}) {
    const Ended ended = RunToEnd(config + check);
    EXPECT_EQ(ended.exit_code, 2) << check;
    EXPECT_THAT(ended.output, HasSubstr(Path("tokens") + ": line 1")) << check;
    EXPECT_THAT(ended.output, Not(HasSubstr(kToken))) << check;
  }
  Write("tokens", kLine);
  Write("key", authority_.Issue({.names = kNames}).private_key);
  for (const char* check : {"", " --check_config"}) {
    const Ended ended = RunToEnd(config + check);
    EXPECT_EQ(ended.exit_code, 2) << check;
    EXPECT_THAT(ended.output, HasSubstr("is not that of the first certificate")) << check;
  }
}

TEST_F(SecureDaemonTest, TakesUpNewCertificatesAndTokensWhileItRuns) {
  ServerProcess server({"--engine=memory", "--config=" + Path("config.yaml")});
  EXPECT_TRUE(Call(server, authority_, kToken).ok());
  EXPECT_EQ(Call(server, authority_, "").error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(server.Log(), HasSubstr("\"tls\":true,\"identity\":true"));

  // A pair that does not fit together changes nothing.
  const TestAuthority next("next");
  const TestCertificate pair = next.Issue({.names = kNames});
  Write("certificate", pair.certificate);
  AwaitLog(server, "\"credentials_kept\"");
  EXPECT_TRUE(Call(server, authority_, kToken).ok());
  Write("key", pair.private_key);
  AwaitLog(server, "\"credentials_taken_up\"");
  EXPECT_TRUE(Call(server, next, kToken).ok());

  // A token that is taken back.
  Write("tokens", "other sha256:" + std::string(64, '0') + "\n");
  AwaitLog(server, "\"what\":\"tokens\"");
  EXPECT_EQ(Call(server, next, kToken).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(server.Log(), HasSubstr("\"unauthenticated\""));
  EXPECT_THAT(server.Log(), Not(HasSubstr(kToken)));
  EXPECT_EQ(server.Terminate(), 0);
}

TEST_F(SecureDaemonTest, AReloadComesAsAWholeOrNotAtAll) {
  ServerProcess server({"--engine=memory", "--config=" + Path("config.yaml")});
  ASSERT_TRUE(Call(server, authority_, kToken).ok());
  Write("config.yaml", Config("missing"));
  server.Signal(SIGHUP);
  AwaitLog(server, "\"reload_failed\"");
  EXPECT_THAT(server.Log(), HasSubstr(Path("missing") + ": cannot be opened"));
  EXPECT_TRUE(Call(server, authority_, kToken).ok());
  Write("others", "other sha256:" + std::string(64, '0') + "\n");
  Write("config.yaml", Config("others"));
  server.Signal(SIGHUP);
  AwaitLog(server, "\"reloaded\"");
  EXPECT_EQ(Call(server, authority_, kToken).error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

}  // namespace
}  // namespace idempotency::testing
