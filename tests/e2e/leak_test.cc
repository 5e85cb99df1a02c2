// What callers entrust to the service is nowhere but in the files of its store: a whole life cycle
// with marked values, through the real server and the real tool, with everything logged that can
// be, refusals, bad requests and a crash; then every byte that the processes wrote is searched.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "idempotency/v1/admin_service.grpc.pb.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/service/server/commands.h"
#include "tests/support/server_process.h"
#include "tests/support/temp_directory.h"

namespace idempotency::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

// Each is a text that nothing else has, and has nothing in common with the others: what tables are
// compressed by would cut it in pieces.
constexpr char kKey[] = "Ek7-key-N8vRa";
constexpr char kScope[] = "Js1_scope_V4mXe";
constexpr char kBody[] = "Zr8.body.Q1xUv";
constexpr char kProgress[] = "Hn4:progress:T6yLm";
constexpr char kCredential[] = "Cf5~credential~B3tGq";
constexpr char kLabel[] = "Wd2+label+K9pSj";
constexpr char kAttemptId[] = "Ay6=attempt=D2wHc";

std::string ReadFile(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// The files below `directory` that hold `text`, by name.
std::vector<std::string> FilesWith(const fs::path& directory, const std::string& text) {
  std::vector<std::string> names;
  for (const auto& file : fs::recursive_directory_iterator(directory)) {
    if (file.is_regular_file() && ReadFile(file.path()).find(text) != std::string::npos) {
      names.push_back(fs::relative(file.path(), directory).string());
    }
  }
  return names;
}

// Tables and write-ahead logs: what the store keeps records in.
bool HoldsRecords(const std::string& name) {
  const std::string suffix = fs::path(name).extension().string();
  return suffix == ".sst" || suffix == ".log";
}

template <typename Request>
Request Marked(Request request, const std::string& suffix) {
  request.mutable_id()->set_scope(kScope);
  request.mutable_id()->set_key(kKey + suffix);
  return request;
}

// A caller who sends a credential with everything.
class MarkedCaller {
 public:
  explicit MarkedCaller(const ServerProcess& server)
      : channel_(server.Channel()),
        api_(v1::IdempotencyService::NewStub(channel_)),
        admin_(v1::IdempotencyAdminService::NewStub(channel_)),
        generic_(channel_) {}

  template <typename Stub, typename Request, typename Response>
  grpc::Status Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request, Response* response) {
    grpc::ClientContext context;
    AddCredential(&context);
    if constexpr (std::is_same_v<Stub, v1::IdempotencyService::Stub>) {
      return (api_.get()->*method)(&context, request, response);
    } else {
      return (admin_.get()->*method)(&context, request, response);
    }
  }
  template <typename Stub, typename Request, typename Response>
  grpc::Status Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const Request& request) {
    Response response;
    return Call(method, request, &response);
  }

  uint64_t Acquire(const std::string& suffix, const std::string& attempt = "1") {
    v1::ReserveRequest request = Marked(Reserve("", attempt), suffix);
    request.set_attempt_id(std::string(kAttemptId) + "-0123456789-" + attempt);
    (*request.mutable_labels())["name"] = kLabel;
    v1::ReserveResponse response;
    const grpc::Status status = Call(&Api::Reserve, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
    return response.lease().fencing_token();
  }

  // Any bytes to any method.
  void SendBytes(const std::string& method, const std::string& bytes,
                 const std::string& more = "") {
    grpc::ClientContext context;
    AddCredential(&context);
    if (!more.empty()) context.AddMetadata("x-more", more);
    const grpc::Slice slice(bytes);
    grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    grpc::CompletionQueue queue;
    grpc::Status status;
    auto call = generic_.PrepareUnaryCall(&context, method, request, &queue);
    call->StartCall();
    call->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    EXPECT_FALSE(status.ok()) << method;
  }

  using Api = v1::IdempotencyService::Stub;
  using Admin = v1::IdempotencyAdminService::Stub;

 private:
  static void AddCredential(grpc::ClientContext* context) {
    context->AddMetadata("authorization", std::string("Bearer ") + kCredential);
  }

  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::IdempotencyService::Stub> api_;
  const std::unique_ptr<v1::IdempotencyAdminService::Stub> admin_;
  grpc::GenericStub generic_;
};

using Api = MarkedCaller::Api;
using Admin = MarkedCaller::Admin;

v1::CompleteRequest MarkedComplete(const std::string& suffix, uint64_t token) {
  v1::CompleteRequest request = Marked(Complete("", token, kBody), suffix);
  v1::MetadataEntry* const header = request.mutable_response()->add_metadata();
  header->set_name("set-cookie");
  header->set_value(kCredential);
  return request;
}

