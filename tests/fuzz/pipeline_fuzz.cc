// One pipeline, from its messages to its end: whatever is sent, every command that was taken is
// answered once, under its tag, and the stream ends.
//
//   input := { step }      (steps.h)      step: a message; or what else happens to a stream
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "idempotency/v1/idempotency_service.pb.h"
#include "keystore/core/limits.h"
#include "service/utf8_repair.h"
#include "tests/fuzz/in_process.h"
#include "tests/fuzz/require.h"
#include "tests/fuzz/step_mutator.h"
#include "tests/fuzz/steps.h"

namespace idempotency::fuzz {
namespace {

using Tags = std::multiset<uint64_t>;

enum Kind : uint8_t {
  kMessage = 0,
  kTakeWritten = 1,
  kTimePasses = 2,  // two to the number of bytes, in milliseconds
  kClose = 3,
  kBreak = 4,
  kDrain = 5,
  kKinds = 6,
};
constexpr size_t kMaxTimeShift = 36;  // two years

// Of a message that the service takes: nothing where it refuses the whole of it.
std::optional<Tags> TagsOf(const std::string& bytes) {
  v1::PipelineRequest request;
  if (!request.ParseFromString(bytes)) {
    const auto repaired = service::RepairTexts(bytes, *v1::PipelineRequest::descriptor());
    if (!repaired || !request.ParseFromString(repaired->bytes)) return std::nullopt;
  }
  if (request.commands_size() > static_cast<int>(core::kMaxBatchCommands)) return std::nullopt;
  Tags tags;
  for (const v1::Command& command : request.commands()) tags.insert(command.tag());
  return tags;
}

void IsError(const v1::Error& error) {
  Require(error.code() != 0 && error.reason() != 0 && !error.message().empty(), "an error says why",
          error.ShortDebugString());
}

// One input, told to a service of its own.
class Story {
 public:
  Story() : stream_(&world_) {}

  void Tell(const Step& step) {
    switch (step.kind % kKinds) {
      case kMessage:
        return Send(step.bytes);
      case kTakeWritten:
        return TakeAllWritten();
      case kTimePasses:
        return world_.Advance(
            core::Duration(int64_t{1} << std::min(step.bytes.size(), kMaxTimeShift)));
      case kClose:
        stream_.Close();
        return;
      case kBreak:
        // gRPC tells a call of this once, and not after its end.
        if (!broken_ && !stream_.finished()) stream_.Break();
        broken_ = true;
        return;
      case kDrain:
        drained_ = true;
        stream_.Drain();
        return;
    }
  }

  void End() {
    // A call that had too much in flight reads on once some of it is answered or written.
    for (int round = 0; round < 2; ++round) {
      TakeAllWritten();
      stream_.Close();
      world_.Drain();
    }
    TakeAllWritten();
    Require(stream_.finished(), "a stream ends when all is answered and written");
    CheckAnswers();
    CheckStatus();
    world_.CheckRecords();
  }

 private:
  void Send(const std::string& bytes) {
    const std::optional<Tags> tags = TagsOf(bytes);
    if (!stream_.Deliver(bytes)) return;
    if (!tags) {
      refused_ = true;
    } else {
      sent_.insert(tags->begin(), tags->end());
    }
  }

  void TakeAllWritten() {
    std::string bytes;
    // A reader that is gone takes nothing.
    while (!broken_ && stream_.TakeWritten(&bytes)) {
      v1::PipelineResponse response;
      Require(response.ParseFromString(bytes), "an answer can be read");
      Require(response.results_size() > 0, "no empty message is written");
      for (const v1::Result& result : response.results()) {
        Require(result.result_case() != v1::Result::RESULT_NOT_SET, "every result says something");
        if (result.has_error()) IsError(result.error());
        answered_.insert(result.tag());
      }
    }
  }

  void CheckAnswers() {
    const bool no_more =
        std::includes(sent_.begin(), sent_.end(), answered_.begin(), answered_.end());
    Require(no_more, "nothing is answered twice, and nothing that was not sent");
    // Whoever stops says that what has no answer is to be sent again.
    if (!broken_ && !drained_ && !refused_) {
      Require(answered_.size() == sent_.size(), "every command is answered");
    }
  }

  void CheckStatus() {
    const grpc::StatusCode code = stream_.status().error_code();
    if (broken_) return;
    if (refused_ && !drained_) {
      Require(code == grpc::StatusCode::INVALID_ARGUMENT, "a message that is none ends the stream");
    } else if (!drained_) {
      Require(code == grpc::StatusCode::OK, "a stream ends well");
    }
  }

  World world_;
  StreamDriver stream_;
  Tags sent_;
  Tags answered_;
  bool refused_ = false;
  bool broken_ = false;
  bool drained_ = false;
};

}  // namespace
}  // namespace idempotency::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  idempotency::fuzz::TellStory<idempotency::fuzz::Story>(data, size);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  using namespace idempotency;
  return fuzz::MutateSteps(data, size, max_size, seed, [](uint8_t kind) {
    return std::unique_ptr<google::protobuf::Message>(
        kind % fuzz::kKinds == fuzz::kMessage ? new v1::PipelineRequest : nullptr);
  });
}
