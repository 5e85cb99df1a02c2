#include "tests/proof/requests/malformed.h"

#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "idempotency/v1/idempotency_service.pb.h"
#include "tests/proof/requests/judge.h"
#include "tests/proof/requests/reflect.h"

namespace idempotency::proof {
namespace {

using google::protobuf::Message;
using grpc::StatusCode;

// A field of number 4,000 with a text, as a service of a later version may know it.
constexpr std::string_view kUnknownField = "\x82\xfa\x01\x05hello";

std::string Garbage(Random* random) {
  std::string bytes;
  for (uint64_t left = 1 + random->Below(200); left > 0; --left) {
    bytes.push_back(static_cast<char>(random->Below(256)));
  }
  return bytes;
}

bool IsMessage(const Message& type, const std::string& bytes) {
  return std::unique_ptr<Message>(type.New())->ParsePartialFromString(bytes);
}

// Bytes that are no message of the type: a valid one cut off, with a length that is too long, or
// noise.
std::string NoMessage(const Message& type, std::string bytes, Random* random) {
  for (int tries = 0; tries < 100; ++tries) {
    std::string bad = bytes.substr(0, 1 + random->Below(bytes.size()));
    if (random->OneIn(3)) bad = Garbage(random);
    if (random->OneIn(3)) bad = bytes + "\x0a\xff\xff\xff\xff\x07";
    // Text that is not UTF-8 has its own answer.
    if (!IsMessage(type, bad) && bad.find('\xff') == std::string::npos) return bad;
  }
  return "\x0a\x7f";
}

// Groups within groups, more than any parser follows.
std::string Deep() {
  std::string bytes;
  for (int i = 0; i < 200; ++i) bytes += "\x83\xfa\x01";
  for (int i = 0; i < 200; ++i) bytes += "\x84\xfa\x01";
  return bytes;
}

class Maker {
 public:
  explicit Maker(Spoiler* spoiler) : spoiler_(*spoiler), random_(spoiler->random()) {}

  std::vector<Malformed> Take() && { return std::move(made_); }

  void AddBytes() {
    for (const MethodInfo& info : Methods()) {
      const std::string valid = Bytes(*spoiler_.Valid(info));
      if (valid.empty()) continue;
      Refused("bytes that are no message", info.path, NoMessage(*info.request, valid, &random_));
      Refused("groups too deep", info.path, valid + Deep());
    }
    v1::BatchRequest batch;
    *batch.add_commands()->mutable_reserve() =
        static_cast<const v1::ReserveRequest&>(*spoiler_.Valid(InfoOf(kReserve)));
    Refused("bytes that are no message", kBatchPath, NoMessage(batch, Bytes(batch), &random_));
    Refused("bytes that are no message", kPipelinePath, NoMessage(batch, Bytes(batch), &random_));
  }

  // What is not known is no fault; what is wrong beside it is.
  void AddUnknownFields() {
    for (BadRequest& bad : spoiler_.OneFault()) {
      if (!random_.OneIn(20)) continue;
      Malformed& malformed = Add(bad.name + ", beside a field that is not known", bad.method->path,
                                 Bytes(*bad.request) + std::string(kUnknownField));
      malformed.expected = bad.expected;
    }
    v1::GetNamespaceRequest get;
    get.set_name("payments");
    Add("nothing but a field that is not known", InfoOf(kGetNamespace).path,
        Bytes(get) + std::string(kUnknownField))
        .codes = {StatusCode::OK};
    // A field of another type is not known, and so the id is missing.
    Add("the id as a number", InfoOf(kInspectOperation).path, "\x08\x07").expected = {
        "INVALID_FIELD", {"id"}};
  }

  void AddMethods() {
    const std::string bytes = Bytes(*spoiler_.Valid(InfoOf(kReserve)));
    for (const char* method :
         {"/idempotency.v1.IdempotencyService/reserve", "/idempotency.v1.IdempotencyService/",
          "/idempotency.v1.IdempotencyService/Reserve/", "/idempotency.v1.IdempotencyService/Nope",
          "/idempotency.v2.IdempotencyService/Reserve",
          "/idempotency.v1.IdempotencyService/InspectOperation",
          "/idempotency.v1.IdempotencyAdminService/Reserve", "/Reserve", "/", "//", "/%00",
          "/idempotency.v1.IdempotencyService/Reserve?x=1"}) {
      Add("no method", method, bytes).codes = {StatusCode::UNIMPLEMENTED};
    }
  }

