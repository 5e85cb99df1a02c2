#include "service/front/transport.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpc/support/time.h"
#include "grpcpp/impl/codegen/proto_utils.h"

namespace idempotency::service {
namespace {

// Until the deadline, by the clock that nobody sets; unset: there is no deadline.
std::optional<core::Duration> TimeLeft(gpr_timespec deadline) {
  const gpr_timespec monotonic = gpr_convert_clock_type(deadline, GPR_CLOCK_MONOTONIC);
  if (gpr_time_cmp(monotonic, gpr_inf_future(GPR_CLOCK_MONOTONIC)) == 0) return std::nullopt;
  const int64_t left = gpr_time_to_millis(gpr_time_sub(monotonic, gpr_now(GPR_CLOCK_MONOTONIC)));
  // gRPC clients write a timeout with three digits, rounded up: it may be a hundredth too long.
  return core::Duration(std::max<int64_t>(left - left / 100, 0));
}

// Only for what does not parse: it takes the bytes out of their buffer.
std::optional<RepairedMessage> Repair(const grpc::ByteBuffer& bytes,
                                      const google::protobuf::Descriptor& type) {
  grpc::Slice slice;
  if (!bytes.DumpToSingleSlice(&slice).ok()) return std::nullopt;
  return RepairTexts({reinterpret_cast<const char*>(slice.begin()), slice.size()}, type);
}

}  // namespace

std::optional<Failure> Parse(const grpc::ByteBuffer& bytes, google::protobuf::Message* out,
                             RepairedTexts* texts) {
  grpc::ByteBuffer copy(bytes);  // of references; reading consumes it
  if (grpc::SerializationTraits<google::protobuf::Message>::Deserialize(&copy, out).ok()) {
    return std::nullopt;
  }
  if (std::optional<RepairedMessage> repaired = Repair(bytes, *out->GetDescriptor());
      repaired && out->ParseFromString(repaired->bytes)) {
    *texts = std::move(repaired->texts);
    return std::nullopt;
  }
  return Failure{core::Reason::kInvalidField,
                 {},
                 "The request is not a message of this method; texts must be UTF-8, and the "
                 "client's protos those of the service.",
                 std::nullopt};
}

std::optional<Failure> Parse(const grpc::ByteBuffer& bytes, google::protobuf::Message* out) {
  RepairedTexts texts;
  if (std::optional<Failure> failure = Parse(bytes, out, &texts)) return failure;
  return RefuseTexts(texts, RepairedText::kNoCommand);
}

std::optional<Failure> RefuseTexts(const RepairedTexts& texts, int command) {
  auto text = std::lower_bound(
      texts.begin(), texts.end(), command,
      [](const RepairedText& earlier, int wanted) { return earlier.command < wanted; });
  for (; text != texts.end() && text->command == command; ++text) {
    if (MayGoOn(*text)) continue;
    return Failure{core::Reason::kInvalidField, text->field,
                   absl::StrCat(text->field, " is not UTF-8; encode it first."), std::nullopt};
  }
  return std::nullopt;
}

bool Serialize(const google::protobuf::Message& message, grpc::ByteBuffer* out) {
  bool own_buffer = false;
  out->Clear();
  return grpc::SerializationTraits<google::protobuf::Message>::Serialize(message, out, &own_buffer)
      .ok();
}

Caller CallerOf(const grpc::CallbackServerContext& context) {
  // Nobody authenticates yet: whoever can connect is somebody without a name.
  return Caller{Principal{}, TimeLeft(context.raw_deadline())};
}

grpc::Status RefuseCall(const Failure& failure, grpc::CallbackServerContext* context) {
  context->AddTrailingMetadata(kReasonTrailer, std::string(ReasonName(failure.reason)));
  return ToStatus(failure);
}

}  // namespace idempotency::service
