// The release binary, scraped through the whole life cycle: each number moves as it should, the
// text is what Prometheus expects, and deploy/README.md lists exactly what there is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "idempotency/v1/admin_service.grpc.pb.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/service/server/commands.h"
#include "tests/support/http.h"
#include "tests/support/server_process.h"
#include "tests/support/temp_directory.h"

namespace idempotency::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kTraceparent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
constexpr char kTraceId[] = "0af7651916cd43dd8448eb211c80319c";
constexpr char kOtherTrace[] = "00-11111111111111111111111111111111-2222222222222222-00";

constexpr char kConfig[] = R"(
unlisted_namespaces: ALLOW
namespaces:
  - name: payments
    settle_duration: 0s
)";

// Every sample by name and labels, as written; histograms by their parts.
using Samples = std::map<std::string, double>;

Samples ParseSamples(const std::string& text) {
  Samples samples;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t space = line.rfind(' ');
    EXPECT_TRUE(samples.emplace(line.substr(0, space), std::stod(line.substr(space + 1))).second)
        << line;
  }
  return samples;
}

std::string Requests(const std::string& method, const std::string& outcome,
                     const std::string& name_space = "payments") {
  return "idempotency_requests_total{method=\"" + method + "\",outcome=\"" + outcome +
         "\",idempotency_namespace=\"" + name_space + "\"}";
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// A command's exit code, and what it said.
std::pair<int, std::string> Shell(const std::string& command) {
  FILE* const running = popen((command + " 2>&1").c_str(), "r");
  std::string said;
  std::array<char, 4096> bytes{};
  for (size_t got = 0; (got = fread(bytes.data(), 1, bytes.size(), running)) > 0;) {
    said.append(bytes.data(), got);
  }
  return {WEXITSTATUS(pclose(running)), said};
}

class MetricsTest : public ::testing::Test {
 protected:
  MetricsTest() {
    std::ofstream(config_path()) << kConfig;
    server_ = std::make_unique<ServerProcess>(std::vector<std::string>{
        "--data_dir=" + files_.path() + "/store", "--config=" + config_path(),
        "--metrics_listen=127.0.0.1:0", "--ballast_mb=1"});
    const std::string log = server_->Log();
    std::smatch port;
    const std::regex pattern("\"event\":\"metrics_listening\".*\"port\":(\\d+)");
    EXPECT_TRUE(std::regex_search(log, port, pattern)) << log;
    metrics_port_ = std::stoi(port[1]);
    channel_ = server_->Channel();
    api_ = v1::IdempotencyService::NewStub(channel_);
    admin_ = v1::IdempotencyAdminService::NewStub(channel_);
  }

  std::string config_path() const { return files_.path() + "/config.yaml"; }
  std::string Text() const { return HttpGet(metrics_port_, "/metrics").body; }
  Samples Scrape() const { return ParseSamples(Text()); }

  // By how much a sample has risen since the last call for it, or since the start.
  double Rise(const std::string& sample) {
    const Samples now = Scrape();
    const auto found = now.find(sample);
    const double value = found == now.end() ? 0 : found->second;
    return value - std::exchange(seen_[sample], value);
  }

  // Waits for what the server does on its own.
  void Await(const std::function<bool(const Samples&)>& holds, const char* what) const {
    constexpr int kMaxScrapes = 20'000;
    for (int scrapes = 0; !holds(Scrape()); ++scrapes) {
      ASSERT_LT(scrapes, kMaxScrapes) << what << "\n" << Text();
      std::this_thread::yield();
    }
  }

  template <typename Stub, typename Request, typename Response>
  grpc::Status Send(Stub* stub,
                    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response,
                    const std::string& traceparent = {}) {
    grpc::ClientContext context;
    if (!traceparent.empty()) context.AddMetadata("traceparent", traceparent);
    return (stub->*method)(&context, request, response);
  }

  uint64_t Acquire(const v1::ReserveRequest& request, const std::string& traceparent = {}) {
    v1::ReserveResponse response;
    const grpc::Status status =
        Send(api_.get(), &v1::IdempotencyService::Stub::Reserve, request, &response, traceparent);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.outcome(), v1::RESERVE_OUTCOME_ACQUIRED) << response.DebugString();
    return response.lease().fencing_token();
  }
  v1::ReserveResponse SendReserve(const v1::ReserveRequest& request) {
    v1::ReserveResponse response;
    const grpc::Status status =
        Send(api_.get(), &v1::IdempotencyService::Stub::Reserve, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  grpc::Status SendComplete(const v1::CompleteRequest& request) {
    v1::CompleteResponse response;
    return Send(api_.get(), &v1::IdempotencyService::Stub::Complete, request, &response);
  }

  TempDirectory files_;
  std::unique_ptr<ServerProcess> server_;
  int metrics_port_ = 0;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::IdempotencyService::Stub> api_;
  std::unique_ptr<v1::IdempotencyAdminService::Stub> admin_;
  std::map<std::string, double> seen_;
};

// --- The text ---------------------------------------------------------------------------------

TEST_F(MetricsTest, PromtoolFindsNothingToComplainOf) {
  Acquire(Reserve("k"));
  const std::string path = files_.path() + "/scrape";
  std::ofstream(path) << Text();
  const auto [exit_code, said] = Shell("promtool check metrics < " + path);
  EXPECT_EQ(exit_code, 0) << said
                          << "\n(where it is not found: deploy/install_deps.sh test installs it)";
  EXPECT_EQ(said, "");
}

TEST_F(MetricsTest, TheListInTheReadmeIsWhatThereIs) {
  std::set<std::string> scraped;
  std::istringstream lines(Text());
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("# TYPE ", 0) == 0) scraped.insert(line.substr(7, line.find(' ', 7) - 7));
  }
  const char* const source = std::getenv("IDEMPOTENCY_SOURCE_DIR");
  ASSERT_NE(source, nullptr);
  const std::string readme = ReadFile(std::string(source).append("/").append("deploy/README.md"));
  std::set<std::string> listed;
  const std::regex row("\n\\| `(idempotency_[a-z0-9_]+)`.*\\| (.*)\\|(?=\n)");
  for (std::sregex_iterator match(readme.begin(), readme.end(), row), end; match != end; ++match) {
    EXPECT_TRUE(listed.insert((*match)[1]).second) << (*match)[1] << " is listed twice";
    EXPECT_FALSE((*match)[2].str().empty()) << (*match)[1] << ": say what to do about it";
  }
  EXPECT_EQ(scraped, listed) << "deploy/README.md must list every metric, and no other";
}

