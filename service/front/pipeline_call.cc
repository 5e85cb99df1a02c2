#include "service/front/pipeline_call.h"

#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "keystore/core/limits.h"
#include "service/front/short_lived.h"
#include "service/front/transport.h"

namespace idempotency::service {
namespace {

// Results are not held back beyond either.
constexpr size_t kRipeResults = 512;
constexpr size_t kRipeBytes = 1024 * 1024;

std::string ErrorResult(uint64_t tag, const Failure& failure) {
  v1::PipelineResponse response;
  v1::Result* const result = response.add_results();
  result->set_tag(tag);
  *result->mutable_error() = ToError(failure);
  return response.SerializeAsString();
}

Failure TooManyCommands(size_t commands) {
  return Failure{core::Reason::kInvalidField, "commands",
                 absl::StrCat("There are ", commands, " commands in a message; send at most ",
                              core::kMaxBatchCommands, " in each."),
                 std::nullopt};
}

Failure TagInFlight() {
  return Failure{core::Reason::kInvalidField, "tag",
                 "A command with this tag is in flight; choose another tag for this one.",
                 std::nullopt};
}

// What the answers before it leave no room for.
Failure TooMuchHeld() {
  return Failure{core::Reason::kOverloaded,
                 {},
                 "Too many large answers of this stream have not been taken; take them, and send "
                 "the command again.",
                 core::kOverloadRetryAfter};
}

// Of the response that the command reports; all else in a command is small.
size_t ReportedBytes(const core::Command& command) {
  const auto* complete = std::get_if<core::CompleteCommand>(&command);
  return complete == nullptr ? 0 : complete->response.bytes.view().size();
}

Failure Stopping() {
  return Failure{core::Reason::kStoreUnavailable,
                 {},
                 "The service is stopping; send the commands without an answer again, to the one "
                 "that takes over.",
                 std::nullopt};
}

}  // namespace

// --- The registry -------------------------------------------------------------------------------

void PipelineRegistry::Drain() {
  std::set<std::shared_ptr<PipelineCall>> calls;
  {
    absl::MutexLock lock(&mutex_);
    draining_ = true;
    calls = calls_;
  }
  for (const std::shared_ptr<PipelineCall>& call : calls) call->Drain();
}

bool PipelineRegistry::Add(std::shared_ptr<PipelineCall> call) {
  absl::MutexLock lock(&mutex_);
  calls_.insert(std::move(call));
  return !draining_;
}

void PipelineRegistry::Remove(std::shared_ptr<PipelineCall> call) {
  absl::MutexLock lock(&mutex_);
  calls_.erase(call);
}

// --- The life of a call -------------------------------------------------------------------------

PipelineCall::PipelineCall(const FrontDesk* desk, PipelineRegistry* registry,
                           grpc::CallbackServerContext* context)
    : desk_(desk), registry_(registry), context_(context) {
  desk_->calls()->Enter();
}

PipelineCall* PipelineCall::Start(const FrontDesk* desk, PipelineRegistry* registry,
                                  grpc::CallbackServerContext* context) {
  std::shared_ptr<PipelineCall> call(new PipelineCall(desk, registry, context));
  call->self_ = call;
  if (!registry->Add(call)) call->Drain();
  call->Do(Todo{.read = true});
  return call.get();
}

void PipelineCall::OnDone() {
  keystore::Outstanding* const calls = desk_->calls();
  registry_->Remove(std::move(self_));
  calls->Leave();
}

void PipelineCall::OnReadDone(bool ok) {
  if (ok) {
    Intake intake;
    if (TakeIn(&intake)) Submit(std::move(intake));
    // The call may be over by now.
    return;
  }
  Todo todo;
  {
    absl::MutexLock lock(&mutex_);
    reading_ = false;
    closed_ = true;
    Advance(&todo);
  }
  Do(std::move(todo));
}

void PipelineCall::OnWriteDone(bool ok) {
  Todo todo;
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    // Whoever does not take one message will not take the next.
    if (!ok) cancelled_ = true;
    if (!ok) Stop(&todo);
    Advance(&todo);
  }
  Do(std::move(todo));
}

void PipelineCall::OnCancel() {
  Todo todo;
  {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    Stop(&todo);
    Advance(&todo);
  }
  Do(std::move(todo));
}

void PipelineCall::Drain() {
  Todo todo;
  {
    absl::MutexLock lock(&mutex_);
    if (!failure_) failure_ = Stopping();
    Stop(&todo);
    Advance(&todo);
  }
  Do(std::move(todo));
}

