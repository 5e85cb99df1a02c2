// IdempotencyService.Batch: many commands, one answer.
#ifndef IDEMPOTENCY_SERVICE_FRONT_BATCH_CALL_H_
#define IDEMPOTENCY_SERVICE_FRONT_BATCH_CALL_H_

#include <atomic>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "idempotency/v1/idempotency_service.pb.h"
#include "keystore/key_store.h"
#include "service/front/unary_call.h"

namespace idempotency::service {

// Puts all commands to the key store together, so that they share its batches, and answers when
// the last has been answered. Commands on one key are applied in the order sent.
class BatchCall final : public UnaryReactor {
 public:
  BatchCall(const FrontDesk* desk, grpc::CallbackServerContext* context, const grpc::ByteBuffer& in,
            grpc::ByteBuffer* out);

 private:
  using Submissions = std::vector<std::pair<keystore::Request, keystore::ReplyCallback>>;

  void Start(const grpc::ByteBuffer& in);
  // Why the batch is refused as a whole.
  std::optional<Failure> ParseAndAdmit(const Caller& caller, const grpc::ByteBuffer& in,
                                       Submissions* submissions);
  void Admit(const Caller& caller, const RepairedTexts& texts, v1::Command* command, size_t index,
             Submissions* submissions);
  void OnReply(const keystore::Reply& reply, size_t index);
  void NoteAnswered();
  void OnCancel() override;

  std::vector<Ticket> tickets_;
  std::vector<keystore::CancelHandle> handles_;
  // Each result is written by one reply alone. Not on an arena, which would keep what a result
  // held that did not fit.
  v1::BatchResponse response_;
  std::atomic<size_t> kept_bytes_{0};  // of all results that are there
  // Commands not yet answered, and one more until all are submitted.
  std::atomic<size_t> unanswered_{1};
  const std::chrono::nanoseconds began_ = keystore::ReadElapsed();
};

// Answers one command of several whose results, kept_bytes of them so far, are to stay within
// max_bytes. One that has only read and does not fit becomes the error below at once, and a large
// response is not even copied; one that has changed something is kept whatever its size.
//
// Thread safety: may be called from several threads, each with a result of its own.
void AnswerWithin(size_t max_bytes, const FrontDesk& desk, const keystore::Reply& reply,
                  const Ticket& ticket, std::atomic<size_t>* kept_bytes, v1::Result* result);

// Keeps `response` within `max_bytes`: results that do not fit become errors that ask for the
// command to be sent again by itself, which is safe for every command. Those that have changed
// something are kept before those that have only read.
void FitResults(size_t max_bytes, v1::BatchResponse* response);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_FRONT_BATCH_CALL_H_