TEST_F(MetricsTest, NothingThatACallerChoosesIsALabel) {
  v1::ReserveRequest request = Reserve("secret-key");
  request.mutable_id()->set_scope("secret-scope");
  request.mutable_owner()->set_operation_ref("secret-ref");
  Acquire(request);
  request.mutable_id()->set_namespace_("not-in-the-configuration");
  const uint64_t token = Acquire(request);
  v1::MarkUnresolvedRequest mark = Mark("secret-key", token);
  *mark.mutable_id() = request.id();
  v1::MarkUnresolvedResponse marked;
  ASSERT_TRUE(Send(api_.get(), &v1::IdempotencyService::Stub::MarkUnresolved, mark, &marked).ok());
  const std::string text = Text();
  EXPECT_THAT(text, Not(HasSubstr("secret")));
  EXPECT_THAT(text, Not(HasSubstr("not-in-the-configuration")));
  const Samples samples = ParseSamples(text);
  EXPECT_EQ(samples.at(Requests("reserve", "acquired", "_other")), 1);
  EXPECT_EQ(samples.at("idempotency_unresolved_operations{idempotency_namespace=\"_other\"}"), 1);
}

TEST_F(MetricsTest, AliveAndReadyAreNotTheSame) {
  EXPECT_EQ(HttpGet(metrics_port_, "/healthz").status, 200);
  EXPECT_EQ(HttpGet(metrics_port_, "/readyz").status, 200);
  EXPECT_EQ(Scrape().at("idempotency_ready"), 1);
  EXPECT_EQ(server_->Terminate(), 0);
  EXPECT_EQ(HttpGet(metrics_port_, "/healthz").status, 0) << "the process is gone";
}

