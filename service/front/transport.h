// What is between gRPC and the front desk: messages as bytes, who calls, until when, and how a
// refusal leaves.
//
// Methods are registered in gRPC's raw form, so that a request that cannot be parsed is answered
// with a reason like any other bad request.
#ifndef IDEMPOTENCY_SERVICE_FRONT_TRANSPORT_H_
#define IDEMPOTENCY_SERVICE_FRONT_TRANSPORT_H_

#include <optional>
#include <string_view>

#include "google/protobuf/message.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/status.h"
#include "service/error_table.h"
#include "service/front/front_desk.h"
#include "service/utf8_repair.h"

namespace idempotency::service {

// Why the bytes are not a message of this kind, or hold a text that is not UTF-8 and must be;
// nothing where `out` now holds it.
std::optional<Failure> Parse(const grpc::ByteBuffer& bytes, google::protobuf::Message* out);

// For messages of many commands, so that each is judged by itself: what had to be repaired is in
// *texts.
std::optional<Failure> Parse(const grpc::ByteBuffer& bytes, google::protobuf::Message* out,
                             RepairedTexts* texts);
// Why the command at this index (RepairedText::kNoCommand: the request) cannot go on with the
// texts that were repaired.
std::optional<Failure> RefuseTexts(const RepairedTexts& texts, int command);

// False only where a message is too large for protobuf.
[[nodiscard]] bool Serialize(const google::protobuf::Message& message, grpc::ByteBuffer* out);

// Why the call is refused before its request is even parsed, as nobody is known to make it;
// nothing where *caller now says who does, and how long they will listen. For a stream to be asked
// with each message: what proves who calls ends, or is taken back.
[[nodiscard]] std::optional<Failure> IdentifyCaller(const grpc::CallbackServerContext& context,
                                                    const FrontDesk& desk, Verb verb,
                                                    Caller* caller);

// Whether nobody but this machine can have read what came from this address of gRPC's
// (ServerContext::peer): a loopback address or a Unix socket.
bool IsLocalPeer(std::string_view peer);

// The status that refuses the call; also adds the trailer that names the reason.
grpc::Status RefuseCall(const Failure& failure, grpc::CallbackServerContext* context);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_FRONT_TRANSPORT_H_
