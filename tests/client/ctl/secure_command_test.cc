// Reaching a server that wants TLS, certificates and tokens.
#include <gmock/gmock.h>

#include <fstream>
#include <string>

#include "tests/client/ctl/fake_server.h"
#include "tests/support/temp_directory.h"
#include "tests/support/test_authority.h"

namespace idempotency::ctl {
namespace {

using idempotency::testing::TestAuthority;
using idempotency::testing::TestCertificate;
using ::testing::HasSubstr;

class SecureCommandTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(directory_.file(name)) << text;
    return directory_.file(name);
  }

  // A server that asks for certificates of `authority_`.
  std::shared_ptr<grpc::ServerCredentials> Credentials() const {
    const TestCertificate own = authority_.Issue({.names = "DNS:idempotency.example"});
    grpc::SslServerCredentialsOptions options(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    options.pem_root_certs = authority_.certificate();
    options.pem_key_cert_pairs.push_back({own.private_key, own.certificate});
    return grpc::SslServerCredentials(options);
  }

  const TempDirectory directory_;
  const TestAuthority authority_{"ca"};
  const TestCertificate client_ = authority_.Issue({.names = "DNS:ann"});
  const std::string ca_ = Write("ca.pem", authority_.certificate());
  const std::string cert_ = Write("cert.pem", client_.certificate);
  const std::string key_ = Write("key.pem", client_.private_key);
};

TEST_F(SecureCommandTest, BothSidesShowTheirCertificates) {
  FakeServer server(Credentials());
  const std::string name = "--server-name=idempotency.example";
  const RunResult run =
      server.Run({"health", "--ca=" + ca_, "--cert=" + cert_, "--key=" + key_, name});
  EXPECT_EQ(server.health.check.calls, 1) << run.err;
  // By the environment just the same.
  server.env["IDEMPOTENCY_CA"] = ca_;
  server.env["IDEMPOTENCY_CERT"] = cert_;
  server.env["IDEMPOTENCY_KEY"] = key_;
  server.Run({"health", name});
  EXPECT_EQ(server.health.check.calls, 2);
}

TEST_F(SecureCommandTest, WhatDoesNotFitIsNotReached) {
  FakeServer server(Credentials());
  const std::string name = "--server-name=idempotency.example";
  const std::vector<std::vector<std::string>> kCases = {
      {"health", "--timeout=2s"},
      {"health", "--timeout=2s", "--ca=" + ca_, name},
      {"health", "--timeout=2s", "--ca=" + ca_, "--cert=" + cert_, "--key=" + key_},
      {"health", "--timeout=2s", "--tls", "--cert=" + cert_, "--key=" + key_, name},
  };
  for (const std::vector<std::string>& words : kCases) {
    EXPECT_EQ(server.Run(words).code, static_cast<int>(ExitCode::kNoAnswer)) << words.size();
  }
  EXPECT_EQ(server.health.check.calls, 0);
}

TEST_F(SecureCommandTest, ATokenGoesWithEveryCall) {
  FakeServer server;
  std::string sent;
  server.service.get_namespace.answer = [&](grpc::ServerContext* context, const auto&, auto*) {
    const auto found = context->client_metadata().find("authorization");
    sent = found == context->client_metadata().end()
               ? "nothing"
               : std::string(found->second.data(), found->second.size());
    return grpc::Status::OK;
  };
  server.Run({"namespaces", "a"});
  EXPECT_EQ(sent, "nothing");
  server.Run({"namespaces", "a", "--token-file=" + Write("token", "a-token\n")});
  EXPECT_EQ(sent, "Bearer a-token");
}

TEST_F(SecureCommandTest, WrongFilesSendNothing) {
  FakeServer server;
  const std::string token = Write("token", "secret-token");
  const struct {
    const char* name;
    std::vector<std::string> words;
    const char* problem;
  } kCases[] = {
      {"no such file", {"--ca=" + directory_.file("none")}, "cannot be read"},
      {"an empty file", {"--token-file=" + Write("empty", "")}, "cannot be read, or is empty"},
      {"a certificate alone", {"--cert=" + cert_}, "--cert and --key belong together"},
      {"a key alone", {"--key=" + key_}, "--cert and --key belong together"},
      {"two tokens", {"--token-file=" + Write("two", "a\nb\n")}, "one token, and nothing else"},
      {"a name without TLS", {"--server-name=x"}, "--server-name says nothing without"},
      {"a token over a network",
       {"--server=192.0.2.1:7420", "--token-file=" + token},
       "not sent in plain text over a network"},
  };
  for (const auto& row : kCases) {
    std::vector<std::string> words{"health"};
    words.insert(words.end(), row.words.begin(), row.words.end());
    const RunResult run = server.Run(words);
    EXPECT_EQ(run.code, static_cast<int>(ExitCode::kUsage)) << row.name;
    EXPECT_THAT(run.err, HasSubstr(row.problem)) << row.name;
    EXPECT_EQ(run.err.find("secret-token"), std::string::npos) << row.name;
  }
  EXPECT_EQ(server.health.check.calls, 0);
}

TEST_F(SecureCommandTest, WhoeverIsUnknownIsToldHowToSayWhoTheyAre) {
  FakeServer server;
  server.service.get_namespace.answer = [](grpc::ServerContext* context, const auto&, auto*) {
    return Refuse(context, grpc::StatusCode::UNAUTHENTICATED, "ACCESS_DENIED", "Who calls?");
  };
  const RunResult run = server.Run({"namespaces", "a"});
  EXPECT_EQ(run.code, static_cast<int>(ExitCode::kRefused));
  EXPECT_THAT(run.err, HasSubstr("--token-file"));
}

}  // namespace
}  // namespace idempotency::ctl
