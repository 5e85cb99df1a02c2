#include "tests/bench/pipeline_load.h"

#include <deque>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "grpcpp/support/async_stream.h"
#include "tests/bench/channels.h"

namespace idempotency::bench {
namespace {

using grpc::internal::RpcMethod;
using ReaderWriter = grpc::ClientAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;
using Factory = grpc::internal::ClientAsyncReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>;

constexpr char kPipeline[] = "/idempotency.v1.IdempotencyService/Pipeline";

}  // namespace

struct PipelineLoad::Message : Slot {
  Stream* stream = nullptr;
  uint64_t first_tag = 0;
  bool in_flight = false;  // guarded by the stream's lock
  std::string bytes;
};

// One stream: writes one message at a time, in the order in which they are sent, and always
// reads. What is read is handled by the thread of its queue alone.
//
// Thread safety: Send may be called from any thread.
class PipelineLoad::Stream {
 public:
  // What a tag in the queue stands for.
  struct Event {
    Stream* stream;
    void (Stream::*handle)(bool ok);
  };

  Stream(PipelineLoad* load, std::shared_ptr<grpc::Channel> channel, grpc::CompletionQueue* queue)
      : load_(load),
        channel_(std::move(channel)),
        method_(kPipeline, nullptr, RpcMethod::BIDI_STREAMING, channel_),
        rpc_(Factory::Create(channel_.get(), queue, method_, &context_, false, nullptr)) {}

  void Start() {
    rpc_->StartCall(&started_);
    opened_.WaitForNotification();
  }

  void Add(Message* message) { messages_.push_back(message); }

  void Send(Message* message) ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      if (!lost_) {
        message->in_flight = true;
        waiting_.push_back(message);
        if (!writing_) WriteNext();
        return;
      }
    }
    load_->OnLost(message, "the stream has ended");
  }

  void OnAnswered(Message* message) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    message->in_flight = false;
  }

  // Nothing is in flight any more.
  void Close() {
    {
      absl::MutexLock lock(&mutex_);
      if (!lost_) rpc_->WritesDone(&closed_writes_);
    }
    closed_.WaitForNotification();
  }

 private:
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    writing_ = !waiting_.empty();
    if (!writing_) return;
    rpc_->Write(ToByteBuffer(waiting_.front()->bytes), &written_);
    waiting_.pop_front();
  }

  void OnStarted(bool ok) {
    if (ok) {
      rpc_->Read(&in_, &read_);
    } else {
      rpc_->Finish(&status_, &finished_);
    }
    opened_.Notify();
  }
  void OnWritten(bool ok) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    // Where it has failed, reading fails too, and tells.
    if (ok) WriteNext();
  }
  void OnRead(bool ok) {
    if (!ok) return rpc_->Finish(&status_, &finished_);
    grpc::ByteBuffer message;
    message.Swap(&in_);
    // Answers are counted before the next ones are handled: one thread serves the queue.
    rpc_->Read(&in_, &read_);
    grpc::Slice slice;
    load_->OnResults(OnePiece(message, &slice));
  }
  void OnWritesClosed(bool) {}
  void OnFinished(bool) ABSL_LOCKS_EXCLUDED(mutex_) {
    std::vector<Message*> lost;
    {
      absl::MutexLock lock(&mutex_);
      lost_ = true;
      waiting_.clear();
      for (Message* message : messages_) {
        if (std::exchange(message->in_flight, false)) lost.push_back(message);
      }
    }
    const std::string why = Describe(status_, context_);
    for (Message* message : lost) load_->OnLost(message, why);
    closed_.Notify();
  }

  PipelineLoad* const load_;
  const std::shared_ptr<grpc::Channel> channel_;
  const RpcMethod method_;
  grpc::ClientContext context_;
  grpc::Status status_;
  grpc::ByteBuffer in_;
  std::vector<Message*> messages_;
  absl::Notification opened_;
  absl::Notification closed_;
  Event started_{this, &Stream::OnStarted};
  Event read_{this, &Stream::OnRead};
  Event written_{this, &Stream::OnWritten};
  Event closed_writes_{this, &Stream::OnWritesClosed};
  Event finished_{this, &Stream::OnFinished};

  absl::Mutex mutex_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool lost_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Message*> waiting_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<ReaderWriter> rpc_;
};

PipelineLoad::PipelineLoad(Plan* plan) : Load(plan) {}
PipelineLoad::~PipelineLoad() = default;

void PipelineLoad::Open() {
  std::vector<Meter*> meters;
  for (int i = 0; i < options().threads; ++i) {
    queues_.push_back(std::make_unique<grpc::CompletionQueue>());
    meters.push_back(NewMeter());
    threads_.emplace_back([this, queue = queues_.back().get()] { Serve(queue); });
  }
  for (auto& channel : Connect(options().target, options().connections)) {
    grpc::CompletionQueue* const queue = queues_[streams_.size() % queues_.size()].get();
    streams_.push_back(std::make_unique<Stream>(this, std::move(channel), queue));
  }
  const auto commands = static_cast<uint64_t>(options().commands);
  for (int i = 0; i < options().in_flight; ++i) {
    auto message = std::make_unique<Message>();
    const size_t stream = static_cast<size_t>(i) % streams_.size();
    message->stream = streams_[stream].get();
    message->first_tag = static_cast<uint64_t>(i) * commands;
    message->stream->Add(message.get());
    AddSlot(message.get(), commands, meters[stream % meters.size()]);
    messages_.push_back(std::move(message));
  }
  for (const auto& stream : streams_) stream->Start();
}

void PipelineLoad::Close() {
  for (const auto& stream : streams_) stream->Close();
  for (const auto& queue : queues_) queue->Shutdown();
  for (std::thread& thread : threads_) thread.join();
}

void PipelineLoad::Serve(grpc::CompletionQueue* queue) {
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) {
    const auto* const event = static_cast<const Stream::Event*>(tag);
    (event->stream->*event->handle)(ok);
  }
}

void PipelineLoad::Send(Slot* slot) {
  auto* const message = static_cast<Message*>(slot);
  message->bytes.clear();
  for (const uint32_t index : message->active) {
    const Caller& caller = message->callers[index];
    plan()->writer().AppendCommand(message->first_tag + index, caller.verb(), caller.id(),
                                   caller.token(), &message->bytes);
  }
  message->stream->Send(message);
}

void PipelineLoad::OnResults(std::string_view bytes) {
  const int64_t now = MonotonicNanos();
  const auto commands = static_cast<uint64_t>(options().commands);
  ResultReader results(bytes);
  Answer answer;
  while (results.Next(&answer)) {
    if (answer.tag / commands >= messages_.size()) {
      plan()->faults().Add("Pipeline: a result with a tag that was never sent");
      continue;
    }
    Message* const message = messages_[answer.tag / commands].get();
    if (message->unanswered == 1) message->stream->OnAnswered(message);
    OnAnswer(message, static_cast<uint32_t>(answer.tag % commands), answer, now);
  }
  if (results.failed()) plan()->faults().Add("Pipeline: an unreadable message");
}

void PipelineLoad::OnLost(Message* message, const std::string& why) {
  const int64_t now = MonotonicNanos();
  std::vector<uint32_t> unanswered;
  for (const uint32_t index : message->active) {
    if (message->open[index] != 0) unanswered.push_back(index);
  }
  message->lost = true;
  for (const uint32_t index : unanswered) OnFailure(message, index, why, now);
}

}  // namespace idempotency::bench