void PipelineCall::RefuseStream(Failure failure) {
  Todo todo;
  {
    absl::MutexLock lock(&mutex_);
    reading_ = false;
    if (!failure_) failure_ = std::move(failure);
    Stop(&todo);
    Advance(&todo);
  }
  Do(std::move(todo));
}

// --- One message --------------------------------------------------------------------------------

bool PipelineCall::TakeIn(Intake* intake) {
  Caller caller;
  if (auto unknown = IdentifyCaller(*context_, *desk_, Verb::kPipeline, &caller)) {
    in_.Clear();
    RefuseStream(*std::move(unknown));
    return false;
  }
  // It is of whoever has opened the stream: each command may be of another trace.
  caller.trace = {};
  ShortLived<v1::PipelineRequest> request;
  RepairedTexts texts;
  std::optional<Failure> failure = Parse(in_, request.get(), &texts);
  in_.Clear();
  const auto commands = static_cast<size_t>(request->commands_size());
  if (commands > core::kMaxBatchCommands) failure = TooManyCommands(commands);
  if (failure) {
    RefuseStream(desk_->Refused(caller, Verb::kPipeline, *std::move(failure)));
    return false;
  }
  if (!BeginHandling()) return false;
  intake->prompt->flights.reserve(commands);
  intake->submissions.reserve(commands);
  for (int i = 0; i < request->commands_size(); ++i) {
    v1::Command* const command = request->mutable_commands(i);
    if (std::optional<Failure> repaired = RefuseTexts(texts, i)) {
      repaired = desk_->Refused(caller, Verb::kPipeline, *std::move(repaired));
      intake->errors.push_back(ErrorResult(command->tag(), *repaired));
    } else {
      AdmitOne(caller, command, intake);
    }
  }
  return true;
}

bool PipelineCall::BeginHandling() {
  Todo todo;
  {
    absl::MutexLock lock(&mutex_);
    reading_ = false;
    handling_ = !finished_ && !failure_;
    if (handling_) {
      for (const uint64_t tag : answered_tags_) tags_.erase(tag);
      answered_tags_.clear();
      return true;
    }
    Advance(&todo);
  }
  Do(std::move(todo));
  return false;
}

void PipelineCall::AdmitOne(const Caller& caller, v1::Command* command, Intake* intake) {
  const uint64_t tag = command->tag();
  if (!tags_.insert(tag).second) {
    return intake->errors.push_back(ErrorResult(tag, TagInFlight()));
  }
  Admission admission = desk_->Admit(caller, command);
  if (auto* failure = std::get_if<Failure>(&admission)) {
    tags_.erase(tag);
    return intake->errors.push_back(ErrorResult(tag, *failure));
  }
  auto& admitted = std::get<Admitted>(admission);
  Message* message = intake->prompt.get();
  if (admitted.request.wait > core::Duration::zero()) {
    message = intake->waiting.emplace_back(std::make_shared<Message>()).get();
    message->waits = true;
    intake->waits.emplace_back(intake->submissions.size(), tag);
  }
  const size_t request_bytes = ReportedBytes(admitted.request.command);
  intake->request_bytes += request_bytes;
  Flight* const flight = &message->flights.emplace_back(
      Flight{message, tag, std::move(admitted.ticket), request_bytes});
  intake->submissions.emplace_back(
      std::move(admitted.request),
      [this, flight](keystore::Reply reply) { OnReply(flight, reply); });
}

void PipelineCall::Submit(Intake intake) {
  {
    absl::MutexLock lock(&mutex_);
    for (std::string& error : intake.errors) PutOut(std::move(error));
    for (const auto& [submission, tag] : intake.waits)
      waiting_.emplace(tag, keystore::CancelHandle{});
    prompt_in_flight_ += intake.prompt->flights.size();
    request_bytes_in_flight_ += intake.request_bytes;
    intake.waiting.push_back(intake.prompt);
    for (const std::shared_ptr<Message>& message : intake.waiting) {
      message->unanswered = message->flights.size();
      if (message->unanswered > 0) message->self = message;
    }
  }
  // The next message is read before these commands are run: this thread may be busy with them,
  // and with those of others, for as long as a commit takes.
  desk_->store()->SubmitAll(std::move(intake.submissions),
                            [&](const auto& handles) { EndHandling(intake, handles); });
}

