#include "service/front/batch_call.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "keystore/core/limits.h"
#include "service/error_table.h"
#include "service/front/short_lived.h"
#include "service/wire_time.h"

namespace idempotency::service {
namespace {

// Tags and lengths that the message itself adds to each result.
constexpr size_t kResultOverheadBytes = 8;
// More than any result that holds an error has.
constexpr size_t kErrorBytes = 512;

bool Waits(const google::protobuf::Duration& wait) { return ToSpan(wait).length.count() > 0; }

// A command that waits would hold up all the others.
std::optional<Failure> RefuseWaiting(const v1::Command& command) {
  if (!Waits(command.reserve().wait_duration()) &&
      !Waits(command.get_operation().wait_duration())) {
    return std::nullopt;
  }
  return Failure{core::Reason::kInvalidField, "wait_duration",
                 "A command of a batch cannot wait; send it by itself or in a pipeline.",
                 std::nullopt};
}

std::optional<Failure> CheckSize(const v1::BatchRequest& request) {
  const auto commands = static_cast<size_t>(request.commands_size());
  if (commands <= core::kMaxBatchCommands) return std::nullopt;
  return Failure{core::Reason::kInvalidField, "commands",
                 absl::StrCat("There are ", commands, " commands; send at most ",
                              core::kMaxBatchCommands, " at once."),
                 std::nullopt};
}

v1::Result TooLarge(uint64_t tag) {
  v1::Result result;
  result.set_tag(tag);
  *result.mutable_error() =
      ToError(Failure{core::Reason::kOverloaded,
                      {},
                      "The answer does not fit into the response, and the command may have been "
                      "applied; send it again by itself.",
                      core::Duration::zero()});
  return result;
}

// Whether the command had nothing to change, or at least found that nothing was to be changed.
bool IsOnlyRead(const v1::Result& result) {
  if (result.has_get_operation()) return true;
  return result.has_reserve() && result.reserve().outcome() != v1::RESERVE_OUTCOME_ACQUIRED &&
         result.reserve().outcome() != v1::RESERVE_OUTCOME_ALREADY_HELD;
}

}  // namespace

BatchCall::BatchCall(const FrontDesk* desk, grpc::CallbackServerContext* context,
                     const grpc::ByteBuffer& in, grpc::ByteBuffer* out)
    : UnaryReactor(desk, context, out) {
  Start(in);
}

void BatchCall::Start(const grpc::ByteBuffer& in) {
  Submissions submissions;
  Caller caller;
  if (auto failure = IdentifyCaller(*context(), *desk(), Verb::kBatch, &caller)) {
    return FinishWith(*failure);
  }
  if (std::optional<Failure> failure = ParseAndAdmit(caller, in, &submissions)) {
    return FinishWith(desk()->Refused(caller, Verb::kBatch, *std::move(failure)));
  }
  unanswered_ += submissions.size();
  handles_ = desk()->store()->SubmitAll(std::move(submissions));
  NoteAnswered();
}

std::optional<Failure> BatchCall::ParseAndAdmit(const Caller& caller, const grpc::ByteBuffer& in,
                                                Submissions* submissions) {
  ShortLived<v1::BatchRequest> request;
  RepairedTexts texts;
  if (std::optional<Failure> failure = Parse(in, request.get(), &texts)) return failure;
  if (std::optional<Failure> failure = CheckSize(*request)) return failure;
  const auto commands = static_cast<size_t>(request->commands_size());
  for (size_t i = 0; i < commands; ++i) response_.add_results();
  tickets_.resize(commands);
  submissions->reserve(commands);
  for (size_t i = 0; i < commands; ++i) {
    Admit(caller, texts, request->mutable_commands(static_cast<int>(i)), i, submissions);
  }
  return std::nullopt;
}

void BatchCall::Admit(const Caller& caller, const RepairedTexts& texts, v1::Command* command,
                      size_t index, Submissions* submissions) {
  v1::Result* const result = response_.mutable_results(static_cast<int>(index));
  result->set_tag(command->tag());
  std::optional<Failure> failure = RefuseTexts(texts, static_cast<int>(index));
  if (!failure) failure = RefuseWaiting(*command);
  if (failure) {
    *result->mutable_error() = ToError(desk()->Refused(caller, Verb::kBatch, *std::move(failure)));
    return;
  }
  Admission admission = desk()->Admit(caller, command);
  if (auto* refused = std::get_if<Failure>(&admission)) {
    *result->mutable_error() = ToError(*refused);
    return;
  }
  auto& admitted = std::get<Admitted>(admission);
  tickets_[index] = std::move(admitted.ticket);
  submissions->emplace_back(std::move(admitted.request),
                            [this, index](keystore::Reply reply) { OnReply(reply, index); });
}

void BatchCall::OnReply(const keystore::Reply& reply, size_t index) {
  // A cancelled command leaves its result empty: nobody receives it any more.
  v1::Result* const result = response_.mutable_results(static_cast<int>(index));
  const size_t shown = ShownResponseBytes(reply);
  const bool fits = kept_bytes_ + shown <= core::kMaxSendMessageBytes;
  if (!reply.cancelled && fits && !HoldAnswer(shown)) {
    *result->mutable_error() = ToError(TooMuchHeld());
  } else if (!reply.cancelled) {
    AnswerWithin(core::kMaxSendMessageBytes, *desk(), reply, tickets_[index], &kept_bytes_, result);
  }
  NoteAnswered();
}

void BatchCall::NoteAnswered() {
  if (--unanswered_ > 0) return;
  desk()->NoteAnswered(Verb::kBatch, began_);
  FitResults(core::kMaxSendMessageBytes, &response_);
  FinishWith(response_);
}

void BatchCall::OnCancel() {
  for (const keystore::CancelHandle& handle : handles_) desk()->store()->Cancel(handle);
}

void AnswerWithin(size_t max_bytes, const FrontDesk& desk, const keystore::Reply& reply,
                  const Ticket& ticket, std::atomic<size_t>* kept_bytes, v1::Result* result) {
  if (const size_t shown = ShownResponseBytes(reply);
      shown > 0 && kept_bytes->load() + shown > max_bytes) {
    *result = TooLarge(result->tag());
    return;
  }
  desk.Answer(reply, ticket, result);
  const size_t bytes = result->ByteSizeLong() + kResultOverheadBytes;
  const size_t kept = kept_bytes->fetch_add(bytes) + bytes;
  if (kept <= max_bytes || !IsOnlyRead(*result)) return;
  *result = TooLarge(result->tag());
  kept_bytes->fetch_sub(bytes);
}

void FitResults(size_t max_bytes, v1::BatchResponse* response) {
  if (response->ByteSizeLong() <= max_bytes) return;
  // Room for an error is set aside for every result; what is left over is given out in two
  // rounds.
  const size_t count = static_cast<size_t>(response->results_size());
  size_t left = max_bytes - std::min(max_bytes, count * kErrorBytes);
  for (const bool only_read : {false, true}) {
    for (v1::Result& result : *response->mutable_results()) {
      if (IsOnlyRead(result) != only_read || result.has_error()) continue;
      const size_t bytes = result.ByteSizeLong() + kResultOverheadBytes;
      const size_t extra = bytes - std::min(bytes, kErrorBytes);
      if (extra > left) {
        result = TooLarge(result.tag());
      } else {
        left -= extra;
      }
    }
  }
}

}  // namespace idempotency::service
