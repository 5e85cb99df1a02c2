// What belongs to the process: command line, addresses, log, worker.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "keystore/core/command.h"
#include "service/activity.h"
#include "service/flags.h"
#include "service/listen_address.h"
#include "service/log.h"
#include "service/metrics.h"
#include "service/refusal_lines.h"
#include "service/worker.h"

namespace idempotency::service {
namespace {

using testing::HasSubstr;

// --- Command line -----------------------------------------------------------------------------

TEST(FlagsTest, HaveDefaults) {
  const auto flags = ParseFlags({});
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(flags->listen, "127.0.0.1:7420");
  EXPECT_EQ(flags->engine, "rocksdb");
  EXPECT_EQ(flags->config, "");
  EXPECT_EQ(flags->log_ahead_mb, 0);
  EXPECT_FALSE(flags->trust_clock);
}

TEST(FlagsTest, AreReadInEveryForm) {
  const auto flags = ParseFlags({"--data_dir=/d", "--listen", "unix:/s", "-engine=memory",
                                 "--trust_clock", "--nocheck_config", "--ballast_mb=0"});
  ASSERT_TRUE(flags.ok()) << flags.status();
  EXPECT_EQ(flags->data_dir, "/d");
  EXPECT_EQ(flags->listen, "unix:/s");
  EXPECT_EQ(flags->engine, "memory");
  EXPECT_TRUE(flags->trust_clock);
  EXPECT_FALSE(flags->check_config);
  EXPECT_EQ(flags->ballast_mb, 0);
}

TEST(FlagsTest, AreRefusedWithTheReason) {
  struct Row {
    std::vector<std::string> arguments;
    const char* says;
  };
  const Row rows[] = {
      {{"--lisen=1"}, "no flag --lisen"},
      {{"serve"}, "\"serve\" is not a flag"},
      {{"--"}, "is not a flag"},
      {{"--listen"}, "--listen needs a value"},
      {{"--nolisten"}, "no flag --nolisten"},
      {{"--ballast_mb=many"}, "--ballast_mb=many"},
      {{"--ballast_mb=-1"}, "out of range"},
      {{"--log_ahead_mb=-1"}, "--log_ahead_mb=-1 is out of range"},
      {{"--accept_loss=-1"}, "--accept_loss=-1"},
      {{"--engine=memory", "--response_keys=/keys"}, "--response_keys"},
      {{"--engine=memory", "--rewrap"}, "--rewrap"},
      {{"--block_cache_mb=0"}, "out of range"},
      {{"--memtable_mb=1048577"}, "out of range"},
      {{"--max_connections=0"}, "--max_connections=0 is out of range"},
      {{"--max_connections_per_peer=0"}, "out of range"},
      {{"--max_cancelled_calls=0"}, "out of range"},
      {{"--max_streams_per_connection=1000000001"}, "out of range"},
      {{"--max_metadata_kb=1025"}, "use 1 to 1024"},
      {{"--handshake_timeout_s=0"}, "out of range"},
      {{"--max_connection_age_s=2000001"}, "out of range"},
      {{"--keepalive_s=0"}, "out of range"},
      {{"--min_ping_interval_s=0"}, "out of range"},
      {{"--trust_clock=perhaps"}, "--trust_clock=perhaps"},
      {{"--engine=floppy"}, "--engine=floppy"},
      {{"--transfer=away"}, "--transfer=away is neither export nor import"},
      {{"--progress=often"}, "--progress=often is none of auto, always and never"},
      {{"--engine=etcd"}, "--etcd_endpoints"},
      {{"--engine=etcd", "--etcd_endpoints=127.0.0.1"}, "HOST:PORT"},
      {{"--engine=etcd", "--etcd_endpoints=127.0.0.1:1,etcd-1:2379"}, "--etcd_ca"},
      {{"--engine=etcd", "--etcd_endpoints=[::1]:1", "--etcd_user=u"}, "--etcd_password_file"},
      {{"--engine=etcd", "--etcd_endpoints=localhost:1", "--etcd_max_request_kb=255"}, "256"},
      {{"--engine=etcd", "--etcd_endpoints=localhost:1", "--rewrap"}, "--rewrap"},
      {{"--engine=etcd", "--etcd_endpoints=localhost:1", "--backup_dir=/b"}, "--backup_dir"},
      {{"--clock_skew_ms=60001"}, "out of range"},
      {{"--data_dir="}, "--data_dir"},
      {{"--log_level=loud"}, "--log_level=loud"},
      {{"--check_config"}, "--config=FILE"},
  };
  for (const Row& row : rows) {
    const auto flags = ParseFlags(row.arguments);
    ASSERT_FALSE(flags.ok()) << row.arguments.front();
    EXPECT_TRUE(absl::IsInvalidArgument(flags.status()));
    EXPECT_THAT(std::string(flags.status().message()), HasSubstr(row.says));
    EXPECT_THAT(std::string(flags.status().message()), HasSubstr("--help"));
  }
}

TEST(FlagsTest, AreAllInTheHelp) {
  const std::string help = HelpText();
  for (const char* name : {"data_dir",
                           "listen",
                           "config",
                           "check_config",
                           "engine",
                           "log_level",
                           "version",
                           "trust_clock",
                           "accept_loss",
                           "block_cache_mb",
                           "memtable_mb",
                           "ballast_mb",
                           "log_ahead_mb",
                           "port_file",
                           "help",
                           "max_connections",
                           "max_connections_per_peer",
                           "max_cancelled_calls",
                           "max_streams_per_connection",
                           "max_metadata_kb",
                           "handshake_timeout_s",
                           "max_connection_idle_s",
                           "max_connection_age_s",
                           "keepalive_s",
                           "min_ping_interval_s"}) {
    EXPECT_THAT(help, HasSubstr(std::string("--") + name));
  }
  EXPECT_THAT(help, HasSubstr("Exit codes"));
  EXPECT_THAT(help, HasSubstr("SIGHUP"));
}

TEST(ListenAddressTest, StaysOnTheMachine) {
  for (const char* address : {"127.0.0.1:7420", "127.1.2.3:0", "[::1]:7420", "localhost:7420",
                              "unix:/run/idempotencyd.sock", "unix:relative"}) {
    const auto checked = CheckListenAddress(address);
    ASSERT_TRUE(checked.ok()) << address << ": " << checked.status();
    EXPECT_EQ(*checked, address);
  }
  for (const char* address : {"0.0.0.0:7420", "[::]:7420", "10.0.0.1:7420", "example.com:7420",
                              ":7420", "128.0.0.1:1", "[::ffff:10.0.0.1]:1", "localhost.evil:1"}) {
    const auto checked = CheckListenAddress(address);
    ASSERT_FALSE(checked.ok()) << address;
    EXPECT_THAT(std::string(checked.status().message()), HasSubstr("TLS")) << address;
  }
  for (const char* address : {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:65536",
                              "::1:7420", "unix:", "127.0.0.1:-1"}) {
    const auto checked = CheckListenAddress(address);
    ASSERT_FALSE(checked.ok()) << address;
    EXPECT_THAT(std::string(checked.status().message()), HasSubstr("not an address")) << address;
  }
}

TEST(ListenAddressTest, LeavesTheMachineWhereConnectionsAreProtected) {
  const std::string anywhere = "0.0.0.0:7420";
  EXPECT_TRUE(CheckListenAddress(anywhere, {.tls = true, .identity = true}).ok());
  EXPECT_TRUE(CheckListenAddress(anywhere, {.tls = true, .allow_anonymous = true}).ok());
  EXPECT_TRUE(CheckListenAddress(anywhere, {.allow_plaintext = true}).ok());
  EXPECT_EQ(
      CheckListenAddress(anywhere, {.identity = true, .allow_anonymous = true}).status().message(),
      "--listen=0.0.0.0:7420 can be reached from other machines, and nothing would be "
      "encrypted: set up TLS by tls.certificate_file and tls.private_key_file in the file of "
      "--config, or listen on 127.0.0.1, [::1] or unix:/path. For development, "
      "--allow_plaintext goes without.");
  EXPECT_EQ(CheckListenAddress(anywhere, {.tls = true}).status().message(),
            "--listen=0.0.0.0:7420 can be reached from other machines, and whoever can connect "
            "could do everything: set tls.client_ca_file, identity.tokens_file or "
            "identity.jwt_issuers in the file of --config, or listen on 127.0.0.1, [::1] or "
            "unix:/path. Where the network alone decides who may, --allow_anonymous goes without.");
  EXPECT_FALSE(CheckListenAddress("nonsense", {.tls = true, .identity = true}).ok());
  EXPECT_TRUE(IsLocalAddress("unix:/x"));
  EXPECT_TRUE(IsLocalAddress("[::1]:1"));
  EXPECT_FALSE(IsLocalAddress("0.0.0.0:1"));
}

// --- Log ---------------------------------------------------------------------------------------

// Both ends of a pipe.
struct Pipe {
  Pipe() { EXPECT_EQ(pipe(ends), 0); }
  ~Pipe() {
    CloseReader();
    close(ends[1]);
  }
  void CloseReader() {
    if (ends[0] >= 0) close(ends[0]);
    ends[0] = -1;
  }
  // What has been written so far, without waiting for more.
  std::string Read() {
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    std::string text(1 << 20, '\0');
    const ssize_t size = read(ends[0], text.data(), text.size());
    text.resize(size < 0 ? 0 : static_cast<size_t>(size));
    return text;
  }
  int ends[2] = {-1, -1};
};

google::protobuf::Struct ParseJson(const std::string& line) {
  google::protobuf::Struct object;
  const auto status = google::protobuf::util::JsonStringToMessage(line, &object);
  EXPECT_TRUE(status.ok()) << line << ": " << status;
  return object;
}

std::vector<google::protobuf::Struct> ParseLines(const std::string& text) {
  std::vector<google::protobuf::Struct> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    if (end == std::string::npos) {
      ADD_FAILURE() << "a line without an end: " << text.substr(at);
      break;
    }
    lines.push_back(ParseJson(text.substr(at, end - at)));
    at = end + 1;
  }
  return lines;
}

TEST(LogTest, IsOneJsonObjectALine) {
  Pipe pipe;
  {
    Log log({LogLevel::kInfo, pipe.ends[1]});
    log.Write(LogLevel::kInfo, "started", {{"port", 7420}, {"trusted", true}, {"empty", ""}});
    log.Write(
        LogLevel::kError, "odd \"event\"\n",
        {{"text", "quote \" backslash \\ newline \n tab \t nul \x01 bad \xff utf8 \xc3\xa4"}});
    log.Write(LogLevel::kDebug, "unseen");
    EXPECT_FALSE(log.Enabled(LogLevel::kDebug));
  }
  const auto lines = ParseLines(pipe.Read());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].fields().at("event").string_value(), "started");
  EXPECT_EQ(lines[0].fields().at("level").string_value(), "info");
  EXPECT_EQ(lines[0].fields().at("port").number_value(), 7420);
  EXPECT_TRUE(lines[0].fields().at("trusted").bool_value());
  EXPECT_FALSE(lines[0].fields().contains("empty"));
  EXPECT_THAT(lines[0].fields().at("time").string_value(),
              testing::MatchesRegex("....-..-..T..:..:..\\....Z"));
  EXPECT_EQ(lines[1].fields().at("event").string_value(), "odd \"event\"\n");
  EXPECT_EQ(lines[1].fields().at("text").string_value(),
            "quote \" backslash \\ newline \n tab \t nul \x01 bad \xef\xbf\xbd utf8 \xc3\xa4");
}

