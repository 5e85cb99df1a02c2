#include "client/src/pipeline.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace idempotency::internal {
namespace {

// Whether the service, or something before it, does not take the stream at all; everything else
// may be the fault of the way there.
bool IsStreamRefused(absl::StatusCode code) {
  return code == absl::StatusCode::kInvalidArgument || code == absl::StatusCode::kNotFound ||
         code == absl::StatusCode::kAlreadyExists || code == absl::StatusCode::kPermissionDenied ||
         code == absl::StatusCode::kResourceExhausted ||
         code == absl::StatusCode::kFailedPrecondition || code == absl::StatusCode::kOutOfRange ||
         code == absl::StatusCode::kUnimplemented || code == absl::StatusCode::kUnauthenticated;
}

absl::Status Broken(const absl::Status& how) {
  return absl::UnavailableError(
      absl::StrCat("the stream to the service broke: ",
                   how.ok() ? "the service closed it" : std::string(how.message())));
}

}  // namespace

struct Pipeline::Gate {
  absl::Mutex mutex;
  int streams ABSL_GUARDED_BY(mutex) = 0;

  void Enter() {
    absl::MutexLock lock(&mutex);
    ++streams;
  }
  void Leave() {
    absl::MutexLock lock(&mutex);
    --streams;
  }
  void AwaitEmpty() {
    const auto empty = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return streams == 0; };
    absl::MutexLock lock(&mutex);
    mutex.Await(absl::Condition(&empty));
  }
};

// --- The stream ----------------------------------------------------------------------------------

// Holds itself until gRPC is done with it.
class Pipeline::Stream final
    : public grpc::ClientBidiReactor<v1::PipelineRequest, v1::PipelineResponse> {
 public:
  explicit Stream(std::shared_ptr<Pipeline> pipeline) : pipeline_(std::move(pipeline)) {}

  // A failure: nothing was started, and nothing will be called.
  absl::Status Open(std::shared_ptr<Stream> self) {
    const Wires& wires = *pipeline_->wires_;
    if (absl::Status unfit = wires.Prepare(&context_); !unfit.ok()) return unfit;
    self_ = std::move(self);
    pipeline_->gate_->Enter();
    wires.service()->Pipeline(&context_, this);
    // Writes come from outside of the reactions.
    AddHold();
    StartRead(&response_);
    StartCall();
    return absl::OkStatus();
  }

  void Write(std::shared_ptr<const v1::PipelineRequest> request) {
    request_ = std::move(request);
    StartWrite(request_.get());
  }

  void Release() { RemoveHold(); }
  void Cancel() { context_.TryCancel(); }

 private:
  void OnReadDone(bool ok) override {
    const InReaction reaction;
    if (!ok) return pipeline_->OnReadEnd();
    Todo todo = pipeline_->OnResponse(&response_);
    const std::shared_ptr<Pipeline> pipeline = pipeline_;
    // From here on the stream may be gone.
    StartRead(&response_);
    pipeline->Do(std::move(todo));
  }

  void OnWriteDone(bool ok) override {
    const InReaction reaction;
    pipeline_->OnWritten();
  }

  void OnDone(const grpc::Status& status) override {
    const InReaction reaction;
    std::shared_ptr<Stream> self = std::move(self_);
    const std::shared_ptr<Gate> gate = pipeline_->gate_;
    pipeline_->OnStreamEnd(StatusOf(status, context_));
    // Whoever waits at the gate is to be the last who lets go of the pipeline.
    self.reset();
    gate->Leave();
  }

  // The last to go.
  const std::shared_ptr<Pipeline> pipeline_;
  grpc::ClientContext context_;
  std::shared_ptr<const v1::PipelineRequest> request_;
  v1::PipelineResponse response_;
  std::shared_ptr<Stream> self_;
};

// --- Commands ------------------------------------------------------------------------------------

Pipeline::Pipeline(std::shared_ptr<const Wires> wires)
    : wires_(std::move(wires)), gate_(std::make_shared<Gate>()) {}

uint64_t Pipeline::NewTag() {
  absl::MutexLock lock(&mutex_);
  return ++last_tag_;
}

void Pipeline::Send(uint64_t tag, v1::Command command, Done done) {
  command.set_tag(tag);
  Flight flight{.command = std::move(command), .done = std::move(done)};
  flight.bytes = flight.command.ByteSizeLong();
  Todo todo;
  {
    absl::MutexLock lock(&mutex_);
    flights_.emplace(tag, std::move(flight));
    unwritten_.push_back(tag);
    if (closed_) EndAll(absl::CancelledError("the connection is closed"), &todo);
    Advance(&todo);
  }
  Do(std::move(todo));
}

bool Pipeline::Forget(uint64_t tag, Why why) {
  Flight forgotten;  // what it holds goes without the lock
  Todo todo;
  {
    absl::MutexLock lock(&mutex_);
    const auto flight = flights_.find(tag);
    if (flight == flights_.end()) return false;
    forgotten = std::move(flight->second);
    flights_.erase(flight);
    Close(forgotten);
    const bool silence = forgotten.heard_before == heard_ && stream_ != nullptr && !broken_;
    if (why == Why::kTimedOut && silence) todo.cancel = stream_;
    if (stream_ != nullptr) Advance(&todo);
  }
  Do(std::move(todo));
  return true;
}

