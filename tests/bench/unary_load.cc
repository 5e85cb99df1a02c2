#include "tests/bench/unary_load.h"

#include <optional>
#include <string>
#include <utility>

#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/support/async_unary_call.h"
#include "tests/bench/channels.h"

namespace idempotency::bench {
namespace {

using Reader = grpc::ClientAsyncResponseReader<grpc::ByteBuffer>;
using grpc::internal::RpcMethod;

constexpr char kComplete[] = "/idempotency.v1.IdempotencyService/Complete";
constexpr char kGet[] = "/idempotency.v1.IdempotencyService/GetOperation";
constexpr char kBatch[] = "/idempotency.v1.IdempotencyService/Batch";

}  // namespace

// What a generated stub holds.
struct UnaryLoad::Connection {
  Connection(std::shared_ptr<grpc::Channel> to, grpc::CompletionQueue* its_queue,
             const char* reserve_method)
      : channel(std::move(to)),
        queue(its_queue),
        reserve(reserve_method, nullptr, RpcMethod::NORMAL_RPC, channel),
        complete(kComplete, nullptr, RpcMethod::NORMAL_RPC, channel),
        get(kGet, nullptr, RpcMethod::NORMAL_RPC, channel),
        batch(kBatch, nullptr, RpcMethod::NORMAL_RPC, channel) {}

  const RpcMethod& MethodOf(Verb verb) const {
    return verb == Verb::kReserve ? reserve : verb == Verb::kComplete ? complete : get;
  }

  std::shared_ptr<grpc::Channel> channel;
  grpc::CompletionQueue* queue;
  RpcMethod reserve;
  RpcMethod complete;
  RpcMethod get;
  RpcMethod batch;
};

struct UnaryLoad::Call : Slot {
  Connection* connection = nullptr;
  std::string bytes;
  std::optional<grpc::ClientContext> context;
  std::unique_ptr<Reader> reader;
  grpc::ByteBuffer response;
  grpc::Status status;
};

UnaryLoad::UnaryLoad(Plan* plan) : Load(plan) {}
UnaryLoad::~UnaryLoad() = default;

const char* UnaryLoad::ReserveMethod() const {
  return "/idempotency.v1.IdempotencyService/Reserve";
}

void UnaryLoad::AppendRequest(const Caller& caller, std::string* out) const {
  plan()->writer().Append(caller.verb(), caller.id(), caller.token(), out);
}

bool UnaryLoad::ScanAnswer(const Caller& caller, std::string_view bytes, Answer* answer) const {
  return ScanResponse(caller.verb(), bytes, answer);
}

void UnaryLoad::Open() {
  std::vector<Meter*> meters;
  for (int i = 0; i < options().threads; ++i) {
    queues_.push_back(std::make_unique<grpc::CompletionQueue>());
    meters.push_back(NewMeter());
  }
  for (auto& channel : Connect(options().target, options().connections)) {
    grpc::CompletionQueue* const queue = queues_[connections_.size() % queues_.size()].get();
    connections_.push_back(
        std::make_unique<Connection>(std::move(channel), queue, ReserveMethod()));
  }
  for (int i = 0; i < options().in_flight; ++i) {
    auto call = std::make_unique<Call>();
    const size_t connection = static_cast<size_t>(i) % connections_.size();
    call->connection = connections_[connection].get();
    AddSlot(call.get(), is_batch() ? static_cast<size_t>(options().commands) : 1,
            meters[connection % meters.size()]);
    calls_.push_back(std::move(call));
  }
  for (const auto& queue : queues_) {
    threads_.emplace_back([this, queue = queue.get()] { Serve(queue); });
  }
}

void UnaryLoad::Close() {
  for (const auto& queue : queues_) queue->Shutdown();
  for (std::thread& thread : threads_) thread.join();
}

void UnaryLoad::Send(Slot* slot) {
  auto* const call = static_cast<Call*>(slot);
  call->bytes.clear();
  const RpcMethod* method = &call->connection->batch;
  for (const uint32_t index : call->active) {
    const Caller& caller = call->callers[index];
    if (is_batch()) {
      plan()->writer().AppendCommand(index, caller.verb(), caller.id(), caller.token(),
                                     &call->bytes);
    } else {
      method = &call->connection->MethodOf(caller.verb());
      AppendRequest(caller, &call->bytes);
    }
  }
  call->reader.reset();
  call->context.emplace();
  call->response.Clear();
  call->reader.reset(grpc::internal::ClientAsyncResponseReaderHelper::Create<grpc::ByteBuffer>(
      call->connection->channel.get(), call->connection->queue, *method, &*call->context,
      ToByteBuffer(call->bytes)));
  call->reader->StartCall();
  call->reader->Finish(&call->response, &call->status, call);
}

void UnaryLoad::Serve(grpc::CompletionQueue* queue) {
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) OnDone(static_cast<Call*>(tag), ok);
}

void UnaryLoad::OnDone(Call* call, bool /*ok*/) {
  const int64_t now = MonotonicNanos();
  if (!call->status.ok()) {
    const std::string why = Describe(call->status, *call->context);
    const std::vector<uint32_t> failed = call->active;
    for (const uint32_t index : failed) OnFailure(call, index, why, now);
    return;
  }
  grpc::Slice slice;
  const std::string_view bytes = OnePiece(call->response, &slice);
  if (is_batch()) return OnResults(call, bytes, now);
  Answer answer;
  if (ScanAnswer(call->callers[0], bytes, &answer)) {
    OnAnswer(call, 0, answer, now);
  } else {
    OnFailure(call, 0, "an unreadable message", now);
  }
}

void UnaryLoad::OnResults(Call* call, std::string_view bytes, int64_t now) {
  const std::vector<uint32_t> sent = call->active;
  ResultReader results(bytes);
  Answer answer;
  // Whoever answers the last one may send the slot again: look at nothing of it after that.
  for (const uint32_t index : sent) {
    if (results.Next(&answer) && answer.tag == index) {
      OnAnswer(call, index, answer, now);
    } else {
      OnFailure(call, index, "no result, or not in the order of the commands", now);
    }
  }
}

}  // namespace idempotency::bench