void PipelineCall::EndHandling(const Intake& intake,
                               const std::vector<keystore::CancelHandle>& handles) {
  Todo todo;
  {
    absl::MutexLock lock(&mutex_);
    handling_ = false;
    for (const auto& [submission, tag] : intake.waits) {
      // It may have been answered. No tag has been used again: nothing was read since.
      const auto waiting = waiting_.find(tag);
      if (waiting != waiting_.end()) waiting->second = handles[submission];
    }
    if (IsStopping()) Stop(&todo);
    if (intake.prompt->unanswered == 0) Ripen();
    Advance(&todo);
  }
  Do(std::move(todo));
}

void PipelineCall::OnReply(Flight* flight, const keystore::Reply& reply) {
  // Nobody receives any more what a cancelled command would be answered.
  std::string result;
  if (!reply.cancelled) result = ResultOf(*flight, reply);
  std::shared_ptr<Message> answered;  // to be freed without the lock
  Todo todo;
  {
    absl::MutexLock lock(&mutex_);
    if (!reply.cancelled) PutOut(std::move(result));
    Message* const message = flight->message;
    if (message->waits) {
      waiting_.erase(flight->tag);
    } else {
      --prompt_in_flight_;
    }
    answered_tags_.push_back(flight->tag);
    request_bytes_in_flight_ -= flight->request_bytes;
    if (--message->unanswered == 0) {
      answered = std::move(message->self);
      Ripen();
    }
    Advance(&todo);
  }
  Do(std::move(todo));
}

std::string PipelineCall::ResultOf(const Flight& flight, const keystore::Reply& reply) {
  ShortLived<v1::PipelineResponse> response;
  v1::Result* const result = response->add_results();
  result->set_tag(flight.tag);
  if (HasRoomFor(ShownResponseBytes(reply))) {
    desk_->Answer(reply, flight.ticket, result);
  } else {
    *result->mutable_error() = ToError(TooMuchHeld());
  }
  return response->SerializeAsString();
}

bool PipelineCall::HasRoomFor(size_t response_bytes) {
  if (response_bytes == 0) return true;
  absl::MutexLock lock(&mutex_);
  return outbox_.bytes() + response_bytes <= kMaxPipelineHeldBytes;
}

// --- What happens next --------------------------------------------------------------------------

void PipelineCall::PutOut(std::string result) {
  outbox_.Add(std::move(result));
  if (outbox_.results() >= kRipeResults || outbox_.bytes() >= kRipeBytes) Ripen();
}

void PipelineCall::Stop(Todo* todo) {
  closed_ = true;
  for (const auto& [tag, handle] : waiting_) todo->cancel.push_back(handle);
}

void PipelineCall::Advance(Todo* todo) {
  // gRPC takes nothing after the end; a read may still come back.
  if (finished_) return;
  if (cancelled_) outbox_.Clear();
  if (!IsAnyInFlight() && !handling_) Ripen();
  if (ripe_ && !writing_ && !outbox_.empty()) {
    writing_ = true;
    todo->write = outbox_.Take(core::kMaxSendMessageBytes);
    ripe_ = !outbox_.empty();
  }
  if (MayRead()) {
    reading_ = true;
    starting_read_ = true;
    todo->read = true;
  }
  if (!IsOver()) return;
  finished_ = true;
  if (cancelled_) {
    todo->finish = grpc::Status(grpc::StatusCode::CANCELLED, "The caller has gone.");
  } else {
    todo->finish = failure_ ? RefuseCall(*failure_, context_) : grpc::Status::OK;
  }
}

bool PipelineCall::MayRead() const {
  return !reading_ && !handling_ && !closed_ && prompt_in_flight_ < kMaxPipelinedCommands &&
         outbox_.bytes() < kMaxPipelineOutboxBytes &&
         request_bytes_in_flight_ <= kMaxPipelineRequestBytes;
}

bool PipelineCall::IsOver() const {
  return closed_ && !IsAnyInFlight() && outbox_.empty() && !writing_ && !handling_ &&
         !starting_read_ && !finished_;
}

void PipelineCall::Do(Todo todo) {
  for (const keystore::CancelHandle& handle : todo.cancel) desk_->store()->Cancel(handle);
  while (std::exchange(todo.read, false)) {
    StartRead(&in_);
    absl::MutexLock lock(&mutex_);
    starting_read_ = false;
    Advance(&todo);
  }
  if (!todo.write.empty()) {
    ToMessage(std::move(todo.write)).Swap(&out_);
    StartWrite(&out_);
  } else if (todo.finish) {
    Finish(*todo.finish);
  }
}

}  // namespace idempotency::service