TEST_F(MetricsTest, AnAddressThatIsNoneOrTakenEndsTheStartAsForListen) {
  const std::string run = std::string(std::getenv("IDEMPOTENCYD")) +
                          " --engine=memory --listen=127.0.0.1:0 --metrics_listen=";
  const auto [nonsense, words] = Shell(run + "9464");
  EXPECT_EQ(nonsense, 2);
  EXPECT_THAT(words, HasSubstr("--metrics_listen=9464 is not an address with a port; use such as"));
  const auto [taken, log] = Shell(run + "127.0.0.1:" + std::to_string(metrics_port_));
  EXPECT_EQ(taken, 1);
  EXPECT_THAT(log, HasSubstr("choose another --metrics_listen"));
}

// --- The life cycle ---------------------------------------------------------------------------

TEST_F(MetricsTest, CountsWhatBecomesOfAKey) {
  const uint64_t token = Acquire(Reserve("k"));
  EXPECT_EQ(Rise(Requests("reserve", "acquired")), 1);
  EXPECT_EQ(Rise("idempotency_pending_operations"), 1);
  EXPECT_EQ(Rise("idempotency_committed_records_total"), 1);
  EXPECT_EQ(Rise("idempotency_commit_duration_seconds_count"), 1);
  EXPECT_EQ(Rise("idempotency_commit_commands_count"), 1);

  SendReserve(Reserve("k"));
  EXPECT_EQ(Rise(Requests("reserve", "already_held")), 1);
  SendReserve(Reserve("k", "2"));
  EXPECT_EQ(Rise(Requests("reserve", "in_progress")), 1);
  v1::ReserveRequest other = Reserve("k", "3");
  *other.mutable_fingerprint() = Print('x');
  SendReserve(other);
  EXPECT_EQ(Rise(Requests("reserve", "fingerprint_mismatch")), 1);
  EXPECT_EQ(Rise("idempotency_committed_records_total"), 0) << "nothing was written";

  EXPECT_FALSE(SendComplete(Complete("k", token + 1)).ok());
  EXPECT_EQ(Rise(Requests("complete", "unknown_fencing_token")), 1);
  EXPECT_TRUE(SendComplete(Complete("k", token)).ok());
  EXPECT_EQ(Rise(Requests("complete", "ok")), 1);
  EXPECT_EQ(Rise("idempotency_pending_operations"), -1);
  const double stored = Rise("idempotency_response_stored_bytes_total");
  EXPECT_GT(stored, 4) << "a body of four bytes, and what is around it";
  EXPECT_TRUE(SendComplete(Complete("k", token)).ok());
  EXPECT_EQ(Rise("idempotency_response_stored_bytes_total"), 0) << "a repeat";

  SendReserve(Reserve("k", "4"));
  EXPECT_EQ(Rise(Requests("reserve", "completed")), 1);
  EXPECT_EQ(Rise("idempotency_response_replayed_bytes_total"), stored);
  EXPECT_EQ(Rise("idempotency_request_duration_seconds_count{method=\"reserve\"}"), 5);
  EXPECT_EQ(Rise("idempotency_request_duration_seconds_count{method=\"complete\"}"), 3);
}

