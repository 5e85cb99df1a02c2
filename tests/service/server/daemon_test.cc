// idempotencyd as a process: flags, signals, exit codes, files. The binary is the one that the
// environment variable IDEMPOTENCYD names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "idempotency/v1/admin_service.grpc.pb.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/service/server/commands.h"
#include "tests/support/server_process.h"

namespace idempotency::testing {
namespace {

using std::chrono::seconds;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

// What a process that ends by itself has to say.
struct Ended {
  int exit_code = -1;
  std::string out;
  std::string err;
};

std::string ReadToEnd(int fd) {
  std::string text;
  char buffer[4096];
  for (ssize_t size = 0; (size = read(fd, buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<size_t>(size));
  }
  close(fd);
  return text;
}

Ended RunToEnd(std::vector<std::string> flags) {
  const char* binary = std::getenv("IDEMPOTENCYD");
  EXPECT_NE(binary, nullptr) << "set IDEMPOTENCYD to the binary; tests/run.sh does";
  flags.insert(flags.begin(), binary);
  std::vector<char*> argv;
  for (std::string& flag : flags) argv.push_back(flag.data());
  argv.push_back(nullptr);
  int out[2];
  int err[2];
  EXPECT_EQ(pipe(out), 0);
  EXPECT_EQ(pipe(err), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    for (const int fd : {out[0], out[1], err[0], err[1]}) close(fd);
    execv(binary, argv.data());
    _exit(127);
  }
  close(out[1]);
  close(err[1]);
  Ended ended;
  ended.out = ReadToEnd(out[0]);
  ended.err = ReadToEnd(err[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  ended.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ended;
}

std::string WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::trunc);
  file << text;
  return path;
}

v1::ReserveResponse Acquire(v1::IdempotencyService::Stub* stub, const std::string& key) {
  grpc::ClientContext context;
  v1::ReserveResponse response;
  const grpc::Status status = stub->Reserve(&context, Reserve(key), &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

v1::ReserveResponse Acquire(ServerProcess* server, const std::string& key) {
  return Acquire(v1::IdempotencyService::NewStub(server->Channel()).get(), key);
}

void AwaitLog(const ServerProcess& server, const std::string& text) {
  while (server.Log().find(text) == std::string::npos) std::this_thread::yield();
}

TEST(DaemonTest, ExplainsItself) {
  const Ended help = RunToEnd({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("--data_dir"));
  EXPECT_EQ(help.err, "");
  const Ended version = RunToEnd({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.out, HasSubstr("idempotencyd "));
}

TEST(DaemonTest, RefusesWrongUsage) {
  for (const char* flag : {"--lisen=1", "--listen=0.0.0.0:7420", "--engine=etcd",
                           "--config=/nowhere.yaml", "--listen=nonsense"}) {
    const Ended ended = RunToEnd({"--engine=memory", flag});
    EXPECT_EQ(ended.exit_code, 2) << flag << ended.err;
    EXPECT_THAT(ended.err, ::testing::StartsWith("idempotencyd: ")) << flag;
  }
}

TEST(DaemonTest, ChecksAConfiguration) {
  const TempDirectory directory;
  const std::string good = WriteFile(directory.path() + "/good.yaml", "namespaces: [{name: a}]");
  EXPECT_EQ(RunToEnd({"--config=" + good, "--check_config"}).exit_code, 0);
  const std::string bad =
      WriteFile(directory.path() + "/bad.yaml", "namespaces: [{name: a, retentoin: 1h}]");
  const Ended ended = RunToEnd({"--config=" + bad, "--check_config"});
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_THAT(ended.err, HasSubstr("retentoin"));
  EXPECT_EQ(RunToEnd({"--engine=memory", "--config=" + bad}).exit_code, 2);
}

TEST(DaemonTest, SaysWhyItCannotStart) {
  const TempDirectory directory;
  const Ended no_parent = RunToEnd({"--data_dir=" + directory.path() + "/none/store"});
  EXPECT_EQ(no_parent.exit_code, 1) << no_parent.err;
  EXPECT_THAT(no_parent.err, HasSubstr("cannot_start"));

  ServerProcess server({"--data_dir=" + directory.path() + "/store"});
  const Ended in_use =
      RunToEnd({"--data_dir=" + directory.path() + "/store", "--listen=127.0.0.1:0"});
  EXPECT_EQ(in_use.exit_code, 1) << in_use.err;
  const Ended port_taken =
      RunToEnd({"--engine=memory", "--listen=127.0.0.1:" + std::to_string(server.port())});
  EXPECT_EQ(port_taken.exit_code, 1) << port_taken.err;
  EXPECT_THAT(port_taken.err, HasSubstr("cannot listen on"));
  EXPECT_EQ(server.Terminate(), 0);
}

// A directory of keys with this one as the current one; older ones stay.
std::string UseKey(const TempDirectory& directory, const std::string& id) {
  const std::string keys = directory.file("keys");
  std::filesystem::create_directories(keys);
  const std::string path = WriteFile(keys + "/" + id + ".key", std::string(63, 'a') + id.back());
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  WriteFile(keys + "/current", id);
  return keys;
}

v1::GetOperationResponse GetFrom(const ServerProcess& server, const std::string& key) {
  grpc::ClientContext context;
  v1::GetOperationResponse response;
  const auto stub = v1::IdempotencyService::NewStub(server.Channel());
  const grpc::Status status = stub->GetOperation(&context, Get(key), &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

TEST(DaemonTest, RewrapsAStoreThatItDoesNotServe) {
  const TempDirectory directory;
  const std::vector<std::string> flags{"--data_dir=" + directory.file("store"),
                                       "--response_keys=" + UseKey(directory, "key-1")};
  std::vector<std::string> rewrap = flags;
  rewrap.push_back("--rewrap");
  ServerProcess server(flags);
  const uint64_t token = Acquire(&server, "k").lease().fencing_token();
  {
    grpc::ClientContext context;
    v1::CompleteResponse response;
    const auto stub = v1::IdempotencyService::NewStub(server.Channel());
    ASSERT_TRUE(stub->Complete(&context, Complete("k", token, "the answer"), &response).ok());
  }
  const Ended in_use = RunToEnd(rewrap);
  EXPECT_EQ(in_use.exit_code, 1) << in_use.err;
  EXPECT_EQ(server.Terminate(), 0);

  UseKey(directory, "key-2");
  const Ended done = RunToEnd(rewrap);
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.err, HasSubstr(R"("event":"rewrapped","visited":1)"));
  EXPECT_THAT(done.err, HasSubstr(R"("rewrapped":1)"));
  std::filesystem::remove(directory.file("keys/key-1.key"));
  server.Start();
  EXPECT_EQ(GetFrom(server, "k").operation().response().body(), "the answer");
  EXPECT_EQ(server.Terminate(), 0);

  // Without its key it does not start, and says what to do.
  std::filesystem::remove(directory.file("keys/key-2.key"));
  UseKey(directory, "key-3");
  const Ended missing = RunToEnd(flags);
  EXPECT_EQ(missing.exit_code, 1) << missing.err;
  EXPECT_THAT(missing.err, HasSubstr("key-2.key"));
  std::vector<std::string> lost = flags;
  lost.push_back("--lost_response_keys=key-2");
  ServerProcess without(lost);
  const v1::GetOperationResponse got = GetFrom(without, "k");
  EXPECT_EQ(got.operation().state(), v1::OPERATION_STATE_COMPLETE);
  EXPECT_EQ(got.next_step(), v1::NEXT_STEP_LOOK_UP_ANSWER);
  EXPECT_FALSE(got.operation().response().has_body());
  AwaitLog(without, "sealed with the key key-2");
  EXPECT_EQ(without.Terminate(), 0);
}

TEST(DaemonTest, StopsAtATerminationAndKeepsWhatItKnows) {
  const TempDirectory directory;
  ServerProcess server({"--data_dir=" + directory.path() + "/store"});
  const v1::ReserveResponse first = Acquire(&server, "k");
  EXPECT_EQ(first.outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
  EXPECT_EQ(server.Terminate(), 0);
  EXPECT_THAT(server.Log(), HasSubstr("\"stopping\""));
  EXPECT_THAT(server.Log(), HasSubstr("\"stopped\""));
  EXPECT_TRUE(std::filesystem::exists(directory.path() + "/store/CLOCK"));
  server.Start();
  const v1::ReserveResponse again = Acquire(&server, "k");
  EXPECT_EQ(again.outcome(), v1::RESERVE_OUTCOME_ALREADY_HELD);
  EXPECT_EQ(again.lease().fencing_token(), first.lease().fencing_token());
  EXPECT_EQ(server.Terminate(), 0);
}

TEST(DaemonTest, AnswersWhoWaitsBeforeItStops) {
  ServerProcess server({"--engine=memory", "--log_level=debug"});
  Acquire(&server, "k");
  v1::ReserveResponse response;
  grpc::Status status;
  std::thread waiting([&] {
    const auto stub = v1::IdempotencyService::NewStub(server.Channel());
    grpc::ClientContext context;
    status = stub->Reserve(&context, WaitingReserve("k", "2", seconds(50)), &response);
  });
  // Whether the wait has begun by then is left open; either way the caller is told.
  Acquire(&server, "other");
  EXPECT_EQ(server.Terminate(), 0);
  waiting.join();
  if (status.ok()) {
    EXPECT_EQ(response.outcome(), v1::RESERVE_OUTCOME_IN_PROGRESS);
  } else {
    // CANCELLED is gRPC's own word for a call that it had not handed over when it was shut down.
    // Both say "unknown: send the same call again" (protos/README.md).
    EXPECT_THAT(status.error_code(),
                AnyOf(grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::CANCELLED))
        << status.error_message();
  }
}

TEST(DaemonTest, ReloadsAndKeepsTheLastGoodConfiguration) {
  const TempDirectory directory;
  const std::string path = WriteFile(directory.path() + "/c.yaml",
                                     "namespaces: [{name: payments, default_lease_duration: 10s}]");
  ServerProcess server({"--engine=memory", "--config=" + path});
  EXPECT_LE(Acquire(&server, "a").lease().remaining().seconds(), 10);
  WriteFile(path, "namespaces: [{name: payments, default_lease_duration: 1h}]");
  server.Signal(SIGHUP);
  AwaitLog(server, "\"reloaded\"");
  EXPECT_GT(Acquire(&server, "b").lease().remaining().seconds(), 3000);
  WriteFile(path, "namespaces: 7");
  server.Signal(SIGHUP);
  AwaitLog(server, "\"reload_failed\"");
  EXPECT_GT(Acquire(&server, "c").lease().remaining().seconds(), 3000);
  EXPECT_EQ(server.Terminate(), 0);
}

// Only RocksDB says how much a namespace has stored. A limit that is none must not look like one.
TEST(DaemonTest, WarnsOfAQuotaThatItsEngineDoesNotEnforce) {
  const TempDirectory directory;
  const std::string path = WriteFile(directory.file("c.yaml"),
                                     "namespaces:\n"
                                     "  - {name: payments, quota: {stored_bytes: 1000000}}\n"
                                     "  - {name: refunds, quota: {open_operations: 7}}\n"
                                     "  - {name: frozen, quota: {stored_bytes: 0}}\n");
  ServerProcess server({"--engine=memory", "--config=" + path});
  AwaitLog(server, "\"namespace\":\"payments\",\"field\":\"stored_bytes\"");
  WriteFile(path, "namespaces: [{name: mails, scope_quota: {stored_bytes: 1}}]");
  server.Signal(SIGHUP);
  AwaitLog(server, "\"namespace\":\"mails\",\"field\":\"stored_bytes\"");
  EXPECT_EQ(server.Terminate(), 0);
  const std::string log = server.Log();
  EXPECT_THAT(log, HasSubstr("\"quota_not_enforced\""));
  EXPECT_THAT(log, Not(HasSubstr("\"namespace\":\"refunds\"")));
  EXPECT_THAT(log, Not(HasSubstr("\"namespace\":\"frozen\"")));

  WriteFile(path, "namespaces: [{name: payments, quota: {stored_bytes: 1000000}}]");
  ServerProcess kept({"--engine=rocksdb", "--data_dir=" + directory.file("data"),
                      "--config=" + path, "--ballast_mb=0"});
  EXPECT_EQ(kept.Terminate(), 0);
  EXPECT_THAT(kept.Log(), Not(HasSubstr("quota_not_enforced")));
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

grpc::Status InspectOn(const ServerProcess& server, const std::string& key) {
  const auto stub = v1::IdempotencyAdminService::NewStub(server.Channel());
  grpc::ClientContext context;
  v1::InspectOperationResponse response;
  return stub->InspectOperation(&context, Inspect(key), &response);
}

TEST(DaemonTest, KeepsAnAuditThatCanBeRotated) {
  const TempDirectory directory;
  const std::string audit = directory.file("audit");
  const std::string config = WriteFile(directory.file("c.yaml"), "namespaces: [{name: payments}]");
  ServerProcess server({"--engine=memory", "--audit_log=" + audit, "--config=" + config});
  Acquire(&server, "k");
  EXPECT_TRUE(InspectOn(server, "k").ok());
  std::filesystem::rename(audit, audit + ".1");
  server.Signal(SIGHUP);
  AwaitLog(server, "\"reloaded\"");
  EXPECT_TRUE(InspectOn(server, "k").ok());
  EXPECT_EQ(server.Terminate(), 0);
  EXPECT_THAT(ReadFile(audit + ".1"),
              HasSubstr(R"("action":"inspect_operation","peer":"ipv4:127.0.0.1)"));
  const std::string next = ReadFile(audit);
  EXPECT_THAT(next, HasSubstr(R"("action":"reload","who":"process:uid=)"));
  EXPECT_THAT(next, HasSubstr(R"("audit":"act_ended")"));
  EXPECT_THAT(next, HasSubstr(R"("action":"inspect_operation")"));
  EXPECT_EQ(std::filesystem::status(audit).permissions() & std::filesystem::perms::others_all,
            std::filesystem::perms::none);
  EXPECT_EQ(server.Log().find("inspect_operation\",\"peer"), std::string::npos)
      << "on its own sink alone";
}

TEST(DaemonTest, DoesNothingAdministrativeThatItsAuditCannotTell) {
  const TempDirectory directory;
  const std::string config =
      WriteFile(directory.file("c.yaml"), "namespaces: [{name: payments, max_lease_duration: 1h}]");
  const std::vector<std::string> flags{"--engine=memory", "--audit_log=/dev/full",
                                       "--config=" + config};
  ServerProcess server(flags);
  Acquire(&server, "k");
  EXPECT_EQ(InspectOn(server, "k").error_code(), grpc::StatusCode::UNAVAILABLE);
  WriteFile(config, "namespaces: [{name: other}]");
  server.Signal(SIGHUP);
  AwaitLog(server, "the audit cannot be written, and so nothing was done");
  EXPECT_EQ(Acquire(&server, "b").outcome(), v1::RESERVE_OUTCOME_ACQUIRED)
      << "as configured before";
  EXPECT_EQ(server.Terminate(), 0);
  const std::string store = "--data_dir=" + directory.file("store");
  EXPECT_THAT(RunToEnd({store, "--audit_log=/dev/full", "--rewrap"}).err,
              HasSubstr("mend --audit_log=/dev/full"));
  EXPECT_EQ(RunToEnd({store, "--audit_log=/dev/full", "--trust_clock"}).exit_code, 1);
  EXPECT_FALSE(std::filesystem::exists(directory.file("store"))) << "not even opened";
  const Ended nowhere = RunToEnd({store, "--audit_log=" + directory.file("no/file")});
  EXPECT_EQ(nowhere.exit_code, 1);
  EXPECT_THAT(nowhere.err, HasSubstr("name a file that this process may append to, or stderr"));
}

// No file of the process may grow beyond this: the next write to the log of the store fails.
void LimitFileSize(rlim_t bytes) {
  const rlimit limit{bytes, RLIM_INFINITY};
  EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

TEST(DaemonTest, EndsWhenItsStoreFailsAndLosesNothing) {
  const TempDirectory directory;
  ServerProcess server({"--data_dir=" + directory.path() + "/store", "--ballast_mb=0"});
  EXPECT_EQ(server.Terminate(), 0);
  // Inherited by the child; ours to lift again.
  signal(SIGXFSZ, SIG_IGN);
  LimitFileSize(200'000);
  server.Start();
  LimitFileSize(RLIM_INFINITY);
  const auto stub = v1::IdempotencyService::NewStub(server.Channel());
  uint64_t acknowledged = 0;
  grpc::Status status;
  while (status.ok()) {
    grpc::ClientContext context;
    v1::ReserveResponse response;
    status = stub->Reserve(&context, Reserve("k" + std::to_string(acknowledged)), &response);
    if (status.ok()) ++acknowledged;
  }
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
  EXPECT_EQ(server.Wait(), 70) << server.Log();
  EXPECT_THAT(server.Log(), HasSubstr("\"engine_dead\""));
  EXPECT_GT(acknowledged, 0u);
  server.Start();
  const auto again = v1::IdempotencyService::NewStub(server.Channel());
  for (uint64_t i = 0; i < acknowledged; ++i) {
    const std::string key = "k" + std::to_string(i);
    ASSERT_EQ(Acquire(again.get(), key).outcome(), v1::RESERVE_OUTCOME_ALREADY_HELD) << key;
  }
  EXPECT_EQ(server.Terminate(), 0);
}

TEST(DaemonTest, ListensOnAUnixSocket) {
  const TempDirectory directory;
  const std::string socket = "unix:" + directory.path() + "/socket";
  // A process of our own: the fixture wants a port.
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    const std::string listen = "--listen=" + socket;
    const char* binary = std::getenv("IDEMPOTENCYD");
    execl(binary, binary, "--engine=memory", listen.c_str(), nullptr);
    _exit(127);
  }
  const auto stub = v1::IdempotencyService::NewStub(
      grpc::CreateChannel(socket, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  v1::ReserveResponse response;
  const grpc::Status status = stub->Reserve(&context, Reserve("k"), &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  kill(pid, SIGTERM);
  int exit_status = 0;
  waitpid(pid, &exit_status, 0);
  EXPECT_TRUE(WIFEXITED(exit_status) && WEXITSTATUS(exit_status) == 0);
}

TEST(DaemonTest, OutlivesTheReaderOfItsLog) {
  int err[2];
  ASSERT_EQ(pipe(err), 0);
  const TempDirectory directory;
  const std::string socket = "unix:" + directory.path() + "/socket";
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    dup2(err[1], STDERR_FILENO);
    close(err[0]);
    close(err[1]);
    const std::string listen = "--listen=" + socket;
    const char* binary = std::getenv("IDEMPOTENCYD");
    execl(binary, binary, "--engine=memory", "--log_level=debug", listen.c_str(), nullptr);
    _exit(127);
  }
  close(err[0]);
  close(err[1]);
  const auto stub = v1::IdempotencyService::NewStub(
      grpc::CreateChannel(socket, grpc::InsecureChannelCredentials()));
  for (int i = 0; i < 100; ++i) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    v1::ReserveResponse response;
    ASSERT_TRUE(stub->Reserve(&context, Reserve("k" + std::to_string(i)), &response).ok());
  }
  kill(pid, SIGTERM);
  int exit_status = 0;
  waitpid(pid, &exit_status, 0);
  EXPECT_TRUE(WIFEXITED(exit_status) && WEXITSTATUS(exit_status) == 0);
}

}  // namespace
}  // namespace idempotency::testing