  void AddStreams() {
    const MethodInfo& get = InfoOf(kInspectOperation);
    const std::string bytes = Bytes(*spoiler_.Valid(get));
    Malformed& none = Add("no message at all", get.path, "");
    none.stream = true;
    none.messages.clear();
    none.codes = {StatusCode::INTERNAL, StatusCode::UNIMPLEMENTED, StatusCode::INVALID_ARGUMENT};
    // gRPC looks at the first, which is judged by itself.
    Malformed& two = Add("two messages", get.path, bytes);
    two.stream = true;
    two.messages.push_back(bytes);
    two.codes = {StatusCode::OK, StatusCode::NOT_FOUND, StatusCode::INTERNAL,
                 StatusCode::UNIMPLEMENTED};
    Malformed& empty = Add("a pipeline without a message", kPipelinePath, "");
    empty.stream = true;
    empty.messages.clear();
    empty.codes = {StatusCode::OK};
  }

  void AddMetadata() {
    const std::string bytes = Bytes(*spoiler_.Valid(InfoOf(kGetNamespace)));
    const auto with = [&](const char* name, Metadata metadata) -> Malformed& {
      Malformed& malformed = Add(name, InfoOf(kGetNamespace).path, bytes);
      malformed.metadata = std::move(metadata);
      malformed.codes = {StatusCode::OK};
      return malformed;
    };
    with("bytes as metadata", {{"x-any-bin", std::string("\0\xff\n\r", 4)}});
    with("a credential that nobody asked for", {{"authorization", std::string(kMark) + "secret"}});
    with("an idempotency-key that nobody asked for", {{"idempotency-key", kMark}});
    Metadata many;
    for (int i = 0; i < 50; ++i) many.emplace_back("x-many", std::to_string(i));
    with("one name many times", many);
    Malformed& large = with("more metadata than is taken", {{"x-large", std::string(20'000, 'x')}});
    large.codes = {StatusCode::RESOURCE_EXHAUSTED, StatusCode::UNAVAILABLE, StatusCode::INTERNAL};
    large.alone = true;
  }

  void AddTooMany() {
    v1::BatchRequest batch;
    for (size_t i = 0; i <= kMaxBatchCommands + random_.Below(100); ++i) batch.add_commands();
    Refused("too many commands", kBatchPath, Bytes(batch)).expected.fields = {"commands"};
    Refused("too many commands", kPipelinePath, Bytes(batch)).expected.fields = {"commands"};
  }

  void AddTooLarge() {
    v1::CompleteRequest complete;
    complete.mutable_response()->set_body(std::string(kMaxMessageBytes + 1, 'x'));
    const std::vector<StatusCode> codes = {StatusCode::RESOURCE_EXHAUSTED};
    Add("a message that is too large", InfoOf(kComplete).path, Bytes(complete)).codes = codes;
    Malformed& stream = Add("a message that is too large", kPipelinePath, Bytes(complete));
    stream.stream = true;
    stream.codes = codes;
  }

 private:
  static std::string Bytes(const Message& message) { return message.SerializeAsString(); }

  Malformed& Add(std::string name, std::string method, std::string bytes) {
    made_.push_back(Malformed{std::move(name), std::move(method), {std::move(bytes)}});
    made_.back().stream = made_.back().method == kPipelinePath;
    return made_.back();
  }
  Malformed& Refused(std::string name, std::string method, std::string bytes) {
    Malformed& malformed = Add(std::move(name), std::move(method), std::move(bytes));
    malformed.expected = {"INVALID_FIELD", {}};
    return malformed;
  }

  Spoiler& spoiler_;
  Random& random_;
  std::vector<Malformed> made_;
};

}  // namespace

std::vector<Malformed> MakeMalformed(Spoiler* spoiler, int block) {
  constexpr int kLargeEvery = 8;
  Maker maker(spoiler);
  maker.AddBytes();
  maker.AddUnknownFields();
  maker.AddMethods();
  maker.AddStreams();
  maker.AddMetadata();
  maker.AddTooMany();
  if (block % kLargeEvery == 0) maker.AddTooLarge();
  return std::move(maker).Take();
}

// --- Many commands
// --------------------------------------------------------------------------------

namespace {

class Gatherer {
 public:
  Gatherer(Spoiler* spoiler, const std::vector<Sentinel>& sentinels)
      : spoiler_(*spoiler), sentinels_(sentinels) {}

  Together Take() && {
    together_.bytes = request_.SerializeAsString();
    return std::move(together_);
  }

  void AddBad(const BadRequest& bad) {
    if (bad.method->command == nullptr) return;
    v1::Command* const command = Add(bad.name, bad.expected);
    Find(command, std::string(bad.method->command) + ".id").message->CopyFrom(*bad.request);
    together_.commands.back().texts = TextsOf(*bad.request);
  }

  void AddGood() {
    *Add("good", {})->mutable_get_operation()->mutable_id() = spoiler_.random().Any(sentinels_).id;
  }

  void AddEmpty() { Add("no command", {"INVALID_FIELD", {"command"}}); }

  void AddWaiting() {
    v1::Command* const command = Add("waits in a batch", {"INVALID_FIELD", {"wait_duration"}});
    *command->mutable_get_operation()->mutable_id() = sentinels_[0].id;
    command->mutable_get_operation()->mutable_wait_duration()->set_seconds(1);
  }

  // The second of a tag that is in flight.
  void AddTagTwice() {
    AddGood();
    const uint64_t tag = together_.commands.back().tag;
    AddGood();
    request_.mutable_commands()->rbegin()->set_tag(tag);
    together_.commands.back().tag = tag;
    together_.commands.back().expected = {"INVALID_FIELD", {"tag"}};
  }

 private:
  v1::Command* Add(std::string name, Expected expected) {
    v1::Command* const command = request_.add_commands();
    command->set_tag(++last_tag_);
    together_.commands.push_back({last_tag_, std::move(name), std::move(expected), {}});
    return command;
  }

  Spoiler& spoiler_;
  const std::vector<Sentinel>& sentinels_;
  // Of the same bytes as a PipelineRequest.
  v1::BatchRequest request_;
  uint64_t last_tag_ = 0;
  Together together_;
};

std::string JudgeResult(const Together::Command& command, const v1::Result& result) {
  const std::string name = command.name + ": ";
  if (command.expected.reason.empty()) {
    return result.has_get_operation() ? "" : name + result.ShortDebugString();
  }
  if (!result.has_error()) return name + "accepted";
  const std::string wrong = JudgeError(result.error(), command.expected, command.texts);
  return wrong.empty() ? "" : name + wrong;
}

// By tags, each of which may come more than once; of those with one tag errors are last.
std::string JudgeByTag(const Together& together, const std::vector<v1::Result>& results) {
  std::multimap<uint64_t, const v1::Result*> by_tag;
  for (const bool errors : {false, true}) {
    for (const v1::Result& result : results) {
      if (result.has_error() == errors) by_tag.emplace(result.tag(), &result);
    }
  }
  for (const Together::Command& command : together.commands) {
    const auto found = by_tag.find(command.tag);
    if (found == by_tag.end()) return command.name + ": no result";
    const std::string wrong = JudgeResult(command, *found->second);
    if (!wrong.empty()) return wrong;
    by_tag.erase(found);
  }
  return by_tag.empty() ? "" : "more results than commands";
}

}  // namespace

Together MakeTogether(Spoiler* spoiler, const std::vector<Sentinel>& sentinels, bool as_batch) {
  Gatherer gatherer(spoiler, sentinels);
  for (const BadRequest& bad : spoiler->OneFault()) {
    if (!spoiler->random().OneIn(8)) continue;
    gatherer.AddGood();
    gatherer.AddBad(bad);
  }
  gatherer.AddBad(spoiler->FinishingVerb());
  gatherer.AddEmpty();
  as_batch ? gatherer.AddWaiting() : gatherer.AddTagTwice();
  return std::move(gatherer).Take();
}

std::string JudgeTogether(const Together& together, const Answer& answer, bool as_batch) {
  if (!answer.status.ok()) return "is told " + answer.status.error_message();
  std::vector<v1::Result> results;
  for (const std::string& message : answer.messages) {
    v1::BatchResponse response;  // of the same bytes as a PipelineResponse
    if (!response.ParseFromString(message)) return "the answer is no message";
    results.insert(results.end(), response.results().begin(), response.results().end());
  }
  if (as_batch) {
    if (results.size() != together.commands.size()) return "not one result for each command";
    for (size_t i = 0; i < results.size(); ++i) {
      const std::string wrong = JudgeResult(together.commands[i], results[i]);
      if (!wrong.empty()) return wrong;
    }
  }
  return JudgeByTag(together, results);
}

}  // namespace idempotency::proof