TEST_F(MetricsTest, TellsOfUnknownOutcomesAndOfThoseWhoComeTooLate) {
  const std::string count = "idempotency_unresolved_operations{idempotency_namespace=\"payments\"}";
  const std::string age =
      "idempotency_unresolved_oldest_age_seconds{idempotency_namespace=\"payments\"}";
  EXPECT_EQ(Scrape().at(count), 0);
  EXPECT_EQ(Scrape().at(age), 0);
  // One lapses, and its owner reports after somebody has settled it.
  v1::ReserveRequest request = Reserve("lapses");
  request.mutable_lease_duration()->set_seconds(1);
  const uint64_t token = Acquire(request);
  Await([&](const Samples& now) { return now.at(count) == 1 && now.at(age) > 0; },
        "an unresolved operation grows old");
  EXPECT_EQ(Rise("idempotency_lapses_total{became=\"unresolved\"}"), 1);
  EXPECT_EQ(Scrape().at("idempotency_pending_operations"), 0);

  v1::ResolveOperationResponse resolved;
  ASSERT_TRUE(Send(admin_.get(), &v1::IdempotencyAdminService::Stub::ResolveOperation,
                   Resolve("lapses"), &resolved)
                  .ok());
  EXPECT_EQ(Scrape().at(count), 0);
  EXPECT_EQ(Scrape().at(age), 0);
  EXPECT_EQ(Rise(Requests("resolve_operation", "ok")), 1);
  EXPECT_FALSE(SendComplete(Complete("lapses", token)).ok());
  EXPECT_EQ(Rise(Requests("complete", "stale_fencing_token")), 1);
  EXPECT_EQ(Rise("idempotency_late_completions_total"), 1);
}

TEST_F(MetricsTest, KnowsAfterARestartWhatIsUnresolved) {
  v1::MarkUnresolvedResponse marked;
  for (const char* key : {"a", "b"}) {
    const v1::MarkUnresolvedRequest mark = Mark(key, Acquire(Reserve(key)));
    ASSERT_TRUE(
        Send(api_.get(), &v1::IdempotencyService::Stub::MarkUnresolved, mark, &marked).ok());
  }
  Acquire(Reserve("pending"));
  server_->Kill();
  server_->Start();
  const std::string log = server_->Log();
  const size_t last = log.rfind("metrics_listening");
  ASSERT_NE(last, std::string::npos);
  metrics_port_ = std::stoi(log.substr(log.find("\"port\":", last) + 7));
  const Samples now = Scrape();
  EXPECT_EQ(now.at("idempotency_unresolved_operations{idempotency_namespace=\"payments\"}"), 2);
  EXPECT_EQ(now.at("idempotency_pending_operations"), 1);
  EXPECT_EQ(now.at(Requests("reserve", "acquired")), 0) << "a new process counts from zero";
}

TEST_F(MetricsTest, TellsWaitersApartFromWork) {
  const uint64_t token = Acquire(Reserve("k"));
  v1::ReserveResponse waited;
  std::thread waiter([&] {
    grpc::ClientContext context;
    v1::ReserveRequest request = Reserve("k", "2");
    request.mutable_wait_duration()->set_seconds(50);
    EXPECT_TRUE(api_->Reserve(&context, request, &waited).ok());
  });
  Await([](const Samples& now) { return now.at("idempotency_waiters") == 1; }, "somebody waits");
  EXPECT_TRUE(SendComplete(Complete("k", token)).ok());
  waiter.join();
  EXPECT_EQ(waited.outcome(), v1::RESERVE_OUTCOME_COMPLETED);
  const Samples now = Scrape();
  EXPECT_EQ(now.at("idempotency_waiters"), 0);
  EXPECT_EQ(now.at("idempotency_wait_duration_seconds_count"), 1);
  EXPECT_EQ(now.at("idempotency_request_duration_seconds_count{method=\"reserve\"}"), 1);
}

TEST_F(MetricsTest, CountsTheCommandsOfABatchByTheirMethods) {
  v1::BatchRequest batch;
  for (const char* key : {"a", "b", "c"}) *batch.add_commands()->mutable_reserve() = Reserve(key);
  batch.add_commands();
  v1::BatchResponse response;
  ASSERT_TRUE(Send(api_.get(), &v1::IdempotencyService::Stub::Batch, batch, &response).ok());
  const Samples now = Scrape();
  EXPECT_EQ(now.at(Requests("reserve", "acquired")), 3);
  EXPECT_EQ(now.at(Requests("batch", "ok", "_other")), 1);
  EXPECT_EQ(now.at(Requests("batch", "invalid_field", "_other")), 1) << "the empty command";
  EXPECT_EQ(now.at("idempotency_request_duration_seconds_count{method=\"batch\"}"), 1);
  EXPECT_EQ(now.at("idempotency_commit_commands_sum"), 3);
}

