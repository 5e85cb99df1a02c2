#include "idempotency/fingerprint.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/src/fingerprint_digest.h"
#include "client/src/framed_hash.h"
#include "client/src/json.h"
#include "client/src/json_pointer.h"

namespace idempotency {
namespace internal {

Fingerprint DigestRequest(std::string_view form, std::string_view method, std::string_view resource,
                          std::string_view content, const FingerprintKey* key) {
  const std::string input = Frames({form, method, resource, content});
  Fingerprint fingerprint;
  if (key == nullptr) {
    fingerprint.algorithm = absl::StrCat("sha256/", std::string(form));
    fingerprint.digest = Sha256(input);
    return fingerprint;
  }
  fingerprint.algorithm = absl::StrCat("hmac-sha256/", std::string(form));
  if (!key->id().empty()) absl::StrAppend(&fingerprint.algorithm, ":", key->id());
  fingerprint.digest = HmacSha256(key->secret(), input);
  return fingerprint;
}

}  // namespace internal

absl::StatusOr<FingerprintKey> FingerprintKey::Make(std::string secret, std::string id) {
  if (secret.size() < kMinFingerprintSecretBytes) {
    return absl::InvalidArgumentError(absl::StrCat("secret: ", secret.size(),
                                                   " bytes; use at least ",
                                                   kMinFingerprintSecretBytes, " random ones"));
  }
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  if (id.size() > kMaxFingerprintKeyIdBytes ||
      id.find_first_not_of(kAllowed) != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("id: use at most ", kMaxFingerprintKeyIdBytes,
                                                   " letters, digits, '.', '_' and '-'"));
  }
  return FingerprintKey(std::move(secret), std::move(id));
}

Fingerprint FingerprintBytes(std::string_view method, std::string_view resource,
                             std::string_view body) {
  return internal::DigestRequest(internal::kBytesForm, method, resource, body, nullptr);
}

Fingerprint FingerprintBytes(std::string_view method, std::string_view resource,
                             std::string_view body, const FingerprintKey& key) {
  return internal::DigestRequest(internal::kBytesForm, method, resource, body, &key);
}

absl::StatusOr<std::string> CanonicalJson(std::string_view json_text,
                                          const std::vector<std::string>& exclude) {
  absl::StatusOr<internal::JsonValue> document = internal::ParseJson(json_text);
  if (!document.ok()) return document.status();
  for (const std::string& pointer : exclude) {
    const absl::Status removed = internal::RemoveJsonMember(pointer, &*document);
    if (!removed.ok()) return removed;
  }
  return internal::WriteCanonicalJson(*document);
}

absl::StatusOr<Fingerprint> FingerprintJson(std::string_view method, std::string_view resource,
                                            std::string_view json_text,
                                            const FingerprintOptions& options) {
  const absl::StatusOr<std::string> content = CanonicalJson(json_text, options.exclude);
  if (!content.ok()) return content.status();
  return internal::DigestRequest(internal::kJsonForm, method, resource, *content,
                                 options.key ? &*options.key : nullptr);
}

}  // namespace idempotency
