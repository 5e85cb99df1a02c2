// What the command line means: ids of any content, wrong options, help.
#include <gmock/gmock.h>

#include "client/ctl/command_line.h"
#include "tests/client/ctl/fake_server.h"
#include "tests/client/ctl/shell.h"

namespace idempotency::ctl {
namespace {

using testing::HasSubstr;

// Each goes out as a printed command, through bash, and back in: what arrives is the same key.
TEST(Parse, PrintedCommandsReachTheSameKey) {
  FakeServer server;
  for (const std::string key :
       {"order/7",  "list",     "reserve", "-x",  "--",   "--force",
        "--key=",   "-1",       "++",      "a b", "it's", "$HOME",
        "`id`",     "*",        "\\",      "=x",  "~x",   "[a,b]",
        "{}",       "@file",    "%%",      "#",   "",     "\u043a\u043b\u044e\u0447",
        "a\u202eb", "tab\there"}) {
    v1::OperationId id;
    id.set_namespace_("payments");
    id.set_scope(key);
    id.set_key(key);
    const std::string command =
        CommandLine(kDefaultServer, "get").Id(id).Flag("wait", "1s").ToString();
    const RunResult run = server.Run(WordsOf(command));
    EXPECT_EQ(run.code, 0) << command << "\n" << run.err;
    EXPECT_EQ(server.service.get.request.id().ShortDebugString(), id.ShortDebugString()) << command;
  }
}

struct WrongRow {
  const char* name;
  std::vector<std::string> words;
  // What the complaint must name.
  const char* named;
};

TEST(Parse, WrongCommandLinesSendNothing) {
  FakeServer server;
  const std::vector<WrongRow> rows = {
      {"nothing", {}, "required"},
      {"no such command", {"reserv", "a", "b", "c"}, "required"},
      {"a word too few", {"get", "a", "b"}, "KEY"},
      {"a word too many", {"get", "a", "b", "c", "d"}, "d"},
      {"no such option", {"get", "a", "b", "c", "--nope"}, "--nope"},
      {"bad duration", {"get", "a", "b", "c", "--wait=3"}, "--wait"},
      {"negative duration", {"get", "a", "b", "c", "--wait=-3s"}, "--wait"},
      {"timeout of nothing", {"--timeout=0", "health"}, "--timeout"},
      {"bad output", {"--output=xml", "health"}, "--output"},
      {"empty value", {"list", "a", "--scope=", "--prefix=b"}, "--scope"},
      {"not UTF-8", {"get", "a", "b", "\xff"}, "UTF-8"},
      {"two fingerprints",
       {"reserve", "a", "b", "c", "--request-file=x", "--fingerprint=x:00"},
       "--fingerprint"},
      {"bad fingerprint", {"reserve", "a", "b", "c", "--fingerprint=00"}, "--fingerprint"},
      {"bad label", {"reserve", "a", "b", "c", "--label=x"}, "--label"},
      {"no token", {"release", "a", "b", "c"}, "--fencing-token"},
      {"bad token", {"release", "a", "b", "c", "--fencing-token=x"}, "--fencing-token"},
      {"no verdict", {"complete", "a", "b", "c", "--token=1"}, "--verdict"},
      {"a verdict of the service's own",
       {"complete", "a", "b", "c", "--token=1", "--verdict=abandoned"},
       "--verdict"},
      {"bad header",
       {"complete", "a", "b", "c", "--token=1", "--verdict=failed", "--header=x"},
       "--header"},
      {"two statuses",
       {"complete", "a", "b", "c", "--token=1", "--verdict=failed", "--http-status=200",
        "--grpc-code=0"},
       "--grpc-code"},
      {"no file", {"reserve", "a", "b", "c", "--request-file=/nowhere/x"}, "/nowhere/x"},
      {"bad state", {"list", "a", "--state=gone"}, "--state"},
      {"negative limit", {"list", "a", "--limit=-1"}, "--limit"},
      {"no reason", {"delete", "a", "b", "c"}, "--reason"},
      {"no kind of resolution", {"resolve"}, "required"},
  };
  for (const WrongRow& row : rows) {
    const RunResult run = server.Run(row.words);
    EXPECT_EQ(run.code, 2) << row.name;
    EXPECT_EQ(run.out, "") << row.name;
    EXPECT_THAT(run.err, HasSubstr(row.named)) << row.name;
  }
  EXPECT_EQ(server.service.reserve.calls + server.service.get.calls +
                server.service.complete.calls + server.service.release.calls +
                server.admin.list.calls + server.admin.erase.calls,
            0);
}

TEST(Parse, EveryCommandHelps) {
  FakeServer server;
  for (const char* name :
       {"reserve", "renew",      "complete", "release",    "mark-unresolved", "get",     "inspect",
        "list",    "resolve",    "delete",   "namespaces", "backup",          "backups", "verify",
        "restore", "export",     "import",   "unresolved", "explain",         "watch",   "contract",
        "top",     "completion", "health",   "version",    "engine",          "retire"}) {
    const RunResult run = server.Run({name, "--help"});
    EXPECT_EQ(run.code, 0) << name;
    EXPECT_THAT(run.out, HasSubstr("Usage: idempotencyctl " + std::string(name))) << name;
    EXPECT_THAT(run.out, HasSubstr("Exit codes: ")) << name;
    EXPECT_THAT(run.out, HasSubstr("--server")) << name;
    EXPECT_THAT(server.Run({"--help"}).out, HasSubstr(std::string("\n  ") + name)) << name;
  }
}

TEST(Parse, GlobalOptionsStandBeforeOrAfter) {
  FakeServer server;
  server.health.check.response.set_status(grpc::health::v1::HealthCheckResponse::SERVING);
  EXPECT_EQ(server.Run({"--output=json", "health"}).out,
            server.Run({"health", "--output", "json"}).out);
  const std::string address = server.env["IDEMPOTENCY_SERVER"];
  server.env["IDEMPOTENCY_SERVER"] = "127.0.0.1:1";
  EXPECT_EQ(server.Run({"health", "--server=" + address}).code, 0);
}

}  // namespace
}  // namespace idempotency::ctl
