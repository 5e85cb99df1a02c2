#include "client/ctl/command_line.h"

#include <gtest/gtest.h>

namespace idempotency::ctl {
namespace {

v1::OperationId Id(const std::string& scope, const std::string& key) {
  v1::OperationId id;
  id.set_namespace_("payments");
  id.set_scope(scope);
  id.set_key(key);
  return id;
}

TEST(CommandLine, OperandsComeFirst) {
  EXPECT_EQ(CommandLine(kDefaultServer, "complete")
                .Id(Id("acct-1", "order/7"))
                .Flag("reason", "I saw it")
                .OptionalFlag("etag", "")
                .Switch("force")
                .ToString(),
            "idempotencyctl complete payments acct-1 order/7 --reason='I saw it' --force");
}

TEST(CommandLine, AnotherServerIsNamed) {
  EXPECT_EQ(CommandLine("unix:/run/x y", "health").ToString(),
            "idempotencyctl --server='unix:/run/x y' health");
}

TEST(CommandLine, OperandsLikeOptionsAreFencedOff) {
  for (const char* key : {"-x", "--force", "++"}) {
    EXPECT_EQ(CommandLine(kDefaultServer, "get").Id(Id("", key)).Flag("wait", "30s").ToString(),
              "idempotencyctl get --wait=30s -- payments '' " + std::string(key));
  }
}

TEST(CommandLine, NamesWhatItTakesToReachTheServer) {
  Target target("h:1");
  target.tls = true;
  target.ca_file = "a b.pem";
  target.certificate_file = "c";
  target.key_file = "k";
  target.server_name = "n";
  target.token_file = "t";
  EXPECT_EQ(CommandLine(target, "health").ToString(),
            "idempotencyctl --server=h:1 --tls --ca='a b.pem' --cert=c --key=k --server-name=n "
            "--token-file=t health");
}

TEST(SameCommand, NamesTheServerThatTheEnvironmentGave) {
  EXPECT_EQ(SameCommand("h:1", {"get", "a", "", "c d"}),
            "idempotencyctl --server=h:1 get a '' 'c d'");
  EXPECT_EQ(SameCommand("h:1", {"--server=h:1", "health"}), "idempotencyctl --server=h:1 health");
  EXPECT_EQ(SameCommand("h:1", {"health", "--server", "h:1"}),
            "idempotencyctl health --server h:1");
  EXPECT_EQ(SameCommand(kDefaultServer, {"health"}), "idempotencyctl health");
}

}  // namespace
}  // namespace idempotency::ctl