TEST(LogTest, NeverBlocksOnASinkThatIsFull) {
  Pipe pipe;
  // Nobody reads: the pipe takes some lines, and then no more.
  fcntl(pipe.ends[1], F_SETPIPE_SZ, 4096);
  Log log({LogLevel::kInfo, pipe.ends[1], 16});
  const std::string text(1000, 'x');
  for (int i = 0; i < 1000; ++i) log.Write(LogLevel::kInfo, "line", {{"text", text}});
  EXPECT_GT(log.dropped(), 900u);
}

TEST(LogTest, SurvivesASinkThatIsClosed) {
  signal(SIGPIPE, SIG_IGN);
  Pipe pipe;
  pipe.CloseReader();
  Log log({LogLevel::kInfo, pipe.ends[1]});
  for (int i = 0; i < 100; ++i) log.Write(LogLevel::kInfo, "line");
}

TEST(LogTest, KnowsItsLevels) {
  EXPECT_EQ(ParseLogLevel("debug"), LogLevel::kDebug);
  EXPECT_EQ(ParseLogLevel("warning"), LogLevel::kWarning);
  EXPECT_EQ(ParseLogLevel("INFO"), std::nullopt);
}

TEST(LogTest, RepeatsNoMetadataOfGrpcsLines) {
  EXPECT_EQ(WithoutMetadataValue("Error parsing metadata: error=invalid value key=te value=secret"),
            "Error parsing metadata: error=invalid value key=te");
  EXPECT_EQ(WithoutMetadataValue("Failed to bind"), "Failed to bind");
}