void Pipeline::Close() {
  Todo todo;
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    todo.cancel = stream_;
    EndAll(absl::CancelledError("the connection was closed"), &todo);
  }
  Do(std::move(todo));
  if (!InReaction::Here()) gate_->AwaitEmpty();
}

void Pipeline::EndAll(const absl::Status& status, Todo* todo) {
  for (auto& [tag, flight] : flights_) {
    todo->ended.emplace_back(std::move(flight.done), PipelineAnswer{status});
  }
  flights_.clear();
  unwritten_.clear();
  open_messages_.clear();
}

// --- What happens next ---------------------------------------------------------------------------

void Pipeline::Advance(Todo* todo) {
  if (stream_ == nullptr) {
    if (flights_.empty()) return;
    stream_ = std::make_shared<Stream>(shared_from_this());
    heard_ = 0;
    opening_ = true;
    todo->open = stream_;
    return;
  }
  if (opening_ || writing_) return;
  if (broken_) {
    if (!std::exchange(released_, true)) todo->release = stream_;
    return;
  }
  if (open_messages_.size() >= kMaxOpenMessages) return;
  todo->request = TakeRequest();
  if (todo->request == nullptr) return;
  writing_ = true;
  todo->write = stream_;
}

void Pipeline::Close(const Flight& flight) {
  const auto message = open_messages_.find(flight.message);
  if (message == open_messages_.end()) return;
  if (--message->second.unanswered == 0) open_messages_.erase(message);
}

std::shared_ptr<const v1::PipelineRequest> Pipeline::TakeRequest() {
  Message message{std::make_shared<v1::PipelineRequest>()};
  size_t bytes = 0;
  while (!unwritten_.empty() && message.unanswered < kMaxPipelineCommands) {
    const auto entry = flights_.find(unwritten_.front());
    if (entry != flights_.end()) {
      Flight& flight = entry->second;
      bytes += flight.bytes;
      if (bytes > kMaxPipelineBytes && message.unanswered > 0) break;
      flight.written = message.request->add_commands();
      flight.written->Swap(&flight.command);
      flight.heard_before = heard_;
      flight.message = last_message_ + 1;
      ++message.unanswered;
    }
    unwritten_.pop_front();
  }
  if (message.unanswered == 0) return nullptr;
  std::shared_ptr<const v1::PipelineRequest> request = message.request;
  open_messages_.emplace(++last_message_, std::move(message));
  return request;
}

void Pipeline::Do(Todo todo) {
  while (todo.open != nullptr) {
    const std::shared_ptr<Stream> stream = std::move(todo.open);
    todo.open = nullptr;
    OnOpened(stream->Open(stream), &todo);
  }
  if (todo.write != nullptr) todo.write->Write(std::move(todo.request));
  if (todo.cancel != nullptr) todo.cancel->Cancel();
  if (todo.release != nullptr) todo.release->Release();
  for (auto& [done, answer] : todo.ended) std::move(done)(std::move(answer));
}

void Pipeline::OnOpened(const absl::Status& opened, Todo* todo) {
  absl::MutexLock lock(&mutex_);
  opening_ = false;
  if (opened.ok()) return Advance(todo);
  stream_ = nullptr;
  EndAll(opened, todo);
}

// --- What the stream says ------------------------------------------------------------------------

Pipeline::Todo Pipeline::OnResponse(v1::PipelineResponse* response) {
  Todo todo;
  absl::MutexLock lock(&mutex_);
  ++heard_;
  for (v1::Result& result : *response->mutable_results()) {
    const auto flight = flights_.find(result.tag());
    if (flight == flights_.end()) continue;  // forgotten
    todo.ended.emplace_back(std::move(flight->second.done), PipelineAnswer{std::move(result)});
    Close(flight->second);
    flights_.erase(flight);
  }
  Advance(&todo);
  return todo;
}

void Pipeline::OnReadEnd() {
  Todo todo;
  {
    absl::MutexLock lock(&mutex_);
    broken_ = true;
    Advance(&todo);
  }
  Do(std::move(todo));
}

void Pipeline::OnWritten() {
  Todo todo;
  {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    Advance(&todo);
  }
  Do(std::move(todo));
}

void Pipeline::OnStreamEnd(const absl::Status& status) {
  Todo todo;
  {
    absl::MutexLock lock(&mutex_);
    stream_ = nullptr;
    broken_ = false;
    released_ = false;
    unwritten_.clear();
    const bool refused = IsStreamRefused(status.code());
    for (auto next = flights_.begin(); next != flights_.end();) {
      const auto flight = next++;
      ++flight->second.broken_streams;
      flight->second.heard_before = std::nullopt;
      if (flight->second.written != nullptr) flight->second.command.Swap(flight->second.written);
      flight->second.written = nullptr;
      if (!refused && flight->second.broken_streams < kMaxBrokenStreams) {
        unwritten_.push_back(flight->first);
        continue;
      }
      todo.ended.emplace_back(
          std::move(flight->second.done),
          PipelineAnswer{.result = refused ? status : Broken(status), .stream_refused = refused});
      flights_.erase(flight);
    }
    open_messages_.clear();
    Advance(&todo);
  }
  Do(std::move(todo));
}

}  // namespace idempotency::internal