TEST_F(MetricsTest, CountsWhatIsRefusedAtTheEdge) {
  v1::ReserveRequest request = Reserve("k");
  request.clear_attempt_id();
  v1::ReserveResponse response;
  EXPECT_FALSE(Send(api_.get(), &v1::IdempotencyService::Stub::Reserve, request, &response).ok());
  EXPECT_EQ(Rise(Requests("reserve", "invalid_field")), 1);
  v1::ListOperationsRequest list;
  list.set_namespace_("payments");
  v1::ListOperationsResponse listed;
  EXPECT_TRUE(
      Send(admin_.get(), &v1::IdempotencyAdminService::Stub::ListOperations, list, &listed).ok());
  EXPECT_EQ(Rise(Requests("list_operations", "ok")), 1);
}

TEST_F(MetricsTest, TellsOfTheProcessTheDiskAndTheClock) {
  for (int i = 0; i < 20; ++i) Acquire(Reserve("k" + std::to_string(i)));
  const Samples now = Scrape();
  for (const char* positive :
       {"idempotency_disk_free_bytes", "idempotency_disk_size_bytes",
        "idempotency_process_resident_memory_bytes", "idempotency_process_virtual_memory_bytes",
        "idempotency_process_open_fds", "idempotency_process_max_fds",
        "idempotency_process_threads", "idempotency_process_cpu_seconds_total",
        "idempotency_process_start_time_seconds", "idempotency_store_memtable_bytes",
        "idempotency_store_wal_written_bytes_total", "idempotency_store_keys",
        "idempotency_config_last_reload_success_timestamp_seconds",
        "idempotency_queued_commands_limit", "idempotency_waiters_limit"}) {
    EXPECT_GT(now.at(positive), 0) << positive;
  }
  for (const char* one :
       {"idempotency_store_alive", "idempotency_ready", "idempotency_store_ballast_held",
        "idempotency_config_last_reload_successful"}) {
    EXPECT_EQ(now.at(one), 1) << one;
  }
  for (const char* zero :
       {"idempotency_store_stalled", "idempotency_store_full", "idempotency_clock_in_doubt",
        "idempotency_queued_commands", "idempotency_log_lines_dropped_total",
        "idempotency_store_background_errors_total", "idempotency_unreadable_reads_total"}) {
    EXPECT_EQ(now.at(zero), 0) << zero;
  }
  EXPECT_LT(std::abs(now.at("idempotency_clock_offset_seconds")), 5);
  EXPECT_LE(now.at("idempotency_disk_free_bytes"), now.at("idempotency_disk_size_bytes"));
}

TEST_F(MetricsTest, AReloadIsSeenAndSoAreItsNamespaces) {
  const std::string added = Requests("reserve", "acquired", "added");
  EXPECT_EQ(Scrape().count(added), 0u);
  std::ofstream(config_path()) << kConfig << "  - name: added\n";
  server_->Signal(SIGHUP);
  Await([&](const Samples& now) { return now.count(added) == 1; }, "the namespace is there");
  std::ofstream(config_path()) << "namespaces: nonsense\n";
  server_->Signal(SIGHUP);
  Await([](const Samples& now) { return now.at("idempotency_config_last_reload_successful") == 0; },
        "the bad configuration is told");
}

// --- Trace context ----------------------------------------------------------------------------

