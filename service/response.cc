#include "service/response.h"

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "keystore/core/limits.h"
#include "service/text.h"

namespace idempotency::service {
namespace {

constexpr std::string_view kCredentialNames[] = {
    "authentication-info",
    "authorization",
    "cookie",
    "cookie2",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "set-cookie",
    "set-cookie2",
    "www-authenticate",
    "x-access-token",
    "x-amz-security-token",
    "x-api-key",
    "api-key",
    "x-auth-token",
    "x-csrf-token",
    "x-goog-iam-authorization-token",
    "x-session-token",
};

void StoreMetadata(const v1::CachedResponse& reported, v1::CachedResponse* kept) {
  size_t bytes = 0;
  for (const v1::MetadataEntry& entry : reported.metadata()) {
    const size_t size = entry.name().size() + entry.value().size();
    const bool fits = static_cast<size_t>(kept->metadata_size()) < core::kMaxMetadataEntries &&
                      size <= core::kMaxMetadataBytes - bytes;
    if (!fits || BearsCredentials(entry.name())) {
      kept->set_metadata_omitted(true);
      continue;
    }
    bytes += size;
    v1::MetadataEntry* copy = kept->add_metadata();
    copy->set_name(entry.name());
    copy->set_value(entry.value());
  }
}

void StoreBody(const v1::CachedResponse& reported, size_t max_body_bytes,
               v1::CachedResponse* kept) {
  // A size without a body is a body that was left out.
  const bool left_out =
      reported.body_omitted() || (!reported.has_body() && reported.body_size() > 0);
  if (left_out || reported.body().size() > max_body_bytes) {
    kept->set_body_omitted(true);
    kept->set_body_size(std::max<uint64_t>(reported.body_size(), reported.body().size()));
    return;
  }
  if (!reported.has_body()) return;
  kept->set_body(reported.body());
  kept->set_body_size(reported.body().size());
}

void StoreStatus(const v1::CachedResponse& reported, v1::CachedResponse* kept) {
  switch (reported.status_case()) {
    case v1::CachedResponse::kHttpStatus:
      kept->set_http_status(reported.http_status());
      break;
    case v1::CachedResponse::kGrpcCode:
      kept->set_grpc_code(reported.grpc_code());
      break;
    case v1::CachedResponse::STATUS_NOT_SET:
      break;
  }
  kept->set_status_message(
      std::string(CutText(reported.status_message(), core::kMaxLongTextBytes)));
  kept->set_content_type(std::string(CutText(reported.content_type(), core::kMaxShortTextBytes)));
}

}  // namespace

core::Response StoreResponse(const v1::CachedResponse& reported, size_t max_body_bytes) {
  // Field by field, so that nothing that no limit covers is carried along.
  v1::CachedResponse kept;
  StoreStatus(reported, &kept);
  StoreMetadata(reported, &kept);
  StoreBody(reported, max_body_bytes, &kept);
  return core::Response{core::Blob(kept.SerializeAsString()), kept.body_omitted()};
}

core::Response WithoutBody(const core::Response& stored) {
  v1::CachedResponse kept;
  if (!LoadResponse(stored, &kept)) return core::Response{core::Blob(), true};
  kept.clear_body();
  kept.set_body_omitted(true);
  return core::Response{core::Blob(kept.SerializeAsString()), true};
}

bool LoadResponse(const core::Response& stored, v1::CachedResponse* out) {
  const std::string_view bytes = stored.bytes.view();
  return out->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

bool BearsCredentials(std::string_view metadata_name) {
  return std::any_of(std::begin(kCredentialNames), std::end(kCredentialNames),
                     [&](std::string_view name) {
                       return absl::EqualsIgnoreCase(
                           absl::string_view(name.data(), name.size()),
                           absl::string_view(metadata_name.data(), metadata_name.size()));
                     });
}

}  // namespace idempotency::service