// Done, asked for again, asked for by others, looked at.
void Succeed(MarkedCaller& caller) {
  const uint64_t token = caller.Acquire("-1");
  v1::RenewRequest renew = Marked(Renew("", token), "-1");
  renew.set_progress(kProgress);
  EXPECT_TRUE(caller.Call(&Api::Renew, renew).ok());
  EXPECT_TRUE(caller.Call(&Api::Complete, MarkedComplete("-1", token)).ok());
  v1::ReserveResponse again;
  EXPECT_TRUE(caller.Call(&Api::Reserve, Marked(Reserve("", "2"), "-1"), &again).ok());
  EXPECT_EQ(again.operation().response().body(), kBody);
  v1::ReserveRequest other = Marked(Reserve("", "3"), "-1");
  *other.mutable_fingerprint() = Print('x');
  EXPECT_TRUE(caller.Call(&Api::Reserve, other).ok());
  EXPECT_TRUE(caller.Call(&Api::GetOperation, Marked(Get(""), "-1")).ok());
  EXPECT_TRUE(caller.Call(&Admin::InspectOperation, Marked(Inspect(""), "-1")).ok());
  v1::CompleteRequest differently = MarkedComplete("-1", token);
  differently.mutable_response()->set_body(std::string(kBody) + "-other");
  EXPECT_FALSE(caller.Call(&Api::Complete, differently).ok());
}

// Left open with progress, marked, settled, deleted.
void Doubt(MarkedCaller& caller) {
  v1::RenewRequest renew = Marked(Renew("", caller.Acquire("-2")), "-2");
  renew.set_progress(kProgress);
  EXPECT_TRUE(caller.Call(&Api::Renew, renew).ok());
  const uint64_t token = caller.Acquire("-3");
  EXPECT_TRUE(caller.Call(&Api::MarkUnresolved, Marked(Mark("", token), "-3")).ok());
  EXPECT_TRUE(caller.Call(&Admin::ResolveOperation, Marked(Resolve(""), "-3")).ok());
  EXPECT_TRUE(caller.Call(&Admin::DeleteOperation, Marked(Delete(""), "-3")).ok());
  v1::ListOperationsRequest list;
  list.set_namespace_("payments");
  EXPECT_TRUE(caller.Call(&Admin::ListOperations, list).ok());
}

// Frames of HTTP/2 as no client of gRPC's would send them: headers that it cannot parse, one after
// the other with more than it takes of them, on a connection of their own each.
class RawHeaders {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;