TEST_F(MetricsTest, DuplicatesAreGivenTheTraceOfTheCallThatAcquired) {
  const uint64_t token = Acquire(Reserve("k"), kTraceparent);
  EXPECT_EQ(SendReserve(Reserve("k", "2")).operation().owner().traceparent(), kTraceparent);
  EXPECT_TRUE(SendComplete(Complete("k", token)).ok());
  EXPECT_EQ(SendReserve(Reserve("k", "3")).operation().owner().traceparent(), kTraceparent);

  // What the request says itself goes before; what is no trace context is as if it were not there.
  v1::ReserveRequest own = Reserve("own");
  own.mutable_owner()->set_traceparent(kOtherTrace);
  Acquire(own, kTraceparent);
  EXPECT_EQ(SendReserve(Reserve("own", "2")).operation().owner().traceparent(), kOtherTrace);
  Acquire(Reserve("bad"), "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01");
  EXPECT_EQ(SendReserve(Reserve("bad", "2")).operation().owner().traceparent(), "");
}

// It is not read: neither a good one nor one that breaks every rule changes or leaves anything.
TEST_F(MetricsTest, ATracestateChangesNothingAndIsNowhere) {
  const std::string states[] = {"vendor=seen-nowhere",
                                "=,,seen-nowhere=", "vendor=seen-nowhere" + std::string(600, 'x')};
  for (const std::string& state : states) {
    const std::string key = "k" + std::to_string(state.size());
    v1::ReserveRequest bad = Reserve(key);
    bad.clear_attempt_id();
    for (const v1::ReserveRequest& request : {bad, Reserve(key)}) {
      grpc::ClientContext context;
      context.AddMetadata("traceparent", kTraceparent);
      context.AddMetadata("tracestate", state);
      v1::ReserveResponse response;
      const grpc::Status status = api_->Reserve(&context, request, &response);
      EXPECT_EQ(status.ok(), !request.attempt_id().empty()) << status.error_message();
    }
    const v1::ReserveResponse duplicate = SendReserve(Reserve(key, "2"));
    EXPECT_EQ(duplicate.operation().owner().traceparent(), kTraceparent);
    EXPECT_EQ(duplicate.DebugString().find("seen-nowhere"), std::string::npos);
  }
  EXPECT_EQ(server_->Terminate(), 0);
  const std::string log = server_->Log();
  EXPECT_NE(log.find(kTraceId), std::string::npos) << log;
  EXPECT_EQ(log.find("seen-nowhere"), std::string::npos) << log;
}

TEST_F(MetricsTest, ACommandOfABatchIsOfTheTraceOfItsCall) {
  v1::BatchRequest batch;
  *batch.add_commands()->mutable_reserve() = Reserve("k");
  v1::BatchResponse response;
  ASSERT_TRUE(
      Send(api_.get(), &v1::IdempotencyService::Stub::Batch, batch, &response, kTraceparent).ok());
  EXPECT_EQ(SendReserve(Reserve("k", "2")).operation().owner().traceparent(), kTraceparent);
}

TEST_F(MetricsTest, ARefusalIsLoggedWithTheTraceOfItsCall) {
  v1::ReserveRequest request = Reserve("k");
  request.clear_attempt_id();
  v1::ReserveResponse response;
  EXPECT_FALSE(
      Send(api_.get(), &v1::IdempotencyService::Stub::Reserve, request, &response, kTraceparent)
          .ok());
  v1::CompleteResponse completed;
  EXPECT_FALSE(Send(api_.get(), &v1::IdempotencyService::Stub::Complete, Complete("k", 1),
                    &completed, kOtherTrace)
                   .ok());
  EXPECT_EQ(server_->Terminate(), 0);
  const std::string log = server_->Log();
  EXPECT_TRUE(std::regex_search(
      log, std::regex(std::string("INVALID_FIELD.*\"trace_id\":\"") + kTraceId + "\"")))
      << log;
  EXPECT_TRUE(std::regex_search(
      log, std::regex("OPERATION_NOT_FOUND.*\"trace_id\":\"11111111111111111111111111111111\"")))
      << log;
}

}  // namespace
}  // namespace idempotency::testing
