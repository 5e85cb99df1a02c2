#include "tests/proof/requests/wire.h"

#include "grpc/support/time.h"

namespace idempotency::proof {
namespace {

constexpr int64_t kDeadlineSeconds = 60;

grpc::ByteBuffer ToBuffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

std::string ToText(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return "";
  std::string text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

void Prepare(const Metadata& metadata, grpc::ClientContext* context) {
  for (const auto& [name, value] : metadata) context->AddMetadata(name, value);
  context->set_deadline(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                     gpr_time_from_seconds(kDeadlineSeconds, GPR_TIMESPAN)));
}

void ReadTrailers(const grpc::ClientContext& context, Answer* answer) {
  const auto& trailers = context.GetServerTrailingMetadata();
  if (const auto reason = trailers.find("idempotency-reason"); reason != trailers.end()) {
    answer->reason = std::string(reason->second.data(), reason->second.size());
  }
  answer->details.ParseFromString(answer->status.error_details());
}

}  // namespace

Wire::~Wire() {
  queue_.Shutdown();
  while (Await()) {
  }
}

bool Wire::Await() {
  void* tag = nullptr;
  bool ok = false;
  return queue_.Next(&tag, &ok) && ok;
}

Answer Wire::Call(const std::string& method, const std::string& bytes, const Metadata& metadata) {
  grpc::ClientContext context;
  Prepare(metadata, &context);
  Answer answer;
  grpc::ByteBuffer response;
  const auto call = stub_.PrepareUnaryCall(&context, method, ToBuffer(bytes), &queue_);
  call->StartCall();
  call->Finish(&response, &answer.status, nullptr);
  Await();
  if (answer.status.ok()) answer.messages.push_back(ToText(response));
  ReadTrailers(context, &answer);
  return answer;
}

Answer Wire::Stream(const std::string& method, const std::vector<std::string>& messages,
                    const Metadata& metadata) {
  grpc::ClientContext context;
  Prepare(metadata, &context);
  Answer answer;
  const auto call = stub_.PrepareCall(&context, method, &queue_);
  call->StartCall(nullptr);
  bool writes = Await();
  for (const std::string& message : messages) {
    if (!writes) break;
    call->Write(ToBuffer(message), nullptr);
    writes = Await();
  }
  if (writes) {
    call->WritesDone(nullptr);
    Await();
  }
  for (grpc::ByteBuffer message;; message.Clear()) {
    call->Read(&message, nullptr);
    if (!Await()) break;
    answer.messages.push_back(ToText(message));
  }
  call->Finish(&answer.status, nullptr);
  Await();
  ReadTrailers(context, &answer);
  return answer;
}

}  // namespace idempotency::proof
