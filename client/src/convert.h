// The values of the library <-> messages of the API.
//
// Texts of a message must be UTF-8, or the whole message is refused, and with it whatever else is
// in it. So what a request may be refused for is checked before it is sent (CheckTexts); and what
// must not be refused, because it reports something that has happened, is mended: bad bytes become
// U+FFFD, and what the service would cut anyhow is cut.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_CLIENT_SRC_CONVERT_H_
#define IDEMPOTENCY_CLIENT_SRC_CONVERT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "idempotency/connection.h"
#include "idempotency/types.h"
#include "idempotency/v1/admin_service.pb.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::internal {

// The service keeps no larger one: it is left out, and flagged.
inline constexpr size_t kMaxBodyBytes = 3 * 1024 * 1024;
// The service keeps 8 KiB of metadata; what is far beyond is not sent.
inline constexpr size_t kMaxSentMetadataBytes = 64 * 1024;
inline constexpr size_t kMaxLongTextBytes = 1024;
inline constexpr size_t kMaxShortTextBytes = 255;
// More than these on a page are taken as these.
inline constexpr uint32_t kMaxListPage = 1000;

// INVALID_FIELD naming the first text that is not UTF-8.
absl::Status CheckTexts(const ReserveRequest& request);
absl::Status CheckTexts(const RenewRequest& request);
absl::Status CheckTexts(const CompleteRequest& request);
absl::Status CheckTexts(const ReleaseRequest& request);
absl::Status CheckTexts(const MarkUnresolvedRequest& request);
absl::Status CheckTexts(const GetOperationRequest& request);
absl::Status CheckTexts(const ResolveRequest& request);
absl::Status CheckTexts(const ListOperationsRequest& request);

v1::ReserveRequest ToProto(const ReserveRequest& request);
v1::RenewRequest ToProto(const RenewRequest& request);
v1::CompleteRequest ToProto(const CompleteRequest& request);
v1::ReleaseRequest ToProto(const ReleaseRequest& request);
v1::MarkUnresolvedRequest ToProto(const MarkUnresolvedRequest& request);
v1::GetOperationRequest ToProto(const GetOperationRequest& request);
v1::ResolveOperationRequest ToProto(const ResolveRequest& request);
v1::ListOperationsRequest ToProto(const ListOperationsRequest& request);

// Numbers of enums that the library does not know stay what they are where they fit into a byte,
// and become unspecified where they do not. Spans saturate at the ends of Duration.
ReserveResponse FromProto(const v1::ReserveResponse& response);
RenewResponse FromProto(const v1::RenewResponse& response);
CompleteResponse FromProto(const v1::CompleteResponse& response);
ReleaseResponse FromProto(const v1::ReleaseResponse& response);
MarkUnresolvedResponse FromProto(const v1::MarkUnresolvedResponse& response);
GetOperationResponse FromProto(const v1::GetOperationResponse& response);
Operation FromProto(const v1::ResolveOperationResponse& response);
ListOperationsResponse FromProto(const v1::ListOperationsResponse& response);

// Rounded up: for what is waited for.
Duration FromProtoUp(const google::protobuf::Duration& duration);

// `text` as UTF-8 of at most `max_bytes`, not cut inside a character.
std::string MendedText(std::string_view text, size_t max_bytes);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_CONVERT_H_
