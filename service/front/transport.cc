#include "service/front/transport.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpc/grpc_security_constants.h"
#include "grpc/support/time.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/security/auth_context.h"

namespace idempotency::service {
namespace {

// Until the deadline, by the clock that nobody sets; unset: there is no deadline.
std::optional<core::Duration> TimeLeft(gpr_timespec deadline) {
  const gpr_timespec monotonic = gpr_convert_clock_type(deadline, GPR_CLOCK_MONOTONIC);
  if (gpr_time_cmp(monotonic, gpr_inf_future(GPR_CLOCK_MONOTONIC)) == 0) return std::nullopt;
  const int64_t left = gpr_time_to_millis(gpr_time_sub(monotonic, gpr_now(GPR_CLOCK_MONOTONIC)));
  return core::Duration(std::max<int64_t>(left, 0));
}

bool ParseBytes(const grpc::ByteBuffer& bytes, google::protobuf::Message* out) {
  // Most messages come in one piece, which needs neither a stream nor a copy.
  grpc::Slice piece;
  if (bytes.TrySingleSlice(&piece).ok()) {
    return out->ParseFromArray(piece.begin(), static_cast<int>(piece.size()));
  }
  grpc::ByteBuffer copy(bytes);  // of references; reading consumes it
  return grpc::SerializationTraits<google::protobuf::Message>::Deserialize(&copy, out).ok();
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
  if (ParseBytes(bytes, out)) return std::nullopt;
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
  const size_t bytes = message.ByteSizeLong();
  if (bytes > std::numeric_limits<int>::max()) return false;
  grpc::Slice piece(bytes);
  // Nobody else has it yet, so that it may be written.
  message.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(piece.begin()));
  grpc::ByteBuffer(&piece, 1).Swap(out);
  return true;
}

namespace {

constexpr char kAuthorization[] = "authorization";

std::string_view View(grpc::string_ref text) { return {text.data(), text.size()}; }

bool IsEncrypted(const grpc::AuthContext& proven) {
  const auto types = proven.FindPropertyValues(GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME);
  return !types.empty() && types.front() == GRPC_SSL_TRANSPORT_SECURITY_TYPE;
}

// Where it is sent more than once, it says nothing.
TraceContext TraceOf(const grpc::CallbackServerContext& context) {
  const auto [first, end] = context.client_metadata().equal_range(kTraceparent);
  if (first == end || std::next(first) != end || !IsTraceparent(View(first->second))) return {};
  return TraceContext{View(first->second)};
}

// A caller of whom nothing is known but how long they will listen.
Caller CallerOf(const grpc::CallbackServerContext& context) {
  const std::optional<core::Duration> most = TimeLeft(context.raw_deadline());
  // gRPC clients write a timeout with three digits, rounded up: it may be a hundredth too long.
  std::optional<core::Duration> least = most;
  if (least) *least -= *least / 100;
  return Caller{Principal{}, least, most, TraceOf(context)};
}

}  // namespace

bool IsLocalPeer(std::string_view peer) {
  // gRPC writes the brackets of an IPv6 address as a URI has to.
  constexpr std::string_view kLocal[] = {
      "unix:",           "unix-abstract:",    "ipv4:127.",          "ipv6:[::1]:",
      "ipv6:%5B::1%5D:", "ipv6:[::ffff:127.", "ipv6:%5B::ffff:127."};
  return std::any_of(std::begin(kLocal), std::end(kLocal), [&](std::string_view beginning) {
    return peer.substr(0, beginning.size()) == beginning;
  });
}

std::optional<Failure> IdentifyCaller(const grpc::CallbackServerContext& context,
                                      const FrontDesk& desk, Verb verb, Caller* caller) {
  *caller = CallerOf(context);
  if (!desk.identifies()) return std::nullopt;
  const std::shared_ptr<const grpc::AuthContext> proven = context.auth_context();
  Credentials credentials;
  const auto certificates = proven->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
  if (!certificates.empty()) credentials.certificate = View(certificates.front());
  if (desk.takes_tokens()) {
    const auto [first, end] = context.client_metadata().equal_range(kAuthorization);
    if (first != end) {
      credentials.authorization = View(first->second);
      credentials.several_authorizations = std::next(first) != end;
      credentials.private_transport = IsEncrypted(*proven) || IsLocalPeer(context.peer());
    }
  }
  Authentication who = desk.Identify(credentials);
  if (who.fault != AuthFault::kNone) return desk.RefuseUnknown(verb, *caller, who, context.peer());
  caller->principal = std::move(who.principal);
  return std::nullopt;
}

grpc::Status RefuseCall(const Failure& failure, grpc::CallbackServerContext* context) {
  context->AddTrailingMetadata(kReasonTrailer, std::string(ReasonName(failure.reason)));
  return ToStatus(failure);
}

}  // namespace idempotency::service