  // Returns when the server has closed the connection, or answered.
  static void Send(int port, const Headers& headers) {
    const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    constexpr char kSettings = 4;
    constexpr char kHeaders = 1;
    constexpr char kEndStreamAndHeaders = 5;
    const std::string sent = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(kSettings, 0, 0, "") +
                             Frame(kHeaders, kEndStreamAndHeaders, 1, Block(headers)) +
                             // A frame that is none: what came before it has been looked at when
                             // the connection is closed for it.
                             Frame(kSettings, 0, 1, "wrong");
    EXPECT_EQ(send(connection, sent.data(), sent.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(sent.size()));
    char buffer[4096];
    while (recv(connection, buffer, sizeof(buffer), 0) > 0) {
    }
    close(connection);
  }

 private:
  static std::string Frame(char type, char flags, char stream, const std::string& payload) {
    const size_t size = payload.size();
    return std::string{static_cast<char>(size >> 16),
                       static_cast<char>(size >> 8),
                       static_cast<char>(size),
                       type,
                       flags,
                       0,
                       0,
                       0,
                       stream} +
           payload;
  }

  // Literals without indexing; integers with a prefix of seven bits.
  static std::string Block(const Headers& headers) {
    std::string block;
    for (const auto& [name, value] : headers) {
      block += '\0';
      block += Text(name) + Text(value);
    }
    return block;
  }

  static std::string Text(const std::string& text) {
    if (text.size() < 127) return static_cast<char>(text.size()) + text;
    std::string out(1, 127);
    size_t rest = text.size() - 127;
    for (; rest >= 128; rest /= 128) out += static_cast<char>(rest % 128 | 128);
    return out + static_cast<char>(rest) + text;
  }
};

// What gRPC cannot parse it logs; and this is what CVE-2023-1428 describes, which ends the process
// where a gRPC has it.
void SendWhatGrpcCannotParse(int port) {
  const std::string path = "/idempotency.v1.IdempotencyService/Reserve";
  const RawHeaders::Headers usual{{":method", "POST"},
                                  {":scheme", "http"},
                                  {":path", path},
                                  {"te", "trailers"},
                                  {"content-type", "application/grpc"}};
  for (const auto& bad : RawHeaders::Headers{{"te", kCredential},
                                             {":scheme", kCredential},
                                             {"grpclb_client_stats", kCredential},
                                             {"grpc-timeout", kCredential},
                                             {"content-type", kCredential},
                                             {"grpc-status", kCredential},
                                             {"authorization-bin", kCredential}}) {
    for (const size_t more : {10, 9000}) {
      RawHeaders::Headers headers;
      for (const auto& header : usual) headers.push_back(header.first == bad.first ? bad : header);
      if (headers == usual) headers.push_back(bad);
      headers.emplace_back("x-more", std::string(more, '.'));
      RawHeaders::Send(port, headers);
    }
  }
}

// Everything that is refused, by whoever refuses it.
void Blunder(MarkedCaller& caller) {
  const uint64_t token = caller.Acquire("-4");
  EXPECT_FALSE(caller.Call(&Api::Complete, MarkedComplete("-4", token + 1)).ok());
  EXPECT_FALSE(caller.Call(&Api::Complete, MarkedComplete("-nowhere", token)).ok());
  v1::RenewRequest renew = Marked(Renew("", token), "-4");
  renew.set_progress(kProgress + std::string(5000, '.'));
  EXPECT_FALSE(caller.Call(&Api::Renew, renew).ok());
  v1::ReserveRequest too_long = Marked(Reserve(""), std::string(300, '.'));
  EXPECT_FALSE(caller.Call(&Api::Reserve, too_long).ok());
  EXPECT_FALSE(caller.Call(&Api::Reserve, Marked(Reserve(""), "@example.com")).ok());
  v1::ReserveRequest no_namespace = Marked(Reserve(""), "-5");
  no_namespace.mutable_id()->set_namespace_("Not a namespace");
  EXPECT_FALSE(caller.Call(&Api::Reserve, no_namespace).ok());
  v1::BatchRequest batch;
  *batch.add_commands()->mutable_complete() = MarkedComplete("-4", token + 1);
  EXPECT_TRUE(caller.Call(&Api::Batch, batch).ok());
  const std::string method = "/idempotency.v1.IdempotencyService/Reserve";
  for (const std::string& bytes :
       {std::string(kBody), std::string("\x0a\x7f") + kKey,
        std::string("\x0a\x0e\x12\x0c\xff") + kKey, std::string(1000, '\xff') + kBody}) {
    caller.SendBytes(method, bytes);
  }
  caller.SendBytes(std::string("/idempotency.v1.IdempotencyService/") + kKey, kBody);
  caller.SendBytes(method, "", std::string(20'000, '.') + kCredential);
}

// What idempotencyctl prints to standard error, and all that it prints.
std::string RunTool(const ServerProcess& server, const std::string& arguments,
                    const fs::path& directory) {
  const std::string errors = (directory / "tool-errors").string();
  const std::string command = std::string(std::getenv("IDEMPOTENCYCTL")) +
                              " --server=127.0.0.1:" + std::to_string(server.port()) + " " +
                              arguments + " >/dev/null 2>>" + errors;
  // Most of them fail: that is what is looked at.
  static_cast<void>(std::system(command.c_str()));
  return ReadFile(errors);
}

class LeakTest : public ::testing::TestWithParam<bool> {
 protected:
  LeakTest() {
    // The system would write a core dump if the server let it.
    rlimit core{};
    getrlimit(RLIMIT_CORE, &core);
    core.rlim_cur = core.rlim_max;
    setrlimit(RLIMIT_CORE, &core);
    fs::create_directory(files_.file("cwd"));
    fs::current_path(files_.file("cwd"));
  }
  ~LeakTest() override { fs::current_path("/"); }

  bool sealed() const { return GetParam(); }
  std::string data_dir() const { return files_.file("data"); }

  std::vector<std::string> Flags() const {
    std::ofstream(files_.file("config.yaml"))
        << "namespaces: [{name: payments, settle_duration: 0s}]\n";
    // The audit names the operations that administrators touch: it is searched by itself.
    std::vector<std::string> flags{"--data_dir=" + data_dir(), "--log_level=debug",
                                   "--audit_log=" + files_.file("audit"),
                                   "--config=" + files_.file("config.yaml")};
    if (!sealed()) return flags;
    fs::create_directory(files_.file("keys"));
    std::ofstream(files_.file("keys/k1.key")) << std::string(64, 'd') << "\n";
    fs::permissions(files_.file("keys/k1.key"), fs::perms::owner_read);
    std::ofstream(files_.file("keys/current")) << "k1\n";
    flags.push_back("--response_keys=" + files_.file("keys"));
    return flags;
  }

  // What the processes have said, and what is in their files.
  void Search(const std::string& said) {
    for (const char* marker :
         {kKey, kScope, kBody, kProgress, kCredential, kLabel, kAttemptId, "dddddddddddddddd"}) {
      EXPECT_THAT(said, Not(HasSubstr(marker)));
      for (const std::string& name : FilesWith(files_.file("cwd"), marker)) {
        ADD_FAILURE() << marker << " is in " << name;
      }
    }
    const std::string audit = ReadFile(files_.file("audit"));
    EXPECT_THAT(audit, HasSubstr(kKey)) << "which operation";
    for (const char* marker : {kBody, kProgress, kCredential, kLabel, kAttemptId}) {
      EXPECT_THAT(audit, Not(HasSubstr(marker)));
    }
    for (const char* marker : {kBody, kProgress, kLabel}) {
      for (const std::string& name : FilesWith(data_dir(), marker)) {
        EXPECT_TRUE(HoldsRecords(name)) << marker << " is in " << name;
      }
    }
    // Nothing of these, wherever.
    for (const char* marker : {kCredential, kAttemptId}) {
      EXPECT_THAT(FilesWith(data_dir(), marker), ::testing::IsEmpty()) << marker;
    }
    // The search finds what is there: answers and progress where they are not sealed.
    for (const char* marker : {kBody, kProgress}) {
      EXPECT_EQ(FilesWith(data_dir(), marker).empty(), sealed()) << marker;
    }
    EXPECT_FALSE(FilesWith(data_dir(), kLabel).empty());
  }

  TempDirectory files_;
};

INSTANTIATE_TEST_SUITE_P(Store, LeakTest, ::testing::Values(false, true),
                         [](const auto& row) { return row.param ? "Sealed" : "Plain"; });

TEST_P(LeakTest, NothingOfWhatCallersSendIsElsewhereThanInTheStore) {
  ServerProcess server(Flags());
  MarkedCaller caller(server);
  Succeed(caller);
  Doubt(caller);
  Blunder(caller);
  SendWhatGrpcCannotParse(server.port());
  const std::string key = std::string(" payments ") + kScope + " " + kKey;
  std::ofstream(files_.file("body.json")) << '"' << kBody << '"';
  const fs::path tool = files_.file("tool");
  fs::create_directory(tool);
  std::string said =
      RunTool(server, "reserve" + key + "-6 --request-file=" + files_.file("body.json"), tool);
  said += RunTool(server,
                  "complete" + key + "-6 --fencing-token=1 --body-file=" + files_.file("body.json"),
                  tool);
  said += RunTool(server, "list payments", tool);
  EXPECT_THAT(said, Not(HasSubstr(kBody)));
  EXPECT_THAT(said, Not(HasSubstr(kProgress)));
  EXPECT_THAT(said, Not(HasSubstr(kCredential)));

  // It falls, and is not taken down for it.
  server.Signal(SIGABRT);
  EXPECT_EQ(server.Wait(), 128 + SIGABRT);
  EXPECT_TRUE(fs::is_empty(files_.file("cwd"))) << "a core dump";
  Search(server.Log());
  server.Start();
  EXPECT_EQ(server.Terminate(), 0);
  EXPECT_THAT(server.Log(), HasSubstr("command"));
  Search(server.Log());
}

// That there was no core dump says something only where there could have been one.
TEST(CoreDumpTest, IsWrittenOnlyWhereItIsAskedFor) {
  const TempDirectory directory;
  fs::current_path(directory.path());
  rlimit core{};
  getrlimit(RLIMIT_CORE, &core);
  core.rlim_cur = core.rlim_max;
  setrlimit(RLIMIT_CORE, &core);
  for (const bool asked : {false, true}) {
    std::vector<std::string> flags{"--engine=memory"};
    if (asked) flags.push_back("--core_dumps");
    ServerProcess server(flags);
    const std::string limits = ReadFile("/proc/" + std::to_string(server.pid()) + "/limits");
    const std::string none = "Max core file size        0                    0";
    EXPECT_EQ(limits.find(none) == std::string::npos, asked && core.rlim_max != 0) << limits;
    server.Kill();
  }
  fs::current_path("/");
}

}  // namespace
}  // namespace idempotency::testing
