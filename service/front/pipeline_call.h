// IdempotencyService.Pipeline: many commands in flight on one stream.
//
//   read a message -> submit all its commands -> read the next, unless too much is in flight
//   a command is answered -> its result goes to the outbox
//   nothing is being written, and the outbox is ripe -> write what fits into one message
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
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "keystore/key_store.h"
#include "service/front/front_desk.h"
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
  // How many commands of one message have still to be answered before they are written.
  struct Message {
    size_t unanswered = 0;
  };
  struct Flight {
    Ticket ticket;
    std::shared_ptr<Message> message;  // null: the command waits
    keystore::CancelHandle handle;     // only where it waits
    size_t request_bytes = 0;          // of the response that it reports
  };
  struct Outgoing {
    v1::Result result;
    size_t bytes = 0;
  };
  using Submissions = std::vector<std::pair<keystore::Request, keystore::ReplyCallback>>;

  // What the lock has decided.
  struct Todo {
    bool read = false;
    std::optional<v1::PipelineResponse> write;
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
  void Handle(v1::PipelineRequest request, const RepairedTexts& texts) ABSL_LOCKS_EXCLUDED(mutex_);
  // Puts the command in flight and to the submissions, or its error out.
  void AdmitOne(const Caller& caller, v1::Command* command, const std::shared_ptr<Message>& message,
                Submissions* submissions, std::vector<uint64_t>* tags) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnReply(uint64_t tag, const keystore::Reply& reply) ABSL_LOCKS_EXCLUDED(mutex_);

  void RefuseStream(Failure failure) ABSL_LOCKS_EXCLUDED(mutex_);
  void PutOut(v1::Result result) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What is in the outbox by now need not wait for more.
  void Ripen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { ripe_ = !outbox_.empty(); }
  // Nothing more is read, and nobody waits any longer.
  void Stop(Todo* todo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsStopping() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return cancelled_ || failure_.has_value();
  }
  // Adds to `todo` whatever can be done now.
  void Advance(Todo* todo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  v1::PipelineResponse TakeResponse() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
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
  absl::flat_hash_map<uint64_t, Flight> in_flight_ ABSL_GUARDED_BY(mutex_);
  // Those of them that do not wait.
  size_t prompt_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t request_bytes_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Outgoing> outbox_ ABSL_GUARDED_BY(mutex_);
  size_t outbox_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_FRONT_PIPELINE_CALL_H_
