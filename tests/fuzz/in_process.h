// The service's own calls, driven without a network and in one thread: what gRPC would do is done
// here, at the moment that the input says.
//
//   World world;
//   UnaryDriver call(bytes, [&](auto* context, const auto& in, auto* out) {
//     return new service::CommandCall<...>(&world.desk(), verb, context, in, out); });
//   if (call.finished()) ... call.status(), call.response()
//
// Thread safety: none, but for a call that ends on another thread (AwaitEnd).
#ifndef IDEMPOTENCY_TESTS_FUZZ_IN_PROCESS_H_
#define IDEMPOTENCY_TESTS_FUZZ_IN_PROCESS_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "keystore/clock.h"
#include "keystore/engine/memory_engine.h"
#include "keystore/key_store.h"
#include "service/front/front_desk.h"
#include "service/front/pipeline_call.h"

namespace idempotency::fuzz {

grpc::ByteBuffer ToBuffer(std::string_view bytes);
std::string ToText(const grpc::ByteBuffer& buffer);

// A key store on an engine in memory, under a clock that the input moves, and what is in front
// of it. What costs time and keeps nothing is shared by all worlds.
class World {
 public:
  World();
  // Everything is to have been answered.
  ~World();

  const service::FrontDesk& desk() const { return desk_; }
  keystore::KeyStore& store() { return store_; }
  // Time passes, and what is due happens.
  void Advance(core::Duration span);
  // Answers all that wait. Nothing is accepted afterwards.
  void Drain() { store_.Drain(); }
  // That everything stored can be read back from its bytes.
  void CheckRecords();

 private:
  keystore::ManualClock clock_;
  keystore::MemoryEngine engine_;
  keystore::KeyStore store_;
  service::FrontDesk desk_;
};

// One unary call.
class UnaryDriver final : public grpc::ServerCallbackUnary {
 public:
  template <typename Make>
  UnaryDriver(std::string_view bytes, Make make)
      : in_(ToBuffer(bytes)), reactor_(make(&context_, in_, &out_)) {
    BindReactor(reactor_);
  }
  ~UnaryDriver() override;

  bool finished() const ABSL_LOCKS_EXCLUDED(mutex_);
  void AwaitEnd() ABSL_LOCKS_EXCLUDED(mutex_);
  // The caller goes away. Not once it has finished.
  void Cancel() { static_cast<grpc::internal::ServerReactor*>(reactor_)->OnCancel(); }
  // Once it has finished.
  grpc::Status status() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::string response() const { return ToText(out_); }

 private:
  void Finish(grpc::Status status) override ABSL_LOCKS_EXCLUDED(mutex_);
  void SendInitialMetadata() override {}
  grpc::internal::ServerReactor* reactor() override { return reactor_; }
  void CallOnDone() override {}

  grpc::CallbackServerContext context_;
  const grpc::ByteBuffer in_;
  grpc::ByteBuffer out_;
  grpc::ServerUnaryReactor* const reactor_;
  mutable absl::Mutex mutex_;
  std::optional<grpc::Status> status_ ABSL_GUARDED_BY(mutex_);
};

// One pipeline. It reads, writes and ends as the call asks for it, and never twice at once.
class StreamDriver final
    : public grpc::ServerCallbackReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit StreamDriver(World* world);
  ~StreamDriver() override;

  // Each is false where the call has not asked for it.
  bool Deliver(std::string_view bytes);
  bool TakeWritten(std::string* bytes);
  // The client closes its side.
  bool Close();
  // The connection breaks: the call learns that the client is gone, and what it reads and writes
  // fails.
  void Break();
  // The service stops.
  void Drain() { registry_.Drain(); }

  bool finished() const { return status_.has_value(); }
  // Once it has finished.
  const grpc::Status& status() const { return *status_; }

 private:
  using Reactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

  void Read(grpc::ByteBuffer* message) override;
  void Write(const grpc::ByteBuffer* message, grpc::WriteOptions options) override;
  void WriteAndFinish(const grpc::ByteBuffer* message, grpc::WriteOptions options,
                      grpc::Status status) override;
  void Finish(grpc::Status status) override;
  void SendInitialMetadata() override {}
  grpc::internal::ServerReactor* reactor() override { return reactor_; }
  void CallOnDone() override {}

  grpc::CallbackServerContext context_;
  service::PipelineRegistry registry_;
  Reactor* const reactor_;
  grpc::ByteBuffer* reading_ = nullptr;
  const grpc::ByteBuffer* writing_ = nullptr;
  std::optional<grpc::Status> status_;
};

}  // namespace idempotency::fuzz

#endif  // IDEMPOTENCY_TESTS_FUZZ_IN_PROCESS_H_