TEST(LogTest, FindsTheTraceId) {
  const std::string good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  EXPECT_EQ(TraceIdOf(good), "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(TraceIdOf(""), "");
  EXPECT_EQ(TraceIdOf("00-0af7651916cd43dd8448eb211c80319c"), "");
  std::string not_hex = good;
  not_hex[5] = '"';
  EXPECT_EQ(TraceIdOf(not_hex), "");
}

// --- Activity ----------------------------------------------------------------------------------

keystore::Request RequestOf(core::Command command) {
  return keystore::Request{core::Key{"payments", "acct", "secret-key"}, std::move(command), nullptr,
                           core::Duration::zero()};
}

core::RecordPtr RecordOf(core::State state) {
  core::Record record;
  record.state = state;
  record.owner = {"pod-1", "run-1", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"};
  record.progress = "secret-progress";
  record.response.bytes = core::Blob("secret-body");
  record.attempt = 1;
  return std::make_shared<const core::Record>(std::move(record));
}

TEST(ActivityTest, TellsAtInfoWhatOthersMustKnow) {
  Pipe pipe;
  CountingMetrics metrics;
  int deaths = 0;
  {
    Log log({LogLevel::kInfo, pipe.ends[1]});
    Activity activity(&log, &metrics, [&] { ++deaths; });
    // One line a command is for debugging.
    activity.OnAnswer(RequestOf(core::ReserveCommand{}),
                      core::ReserveAnswer{.operation = RecordOf(core::State::kPending)});
    activity.OnAnswer(RequestOf(core::ReserveCommand{}),
                      core::ReserveAnswer{.outcome = core::ReserveOutcome::kFingerprintMismatch,
                                          .operation = RecordOf(core::State::kComplete)});
    activity.OnAnswer(
        RequestOf(core::CompleteCommand{.provider_request_id = "req_1"}),
        core::Refusal{.reason = core::Reason::kStaleFencingToken, .late_completion = true});
    activity.OnAnswer(RequestOf(core::MarkUnresolvedCommand{}),
                      core::MarkUnresolvedAnswer{.operation = RecordOf(core::State::kUnresolved)});
    activity.OnLapse(core::Key{"payments", "acct", "secret-key"},
                     *RecordOf(core::State::kUnresolved));
    activity.OnAnswer(RequestOf(core::DeleteCommand{.actor = "alice", .reason = "gone"}),
                      core::DeleteAnswer{});
    activity.OnRefused(Verb::kReserve, Failure{core::Reason::kInvalidField, "id.key", {}, {}},
                       "not a namespace");
    activity.OnEngineDead();
    activity.OnEngineDead();
  }
  const std::string text = pipe.Read();
  EXPECT_THAT(text, testing::Not(HasSubstr("secret")));
  EXPECT_THAT(text, testing::Not(HasSubstr("not a namespace")));
  std::vector<std::string> events;
  const auto lines = ParseLines(text);
  for (const auto& line : lines) events.push_back(line.fields().at("event").string_value());
  EXPECT_THAT(events, testing::ElementsAre("fingerprint_mismatch", "late_completion", "unresolved",
                                           "lease_lapsed", "deleted", "refused", "engine_dead"));
  EXPECT_EQ(lines[1].fields().at("provider_request_id").string_value(), "req_1");
  EXPECT_EQ(lines[3].fields().at("operation_ref").string_value(), "run-1");
  EXPECT_EQ(lines[3].fields().at("trace_id").string_value(), "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(lines[4].fields().at("actor").string_value(), "alice");
  EXPECT_EQ(deaths, 1);

  const CountingMetrics::Snapshot counted = metrics.Read();
  EXPECT_EQ(counted.reserved[static_cast<size_t>(core::ReserveOutcome::kAcquired)], 1u);
  EXPECT_EQ(counted.answered[static_cast<size_t>(Verb::kReserve)], 2u);
  EXPECT_EQ(counted.refused[static_cast<size_t>(core::Reason::kStaleFencingToken)], 1u);
  EXPECT_EQ(counted.refused[static_cast<size_t>(core::Reason::kInvalidField)], 1u);
  EXPECT_EQ(counted.late_completions, 1u);
  EXPECT_EQ(counted.lapsed, 1u);
}

TEST(ActivityTest, AFloodOfRefusalsForLoadIsAFewLinesAndAllAreCounted) {
  constexpr uint64_t kRefusals = 10'000;
  Pipe pipe;
  CountingMetrics metrics;
  {
    Log log({LogLevel::kInfo, pipe.ends[1]});
    Activity activity(&log, &metrics, nullptr);
    for (uint64_t i = 0; i < kRefusals; ++i) {
      activity.OnAnswer(RequestOf(core::ReserveCommand{}),
                        core::Refusal{.reason = core::Reason::kOverloaded});
    }
    // What a caller does wrong is told each time.
    for (int i = 0; i < 20; ++i) {
      activity.OnAnswer(RequestOf(core::RenewCommand{}),
                        core::Refusal{.reason = core::Reason::kStaleFencingToken});
    }
  }
  uint64_t told = 0;
  uint64_t untold = 0;
  uint64_t stale = 0;
  for (const auto& line : ParseLines(pipe.Read())) {
    const auto& fields = line.fields();
    if (fields.at("event").string_value() == "more_refused") {
      untold += static_cast<uint64_t>(fields.at("count").number_value());
    } else if (fields.at("result").string_value() == "OVERLOADED") {
      ++told;
    } else {
      ++stale;
    }
  }
  EXPECT_GE(told, RefusalLines::kMostPerSecond);
  EXPECT_LT(told, kRefusals / 10);
  EXPECT_EQ(told + untold, kRefusals);
  EXPECT_EQ(stale, 20u);
  EXPECT_EQ(metrics.Read().refused[static_cast<size_t>(core::Reason::kOverloaded)], kRefusals);
}

TEST(RefusalLinesTest, TellsSoManyASecondAndCountsTheOthers) {
  using std::chrono::milliseconds;
  RefusalLines lines;
  for (uint64_t i = 0; i < RefusalLines::kMostPerSecond; ++i) {
    EXPECT_EQ(lines.Admit(core::Reason::kOverloaded, milliseconds(5'000)), 0u);
  }
  EXPECT_EQ(lines.Admit(core::Reason::kOverloaded, milliseconds(5'999)), std::nullopt);
  // Each reason for itself.
  EXPECT_EQ(lines.Admit(core::Reason::kStoreFull, milliseconds(5'999)), 0u);
  EXPECT_EQ(lines.Admit(core::Reason::kOverloaded, milliseconds(5'999)), std::nullopt);
  EXPECT_EQ(lines.Admit(core::Reason::kOverloaded, milliseconds(6'000)), 2u);
  EXPECT_EQ(lines.TakeUntold(core::Reason::kOverloaded), 0u);
}

TEST(ActivityTest, TellsEveryCommandAtDebug) {
  Pipe pipe;
  CountingMetrics metrics;
  {
    Log log({LogLevel::kDebug, pipe.ends[1]});
    Activity activity(&log, &metrics, nullptr);
    activity.OnAnswer(RequestOf(core::ReserveCommand{}),
                      core::ReserveAnswer{.operation = RecordOf(core::State::kPending)});
  }
  const auto lines = ParseLines(pipe.Read());
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].fields().at("verb").string_value(), "reserve");
  EXPECT_EQ(lines[0].fields().at("result").string_value(), "ACQUIRED");
  EXPECT_EQ(lines[0].fields().at("operation_ref").string_value(), "run-1");
}

// --- Worker ------------------------------------------------------------------------------------

TEST(WorkerTest, RunsInOrderAndWithinItsBound) {
  std::vector<int> ran;
  {
    Worker worker(2);
    absl::Notification started;
    absl::Notification go_on;
    ASSERT_TRUE(worker.Run([&] {
      started.Notify();
      go_on.WaitForNotification();
    }));
    started.WaitForNotification();
    EXPECT_TRUE(worker.Run([&] { ran.push_back(1); }));
    EXPECT_TRUE(worker.Run([&] { ran.push_back(2); }));
    EXPECT_FALSE(worker.Run([&] { ran.push_back(3); }));
    go_on.Notify();
  }
  EXPECT_THAT(ran, testing::ElementsAre(1, 2));
}

}  // namespace
}  // namespace idempotency::service
