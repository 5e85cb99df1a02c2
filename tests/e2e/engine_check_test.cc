// `idempotencyctl engine check` against the release binary, on every store that it may be kept in:
// a disk, an etcd of an old version, a PostgreSQL that is told not to sync while it is in use.
#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "idempotency/engine/v1/engine_service.pb.h"
#include "tests/support/becomes_true.h"
#include "tests/support/etcd_process.h"
#include "tests/support/postgres_process.h"
#include "tests/support/server_process.h"
#include "tests/support/temp_directory.h"

namespace idempotency::testing {
namespace {

using engine::v1::CheckEngineResponse;
using ::testing::HasSubstr;

constexpr int kGuaranteeFails = 7;

struct Told {
  int exit_code = -1;
  std::string out;
};

Told RunCheck(const ServerProcess& server, const std::string& more = "") {
  const std::string command = std::string(std::getenv("IDEMPOTENCYCTL")) +
                              " --server=127.0.0.1:" + std::to_string(server.port()) +
                              " --timeout=2m engine check " + more;
  Told told;
  FILE* const pipe = popen(command.c_str(), "r");
  char buffer[4096];
  for (size_t size = 0; (size = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) {
    told.out.append(buffer, size);
  }
  const int status = pclose(pipe);
  told.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return told;
}

CheckEngineResponse Parse(const Told& told) {
  CheckEngineResponse response;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(told.out, &response).ok()) << told.out;
  return response;
}

engine::v1::Severity SeverityOf(const CheckEngineResponse& response, const std::string& id) {
  for (const engine::v1::Finding& finding : response.findings()) {
    if (finding.id() == id) return finding.severity();
  }
  return engine::v1::SEVERITY_UNSPECIFIED;
}

bool IsOfAnyStore(const CheckEngineResponse& response) {
  return SeverityOf(response, "clock.trusted") == engine::v1::SEVERITY_OK;
}

TEST(EngineCheckE2e, OfADisk) {
  const TempDirectory files;
  ServerProcess server({"--data_dir=" + files.file("data"), "--ballast_mb=1"});
  const Told told = RunCheck(server, "--output=json");
  const CheckEngineResponse response = Parse(told);
  EXPECT_EQ(response.engine(), "rocksdb");
  EXPECT_EQ(SeverityOf(response, "rocksdb.alive"), engine::v1::SEVERITY_OK);
  EXPECT_EQ(SeverityOf(response, "rocksdb.watermark"), engine::v1::SEVERITY_OK);
  EXPECT_TRUE(IsOfAnyStore(response));
  // Where the machine keeps its files in memory it is right to say so.
  const bool in_memory =
      SeverityOf(response, "rocksdb.file_system") == engine::v1::SEVERITY_GUARANTEE_FAILS;
  EXPECT_EQ(told.exit_code, in_memory ? kGuaranteeFails : 0) << told.out;
  EXPECT_EQ(server.Terminate(), 0);
}

TEST(EngineCheckE2e, OfAnEtcdThatIsOld) {
  const EtcdCluster etcd(1);
  ServerProcess server({"--engine=etcd", "--etcd_endpoints=" + etcd.endpoints_flag()});
  // Where the machine is slow etcd may answer too late, and is asked again.
  Told told;
  CheckEngineResponse response;
  EXPECT_TRUE(BecomesTrue([&] {
    told = RunCheck(server, "--output=json");
    response = Parse(told);
    return SeverityOf(response, "etcd.version") == engine::v1::SEVERITY_GUARANTEE_FAILS &&
           SeverityOf(response, "etcd.members") == engine::v1::SEVERITY_WARNING;
  })) << told.out;
  EXPECT_EQ(response.engine(), "etcd");
  EXPECT_THAT(response.version(), HasSubstr("3.4."));
  EXPECT_EQ(SeverityOf(response, "etcd.clock"), engine::v1::SEVERITY_NOT_CHECKED);
  EXPECT_TRUE(IsOfAnyStore(response));
  EXPECT_EQ(told.exit_code, kGuaranteeFails);
  // For people: the worst first, and what to do about it.
  Told table;
  EXPECT_TRUE(BecomesTrue([&] {
    table = RunCheck(server);
    const size_t worst = table.out.find("FAILS A GUARANTEE     etcd.version");
    const size_t warning = table.out.find("WARNING               etcd.members");
    return worst != std::string::npos && warning != std::string::npos && worst < warning;
  })) << table.out;
  EXPECT_EQ(table.exit_code, kGuaranteeFails);
  EXPECT_THAT(table.out, HasSubstr("upgrade every member to 3.5.28, 3.6.9 or newer"));
}

TEST(EngineCheckE2e, OfAPostgresThatIsToldNotToSync) {
  const PostgresServer postgres;
  ServerProcess server({"--engine=postgres", "--postgres_uri=" + postgres.TcpUri("idempotency")});
  Told before;
  CheckEngineResponse response;
  EXPECT_TRUE(BecomesTrue([&] {
    before = RunCheck(server, "--output=json");
    response = Parse(before);
    return SeverityOf(response, "postgres.standby") == engine::v1::SEVERITY_WARNING;
  })) << before.out;
  EXPECT_EQ(response.engine(), "postgres");
  EXPECT_THAT(response.version(), HasSubstr("PostgreSQL 15"));
  EXPECT_EQ(SeverityOf(response, "postgres.fsync"), engine::v1::SEVERITY_OK);
  EXPECT_TRUE(IsOfAnyStore(response));
  EXPECT_EQ(before.exit_code, 0) << before.out;
  static_cast<void>(postgres.Sql("ALTER SYSTEM SET fsync = off"));
  static_cast<void>(postgres.Sql("SELECT pg_reload_conf()"));
  Told after;
  EXPECT_TRUE(BecomesTrue([&] {
    after = RunCheck(server, "--output=json");
    return after.exit_code == kGuaranteeFails;
  }));
  EXPECT_EQ(SeverityOf(Parse(after), "postgres.fsync"), engine::v1::SEVERITY_GUARANTEE_FAILS);
}

}  // namespace
}  // namespace idempotency::testing
