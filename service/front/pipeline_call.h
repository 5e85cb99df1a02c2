// IdempotencyService.Pipeline: many commands in flight on one stream.
//
//   read a message -> queue all its commands -> read the next, unless too much is in flight
//   a command is answered -> its result goes to the outbox
//   nothing is being written, and the outbox is ripe -> write what fits into one message
//
// The lock is taken a few times for a message, and once for a reply: what a command or its result
// is made of is made without it.
//
// The outbox is ripe when all commands of a message that do not wait have been answered, when a
// command that waits has been, or when much has gathered: so a message is usually answered by
// one, and a waiting command holds up nobody.
//
// The stream ends when the client has closed its side and everything has been answered and
// written; when the client is gone; when a message is refused as a whole; or when the service
// stops. In the last three cases waiting commands are let go, and all others go on.
#ifndef IDEMPOTENCY_SERVICE_FRONT_PIPELINE_CALL_H_
#define IDEMPOTENCY_SERVICE_FRONT_PIPELINE_CALL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "keystore/key_store.h"
#include "service/front/front_desk.h"
#include "service/front/outbox.h"
#include "service/utf8_repair.h"

namespace idempotency::service {

// Above either, no more is read from the stream until it is less again. Commands that wait are
// not counted, since they would hold up the others; the key store has a bound for them, above
// which they are answered at once.
inline constexpr size_t kMaxPipelinedCommands = 4096;
inline constexpr size_t kMaxPipelineOutboxBytes = 8 * 1024 * 1024;
// Likewise of the responses that commands in flight report.
inline constexpr size_t kMaxPipelineRequestBytes = 8 * 1024 * 1024;
// What was in flight when the outbox filled up is answered all the same. Above this, a response
// that was only read is not kept for a caller that does not take the ones before: an error asks
// for the command to be sent again.
inline constexpr size_t kMaxPipelineHeldBytes = 32 * 1024 * 1024;

class PipelineCall;

// The pipelines that are open, so that a stopping service can end them.
//
// Thread safety: all methods may be called from any thread.
class PipelineRegistry {
 public:
  // Lets every pipeline finish what is in flight and then ends it; new ones end at once.
  void Drain() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class PipelineCall;
  // False where the service is stopping.
  bool Add(std::shared_ptr<PipelineCall> call) ABSL_LOCKS_EXCLUDED(mutex_);
  void Remove(std::shared_ptr<PipelineCall> call) ABSL_LOCKS_EXCLUDED(mutex_);

  absl::Mutex mutex_;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<std::shared_ptr<PipelineCall>> calls_ ABSL_GUARDED_BY(mutex_);
};

// Thread safety: gRPC's reactions and the key store's replies come on any thread, several at a
// time. What happens next is decided under the lock and done after it.
class PipelineCall final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // Makes a call that holds itself, registers it and starts reading.
  static PipelineCall* Start(const FrontDesk* desk, PipelineRegistry* registry,
                             grpc::CallbackServerContext* context);

  // The service is stopping.
  void Drain() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Message;
  // A command in flight. It belongs to its reply alone, which comes once.
  struct Flight {
    Message* message = nullptr;
    uint64_t tag = 0;
    Ticket ticket;
    size_t request_bytes = 0;  // of the response that it reports
  };
  // Commands whose results are written when the last of them has been answered: those of one
  // message that do not wait, or one that does. It holds itself until then.
  struct Message {
    std::vector<Flight> flights;  // not moved any more once there is one
    bool waits = false;
    size_t unanswered = 0;  // under the lock of the call
    std::shared_ptr<Message> self;
  };

  // What a message has become, before it is submitted.
  struct Intake {
    std::shared_ptr<Message> prompt = std::make_shared<Message>();
    std::vector<std::shared_ptr<Message>> waiting;
    std::vector<std::string> errors;  // as bytes of results
    size_t request_bytes = 0;
    std::vector<std::pair<keystore::Request, keystore::ReplyCallback>> submissions;
    // Which of the submissions wait, and under which tag.
    std::vector<std::pair<size_t, uint64_t>> waits;
  };

  // What the lock has decided.
  struct Todo {
    bool read = false;
    std::vector<std::string> write;  // empty: nothing
    std::optional<grpc::Status> finish;
    std::vector<keystore::CancelHandle> cancel;
  };

  PipelineCall(const FrontDesk* desk, PipelineRegistry* registry,
               grpc::CallbackServerContext* context);

  void OnReadDone(bool ok) override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnCancel() override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnDone() override;

  // False where the stream ends: a message that was still read then is not begun, and the status
  // tells the client to send it again.
  bool BeginHandling() ABSL_LOCKS_EXCLUDED(mutex_);
  // Makes what was read into commands; false where the stream ends instead.
  bool TakeIn(Intake* intake) ABSL_LOCKS_EXCLUDED(mutex_);
  // Adds the command to the intake, or its error.
  void AdmitOne(const Caller& caller, v1::Command* command, Intake* intake);
  void Submit(Intake intake) ABSL_LOCKS_EXCLUDED(mutex_);
  // All commands of the message are queued: the next message may be read.
  void EndHandling(const Intake& intake, const std::vector<keystore::CancelHandle>& handles)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void OnReply(Flight* flight, const keystore::Reply& reply) ABSL_LOCKS_EXCLUDED(mutex_);
  std::string ResultOf(const Flight& flight, const keystore::Reply& reply)
      ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasRoomFor(size_t response_bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  void RefuseStream(Failure failure) ABSL_LOCKS_EXCLUDED(mutex_);
  void PutOut(std::string result) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What is in the outbox by now need not wait for more.
  void Ripen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { ripe_ = !outbox_.empty(); }
  bool IsAnyInFlight() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return prompt_in_flight_ > 0 || !waiting_.empty();
  }
  // Nothing more is read, and nobody waits any longer.
  void Stop(Todo* todo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsStopping() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return cancelled_ || failure_.has_value();
  }
  // Adds to `todo` whatever can be done now.
  void Advance(Todo* todo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayRead() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsOver() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // After it nothing of the call may be touched: it may be gone.
  void Do(Todo todo) ABSL_LOCKS_EXCLUDED(mutex_);

  const FrontDesk* const desk_;
  PipelineRegistry* const registry_;
  grpc::CallbackServerContext* const context_;
  std::shared_ptr<PipelineCall> self_;

  grpc::ByteBuffer in_;   // while reading
  grpc::ByteBuffer out_;  // while writing
  // Of the commands in flight, and of those answered since the newest message was taken in: a
  // client that uses a tag again has received the answer by then. While handling.
  absl::flat_hash_set<uint64_t> tags_;

  absl::Mutex mutex_;
  bool reading_ ABSL_GUARDED_BY(mutex_) = true;
  // A read was decided on, and gRPC does not know of it yet: the call must not end before.
  bool starting_read_ ABSL_GUARDED_BY(mutex_) = true;
  bool handling_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  // No more is to be read: the client has closed its side or is gone, or the stream is to end.
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  // Nobody receives any more what is written.
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool ripe_ ABSL_GUARDED_BY(mutex_) = false;
  // Why the stream ends, if not because the client has closed it.
  std::optional<Failure> failure_ ABSL_GUARDED_BY(mutex_);
  // Commands in flight: those that wait by their tags, and the number of the others.
  absl::flat_hash_map<uint64_t, keystore::CancelHandle> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t prompt_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t request_bytes_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  // To be taken from tags_.
  std::vector<uint64_t> answered_tags_ ABSL_GUARDED_BY(mutex_);
  Outbox outbox_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_FRONT_PIPELINE_CALL_H_
