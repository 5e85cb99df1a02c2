#include "service/front/pipeline_call.h"

#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "keystore/core/limits.h"
#include "service/front/transport.h"

namespace idempotency::service {
namespace {

// Results are not held back beyond either.
constexpr size_t kRipeResults = 512;
constexpr size_t kRipeBytes = 1024 * 1024;
// Tags and lengths that a message adds to each result.
constexpr size_t kResultOverheadBytes = 8;

v1::Result ErrorResult(uint64_t tag, const Failure& failure) {
  v1::Result result;
  result.set_tag(tag);
  *result.mutable_error() = ToError(failure);
  return result;
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
  ActiveCalls* const calls = desk_->calls();
  registry_->Remove(std::move(self_));
  calls->Leave();
}

void PipelineCall::OnReadDone(bool ok) {
  v1::PipelineRequest request;
  std::optional<Failure> failure;
  RepairedTexts texts;
  if (ok) failure = Parse(in_, &request, &texts);
  in_.Clear();
  const auto commands = static_cast<size_t>(request.commands_size());
  if (commands > core::kMaxBatchCommands) failure = TooManyCommands(commands);
  if (failure) return RefuseStream(desk_->Refused(Verb::kPipeline, *std::move(failure)));
  if (ok) return Handle(std::move(request), texts);

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

bool PipelineCall::BeginHandling() {
  Todo todo;
  {
    absl::MutexLock lock(&mutex_);
    reading_ = false;
    handling_ = !finished_ && !failure_;
    if (handling_) return true;
    Advance(&todo);
  }
  Do(std::move(todo));
  return false;
}

void PipelineCall::Handle(v1::PipelineRequest request, const RepairedTexts& texts) {
  if (!BeginHandling()) return;
  const auto message = std::make_shared<Message>();
  const Caller caller = CallerOf(*context_);
  Submissions submissions;
  std::vector<uint64_t> tags;  // of the submissions
  for (int i = 0; i < request.commands_size(); ++i) {
    v1::Command* const command = request.mutable_commands(i);
    if (std::optional<Failure> failure = RefuseTexts(texts, i)) {
      failure = desk_->Refused(Verb::kPipeline, *std::move(failure));
      absl::MutexLock lock(&mutex_);
      PutOut(ErrorResult(command->tag(), *failure));
      continue;
    }
    AdmitOne(caller, command, message, &submissions, &tags);
  }
  // What is large in it has been taken over or cut by now.
  request.Clear();
  const std::vector<keystore::CancelHandle> handles =
      desk_->store()->SubmitAll(std::move(submissions));
  Todo todo;
  {
    absl::MutexLock lock(&mutex_);
    handling_ = false;
    for (size_t i = 0; i < tags.size(); ++i) {
      const auto flight = in_flight_.find(tags[i]);
      // No tag has been used again: nothing was read since.
      if (flight != in_flight_.end()) flight->second.handle = handles[i];
    }
    if (IsStopping()) Stop(&todo);
    if (message->unanswered == 0) Ripen();
    Advance(&todo);
  }
  Do(std::move(todo));
}

void PipelineCall::AdmitOne(const Caller& caller, v1::Command* command,
                            const std::shared_ptr<Message>& message, Submissions* submissions,
                            std::vector<uint64_t>* tags) {
  const uint64_t tag = command->tag();
  {
    absl::MutexLock lock(&mutex_);
    if (in_flight_.contains(tag)) return PutOut(ErrorResult(tag, TagInFlight()));
  }
  Admission admission = desk_->Admit(caller, command);
  absl::MutexLock lock(&mutex_);
  if (auto* failure = std::get_if<Failure>(&admission)) return PutOut(ErrorResult(tag, *failure));
  auto& admitted = std::get<Admitted>(admission);
  const bool waits = admitted.request.wait > core::Duration::zero();
  if (!waits) {
    ++message->unanswered;
    ++prompt_in_flight_;
  }
  const size_t request_bytes = ReportedBytes(admitted.request.command);
  request_bytes_in_flight_ += request_bytes;
  in_flight_.emplace(
      tag, Flight{std::move(admitted.ticket), waits ? nullptr : message, {}, request_bytes});
  tags->push_back(tag);
  submissions->emplace_back(std::move(admitted.request),
                            [this, tag](keystore::Reply reply) { OnReply(tag, reply); });
}

void PipelineCall::OnReply(uint64_t tag, const keystore::Reply& reply) {
  Ticket ticket;
  bool fits = true;
  {
    absl::MutexLock lock(&mutex_);
    // It stays in flight until its result is out.
    ticket = std::move(in_flight_.at(tag).ticket);
    const size_t shown = ShownResponseBytes(reply);
    fits = shown == 0 || outbox_bytes_ + shown <= kMaxPipelineHeldBytes;
  }
  v1::Result result;
  result.set_tag(tag);
  if (!fits) *result.mutable_error() = ToError(TooMuchHeld());
  if (fits && !reply.cancelled) desk_->Answer(reply, ticket, &result);
  Todo todo;
  {
    absl::MutexLock lock(&mutex_);
    if (!reply.cancelled) PutOut(std::move(result));
    const auto flight = in_flight_.find(tag);
    Message* const message = flight->second.message.get();
    if (message != nullptr) --prompt_in_flight_;
    if (message == nullptr || --message->unanswered == 0) Ripen();
    request_bytes_in_flight_ -= flight->second.request_bytes;
    in_flight_.erase(flight);
    Advance(&todo);
  }
  Do(std::move(todo));
}

// --- What happens next --------------------------------------------------------------------------

void PipelineCall::PutOut(v1::Result result) {
  const size_t bytes = result.ByteSizeLong() + kResultOverheadBytes;
  outbox_bytes_ += bytes;
  outbox_.push_back(Outgoing{std::move(result), bytes});
  if (outbox_.size() >= kRipeResults || outbox_bytes_ >= kRipeBytes) Ripen();
}

void PipelineCall::Stop(Todo* todo) {
  closed_ = true;
  for (const auto& [tag, flight] : in_flight_) {
    if (flight.message == nullptr) todo->cancel.push_back(flight.handle);
  }
}

void PipelineCall::Advance(Todo* todo) {
  // gRPC takes nothing after the end; a read may still come back.
  if (finished_) return;
  if (cancelled_) {
    outbox_.clear();
    outbox_bytes_ = 0;
  }
  if (in_flight_.empty() && !handling_) Ripen();
  if (ripe_ && !writing_ && !outbox_.empty()) {
    writing_ = true;
    todo->write = TakeResponse();
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

v1::PipelineResponse PipelineCall::TakeResponse() {
  v1::PipelineResponse response;
  size_t bytes = 0;
  while (!outbox_.empty()) {
    Outgoing& next = outbox_.front();
    bytes += next.bytes;
    if (bytes > core::kMaxSendMessageBytes && response.results_size() > 0) return response;
    *response.add_results() = std::move(next.result);
    outbox_bytes_ -= next.bytes;
    outbox_.pop_front();
  }
  ripe_ = false;
  return response;
}

bool PipelineCall::MayRead() const {
  return !reading_ && !handling_ && !closed_ && prompt_in_flight_ < kMaxPipelinedCommands &&
         outbox_bytes_ < kMaxPipelineOutboxBytes &&
         request_bytes_in_flight_ <= kMaxPipelineRequestBytes;
}

bool PipelineCall::IsOver() const {
  return closed_ && in_flight_.empty() && outbox_.empty() && !writing_ && !handling_ &&
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
  if (todo.write) {
    // Results have their bound, so that a message of them cannot fail to serialize.
    (void)Serialize(*todo.write, &out_);
    StartWrite(&out_);
  } else if (todo.finish) {
    Finish(*todo.finish);
  }
}

}  // namespace idempotency::service
