// One Pipeline stream for all commands of a process.
//
//   write: while one message is being written, or kMaxOpenMessages have not been answered yet,
//          commands gather for the next
//   read:  results find their commands by tag, in any order
//   break: a new stream is opened, and what was not answered is sent again in its first order; a
//          command under which a second stream breaks fails, and the caller's policy decides
//
// A command may be sent twice because every command of the service may be repeated: the service
// gives the same answer. Nothing that waits on the service belongs here, as nothing could end it
// early; and it is assumed that a stream that has not answered for as long as a command was
// allowed to take is dead.
#ifndef IDEMPOTENCY_CLIENT_SRC_PIPELINE_H_
#define IDEMPOTENCY_CLIENT_SRC_PIPELINE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "client/src/wires.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::internal {

inline constexpr size_t kMaxPipelineCommands = 1024;
inline constexpr size_t kMaxPipelineBytes = 1024 * 1024;
// While one message is being answered, the next is on its way; what comes meanwhile shares a
// message, which costs both sides less. One or two callers never wait for others.
inline constexpr size_t kMaxOpenMessages = 2;
// Streams that may break under one command.
inline constexpr uint32_t kMaxBrokenStreams = 2;

// What became of a command.
struct PipelineAnswer {
  absl::StatusOr<v1::Result> result;
  // The service does not take the stream (as such, or because of something in it): the command may
  // be well on its own.
  bool stream_refused = false;
};

// Thread safety: all methods may be called from any thread.
class Pipeline : public std::enable_shared_from_this<Pipeline> {
 public:
  using Done = absl::AnyInvocable<void(PipelineAnswer) &&>;

  explicit Pipeline(std::shared_ptr<const Wires> wires);

  // A tag for Send.
  uint64_t NewTag() ABSL_LOCKS_EXCLUDED(mutex_);
  // The command's tag is set here. `done` is called once, on any thread, unless Forget comes
  // first; it must not block.
  void Send(uint64_t tag, v1::Command command, Done done) ABSL_LOCKS_EXCLUDED(mutex_);

  enum class Why { kTimedOut, kStopped };
  // Drops the answer to come. False: `done` has been or is being called.
  bool Forget(uint64_t tag, Why why) ABSL_LOCKS_EXCLUDED(mutex_);

  // Fails what is in flight and all that is to come, and ends the stream; waits for its end,
  // unless called from a callback.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Stream;
  // Counts the streams that are not over yet, down to the last line of their last callback.
  struct Gate;

  struct Flight {
    // Where it is in a message: the message keeps it, for the case that the stream breaks.
    v1::Command command;
    v1::Command* written = nullptr;
    size_t bytes = 0;
    Done done;
    uint32_t broken_streams = 0;
    // How many messages the stream had brought when it was written; unset: it is not written.
    std::optional<uint64_t> heard_before;
    // The message that it was written in last.
    uint64_t message = 0;
  };
  struct Message {
    std::shared_ptr<v1::PipelineRequest> request;
    size_t unanswered = 0;
  };
  using Ended = std::vector<std::pair<Done, PipelineAnswer>>;

  // What the lock has decided, done without it.
  struct Todo {
    std::shared_ptr<Stream> open;
    std::shared_ptr<Stream> write;
    std::shared_ptr<const v1::PipelineRequest> request;
    std::shared_ptr<Stream> release;
    std::shared_ptr<Stream> cancel;
    Ended ended;
  };

  // Adds what can be done now.
  void Advance(Todo* todo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Null: there is nothing to be written.
  std::shared_ptr<const v1::PipelineRequest> TakeRequest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Nothing more will come for the command.
  void Close(const Flight& flight) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndAll(const absl::Status& status, Todo* todo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Do(Todo todo) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnOpened(const absl::Status& opened, Todo* todo) ABSL_LOCKS_EXCLUDED(mutex_);

  // Of the stream.
  Todo OnResponse(v1::PipelineResponse* response) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnReadEnd() ABSL_LOCKS_EXCLUDED(mutex_);
  void OnWritten() ABSL_LOCKS_EXCLUDED(mutex_);
  void OnStreamEnd(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::shared_ptr<const Wires> wires_;
  const std::shared_ptr<Gate> gate_;

  absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t last_tag_ ABSL_GUARDED_BY(mutex_) = 0;
  // By tag, which is the order in which they were given.
  std::map<uint64_t, Flight> flights_ ABSL_GUARDED_BY(mutex_);
  // Tags to be written; some of them may have been forgotten since.
  std::deque<uint64_t> unwritten_ ABSL_GUARDED_BY(mutex_);

  uint64_t last_message_ ABSL_GUARDED_BY(mutex_) = 0;
  // Of the stream: those that have not been answered wholly.
  std::map<uint64_t, Message> open_messages_ ABSL_GUARDED_BY(mutex_);

  // The one stream there is.
  std::shared_ptr<Stream> stream_ ABSL_GUARDED_BY(mutex_);
  // Somebody is about to start it: it cannot be written to yet.
  bool opening_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  // Nothing more comes from it: what is to be written waits for the next.
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  // Nothing more is done to it: gRPC may end it.
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
  // Messages that it has brought.
  uint64_t heard_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_PIPELINE_H_
