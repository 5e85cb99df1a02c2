// Writes what fuzzing begins with where it is no text: stored records and keys, frames of HTTP/2,
// and stories of real requests. What is in corpus/ comes from here.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "google/protobuf/stubs/logging.h"
#include "idempotency/v1/admin_service.pb.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "keystore/codec/key_codec.h"
#include "tests/fuzz/steps.h"
#include "tests/keystore/codec/golden_records.h"
#include "tests/keystore/codec/record_generator.h"
#include "tests/service/server/commands.h"
#include "tests/support/http2_frames.h"

namespace idempotency::fuzz {
namespace {

using google::protobuf::Message;
using testing::Complete;
using testing::Delete;
using testing::Get;
using testing::Inspect;
using testing::Mark;
using testing::Release;
using testing::Renew;
using testing::Reserve;
using testing::Resolve;
using testing::WaitingReserve;

using Steps = std::vector<Step>;
using Named = std::pair<std::string, std::string>;

// As requests_fuzz.cc numbers them.
enum Method : uint8_t {
  kReserve,
  kRenew,
  kComplete,
  kRelease,
  kMark,
  kGet,
  kInspect,
  kResolve,
  kDelete,
  kBatch,
  kGetNamespace,
  kListNamespaces,
  kList,
  kTime,
  kLeave,
};

Step Of(uint8_t kind, const Message& message) { return Step{kind, message.SerializeAsString()}; }
Step Time(size_t shift) { return Step{kTime, std::string(shift, 't')}; }

template <typename Request>
Request In(const std::string& name_space, Request request) {
  request.mutable_id()->set_namespace_(name_space);
  return request;
}

v1::Command Command(v1::ReserveRequest request) {
  v1::Command command;
  *command.mutable_reserve() = std::move(request);
  return command;
}
v1::Command Command(v1::CompleteRequest request) {
  v1::Command command;
  *command.mutable_complete() = std::move(request);
  return command;
}
v1::Command Command(v1::RenewRequest request) {
  v1::Command command;
  *command.mutable_renew() = std::move(request);
  return command;
}
v1::Command Command(v1::ReleaseRequest request) {
  v1::Command command;
  *command.mutable_release() = std::move(request);
  return command;
}
v1::Command Command(v1::MarkUnresolvedRequest request) {
  v1::Command command;
  *command.mutable_mark_unresolved() = std::move(request);
  return command;
}
v1::Command Command(v1::GetOperationRequest request) {
  v1::Command command;
  *command.mutable_get_operation() = std::move(request);
  return command;
}

// With tags from 1 on.
template <typename Request>
Request Gather(std::vector<v1::Command> commands) {
  Request request;
  uint64_t tag = 0;
  for (v1::Command& command : commands) {
    command.set_tag(++tag);
    *request.add_commands() = std::move(command);
  }
  return request;
}

v1::ReserveRequest FullReserve() {
  v1::ReserveRequest request = Reserve("full");
  request.mutable_owner()->set_worker("worker-7");
  request.mutable_owner()->set_operation_ref("order-1001");
  request.mutable_owner()->set_traceparent(
      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  (*request.mutable_labels())["region"] = "eu";
  (*request.mutable_labels())["tier"] = "gold";
  request.mutable_lease_duration()->set_seconds(5);
  request.mutable_operation_age()->set_seconds(1);
  request.set_dispatch_later(true);
  request.set_start_over(true);
  return request;
}

v1::RenewRequest FullRenew() {
  v1::RenewRequest request = Renew("full", 1);
  request.mutable_lease_duration()->set_seconds(60);
  request.set_progress("step 1");
  request.set_dispatched(true);
  request.mutable_owner()->set_worker("worker-8");
  return request;
}

v1::CompleteRequest FullComplete() {
  v1::CompleteRequest request = Complete("full", 1);
  request.mutable_response()->set_status_message("OK");
  request.mutable_response()->set_content_type("application/json");
  auto* header = request.mutable_response()->add_metadata();
  header->set_name("x-request-id");
  header->set_value("req_1");
  request.mutable_response()->add_metadata()->set_name("set-cookie");
  request.mutable_response()->set_body_size(4);
  request.set_provider_request_id("ch_1");
  request.mutable_retention()->set_seconds(86'400 * 2);
  return request;
}

v1::MarkUnresolvedRequest FullMark() {
  v1::MarkUnresolvedRequest request = Mark("full", 1);
  request.set_detail("no answer");
  request.set_provider_request_id("ch_1");
  request.mutable_retry_after()->set_seconds(2);
  request.set_reconcile_first(true);
  return request;
}

v1::ResolveOperationRequest Settle(int how) {
  v1::ResolveOperationRequest request = Resolve("full");
  if (how == 1) request.mutable_not_executed();
  if (how == 2) request.mutable_abandoned();
  if (how == 0) request.mutable_completed()->mutable_response()->set_body("found");
  request.set_provider_request_id("ch_2");
  return request;
}

v1::ListOperationsRequest List(const std::string& token) {
  v1::ListOperationsRequest request;
  request.set_namespace_("payments");
  request.set_scope("acct-1");
  request.set_key_prefix("f");
  request.add_states(v1::OPERATION_STATE_UNRESOLVED);
  request.add_states(v1::OPERATION_STATE_COMPLETE);
  request.set_page_size(1);
  request.set_page_token(token);
  return request;
}

v1::BatchRequest Batch() {
  return Gather<v1::BatchRequest>({Command(Reserve("a")), Command(Reserve("b")), Command(Get("a")),
                                   Command(Complete("a", 1)), Command(Release("b", 2)),
                                   Command(WaitingReserve("b", "2", std::chrono::seconds(5))),
                                   v1::Command()});
}

v1::GetNamespaceRequest Namespace(const std::string& name) {
  v1::GetNamespaceRequest request;
  request.set_name(name);
  return request;
}

std::vector<Named> Requests() {
  v1::CompleteRequest latin = FullComplete();
  latin.set_provider_request_id("M\xfcnchen");
  const Step reserve = Of(kReserve, FullReserve());
  const Step late = Of(kReserve, Reserve("full", "2"));
  v1::ListNamespacesRequest names;
  names.set_page_size(2);
  names.set_page_token("inbox");
  const std::vector<std::pair<std::string, Steps>> stories = {
      {"charge",
       {reserve, Of(kRenew, FullRenew()), Of(kComplete, FullComplete()), late,
        Of(kGet, Get("full")), Of(kInspect, Inspect("full")), Time(34), late}},
      {"complete_repeat", {reserve, Of(kComplete, latin), Of(kComplete, latin)}},
      {"release", {reserve, Of(kRelease, Release("full", 1)), late}},
      {"mark_resolve",
       {reserve, Of(kMark, FullMark()), late, Time(17), Of(kResolve, Settle(1)), late}},
      {"lapse_abandon",
       {reserve, Of(kRenew, FullRenew()), Time(17), Of(kResolve, Settle(2)), late}},
      {"resolve_completed",
       {reserve, Of(kMark, FullMark()), Of(kResolve, Settle(0)), Of(kResolve, Settle(0)), late}},
      {"delete",
       {reserve, Of(kDelete, Delete("full")), Of(kMark, FullMark()),
        Of(kDelete, Delete("full", true)), late}},
      {"wait",
       {reserve, Of(kReserve, WaitingReserve("full", "2", std::chrono::seconds(20))),
        Of(kGet, Get("full")), Of(kComplete, FullComplete())}},
      {"wait_and_leave",
       {reserve, Of(kReserve, WaitingReserve("full", "2", std::chrono::hours(1))), Step{kLeave, ""},
        Time(20)}},
      {"batch", {Of(kBatch, Batch()), Of(kBatch, Batch())}},
      {"list",
       {reserve, Of(kReserve, Reserve("first")), Of(kList, List("")), Of(kList, List("junk"))}},
      {"namespaces",
       {Of(kGetNamespace, Namespace("retry")), Of(kGetNamespace, Namespace("other")),
        Of(kListNamespaces, v1::ListNamespacesRequest()), Of(kListNamespaces, names)}},
      {"retry",
       {Of(kReserve, In("retry", Reserve("k"))), Of(kMark, In("retry", Mark("k", 1))), Time(14),
        Of(kReserve, In("retry", Reserve("k", "2"))),
        Of(kComplete, In("retry", Complete("k", 2, std::string(40, 'b'))))}},
      {"rerun",
       {Of(kReserve, In("inbox", Reserve("a@b.example"))), Time(16),
        Of(kReserve, In("inbox", Reserve("a@b.example", "2")))}},
      {"active_run",
       {Of(kReserve, In("run", Reserve("k"))), Of(kComplete, In("run", Complete("k", 1))),
        Of(kReserve, In("run", Reserve("k", "2")))}},
      {"not_utf8", {Of(kReserve, Reserve("M\xfcnchen")), Of(kRelease, Release("M\xfcnchen", 1))}},
      {"not_a_message", {Step{kReserve, "\x0a\x7f"}, Step{kBatch, "\x0a\x03\x12\x05"}}},
  };
  std::vector<Named> seeds;
  for (const auto& [name, steps] : stories) seeds.emplace_back(name, WriteSteps(steps));
  return seeds;
}

Step Message(std::vector<v1::Command> commands) {
  return Of(0, Gather<v1::PipelineRequest>(std::move(commands)));
}

std::vector<Named> Pipelines() {
  const Step take{1, ""}, close{3, ""}, gone{4, ""}, drain{5, ""};
  const Step time{2, std::string(15, 't')};
  const Step waiting = Message(
      {Command(Reserve("held")), Command(WaitingReserve("held", "2", std::chrono::seconds(20))),
       Command(WaitingReserve("held", "3", std::chrono::hours(1))), Command(Get("held"))});
  v1::PipelineRequest one_tag =
      Gather<v1::PipelineRequest>({Command(Reserve("a")), Command(Reserve("b")), v1::Command()});
  for (auto& command : *one_tag.mutable_commands()) command.set_tag(7);
  v1::PipelineRequest many;
  for (int i = 0; i < 1025; ++i) many.add_commands();
  const std::vector<std::pair<std::string, Steps>> stories = {
      {"life",
       {Message({Command(FullReserve()), Command(FullRenew()), Command(FullComplete()),
                 Command(FullComplete()), Command(Get("full"))}),
        take, close}},
      {"release_mark",
       {Message({Command(Reserve("a")), Command(Release("a", 1)), Command(Reserve("full")),
                 Command(FullMark())}),
        take}},
      {"order",
       {Message({Command(Reserve("k", "1")), Command(Release("k", 1)), Command(Reserve("k", "2")),
                 Command(Release("k", 2))}),
        take}},
      {"waits",
       {waiting, take, Of(0, Gather<v1::PipelineRequest>({Command(Complete("held", 1))})), take}},
      {"waits_end_by_time", {waiting, time, take, time, close}},
      {"waits_and_closes", {waiting, close, time, take}},
      {"waits_and_breaks", {waiting, take, gone}},
      {"waits_and_drains", {waiting, drain, take, waiting}},
      {"one_tag", {Of(0, one_tag), take, Of(0, one_tag), close}},
      {"too_many", {waiting, Of(0, many), take}},
      {"not_a_message", {waiting, Step{0, "\x0a\x7f"}, take}},
      {"not_utf8", {Message({Command(Reserve("M\xfcnchen")), Command(Reserve("b"))}), take}},
      {"empty", {Step{0, ""}, Step{0, ""}, close}},
      {"breaks_at_once", {gone}},
      {"unread",
       {waiting, Message({Command(Reserve("x"))}), Message({Command(Reserve("y"))}), gone}},
  };
  std::vector<Named> seeds;
  for (const auto& [name, steps] : stories) seeds.emplace_back(name, WriteSteps(steps));
  return seeds;
}

std::vector<Named> Records() {
  constexpr uint64_t kSeed = 1;
  constexpr int kDrawn = 12;
  std::vector<Named> seeds;
  int number = 0;
  for (const keystore::GoldenRecord& golden : keystore::GoldenRecords()) {
    const std::string bytes = keystore::Encoded(golden.record);
    const std::string name = "golden_" + std::to_string(++number);
    seeds.emplace_back(name, '\0' + bytes);
    seeds.emplace_back(name + "_body", '\1' + keystore::WithoutCrc(bytes));
  }
  keystore::RecordGenerator generator(kSeed);
  for (number = 1; number <= kDrawn;) {
    const std::string bytes = keystore::Encoded(generator.Next());
    if (bytes.size() > 2'000) continue;
    seeds.emplace_back("drawn_" + std::to_string(number++), '\1' + keystore::WithoutCrc(bytes));
  }
  return seeds;
}

std::vector<Named> Keys() {
  const auto seed = [](const std::string& name_space, const std::string& scope,
                       const std::string& a, const std::string& b) {
    return keystore::EncodeKey({name_space, scope, static_cast<char>(a.size()) + a + b});
  };
  return {
      {"plain", seed("payments", "acct-1", "order-1", "order-10")},
      {"no_scope", seed("payments", "", "a", "b")},
      {"one_prefix", seed("payments", "acct-1", "order", "order")},
      {"ff", seed("n", "s", "\xff\xff", "\xff\xff\xff")},
      {"zero", seed("n", "s", std::string(2, '\0'), std::string(1, '\0'))},
      {"scope_like_length", seed("n", "\x01s", "k", "l")},
      {"names_run_together", seed("ab", "c", "d", "cd")},
      {"long", seed(std::string(64, 'n'), std::string(255, 's'), std::string(200, 'k'), "k")},
      {"cut", std::string("\x08pay", 4)},
  };
}

// Pieces of seven bytes, twenty times.
std::string Frames(const std::string& frames) { return "\x06\x13" + frames; }

std::vector<Named> FramesOfPeers() {
  const std::string headers = CallFields();
  const std::string long_text = "\x44\x7f\xad\x01" + std::string(300, 'x');
  const std::string cancelled = CancelledCalls(1);
  return {
      {"call", Frames(Frame(kHeaders, kEndHeaders, 1, headers) +
                      Frame(kData, kEndStream, 1, std::string(5, '\0')))},
      {"cancelled", Frames(cancelled)},
      {"priority",
       Frames(Frame(kHeaders, kEndHeaders | 0x20, 1, std::string("\x80\0\0\0\x10", 5) + headers))},
      {"half_a_priority",
       Frames(Frame(kHeaders, 0x20, 1, "\x83\x86") +
              Frame(kContinuation, kEndHeaders, 1, std::string("\x84\0\6\0\1a\1b", 8)))},
      {"endless",
       Frames(Frame(kHeaders, 0, 1, headers) + Frame(kContinuation, 0, 1, std::string(50, '\x8f')) +
              Frame(kContinuation, 0, 1, ""))},
      {"fields", Frames(Frame(kHeaders, kEndHeaders, 1,
                              "\x3f\xe1\x1f\x40\x01x\x01y\x10\x01x\x01y\x7f\x05\x01y\xff\x80\x01" +
                                  long_text))},
      {"whole", Frames(kPreface + cancelled)},
  };
}

void Write(const std::filesystem::path& directory, const std::vector<Named>& seeds) {
  std::filesystem::create_directories(directory);
  for (const auto& [name, bytes] : seeds) {
    std::ofstream(directory / name, std::ios::binary) << bytes;
  }
  std::printf("%s: %zu\n", directory.c_str(), seeds.size());
}

}  // namespace
}  // namespace idempotency::fuzz

int main(int argc, char** argv) {
  using namespace idempotency::fuzz;
  if (argc != 2 || argv[1][0] == '-') {
    std::fprintf(stderr, "usage: idempotency_fuzz_seeds DIRECTORY\n");
    return 2;
  }
  // Some texts are to be no UTF-8.
  google::protobuf::SetLogHandler(nullptr);
  const std::filesystem::path directory = argv[1];
  Write(directory / "record", Records());
  Write(directory / "frames", FramesOfPeers());
  Write(directory / "key", Keys());
  Write(directory / "requests", Requests());
  Write(directory / "pipeline", Pipelines());
  return 0;
}
