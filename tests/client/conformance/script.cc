#include "tests/client/conformance/script.h"

#include <string_view>
#include <utility>

#include "gtest/gtest.h"
#include "idempotency/fingerprint.h"
#include "idempotency/providers.h"

namespace idempotency::testing {
namespace {

// The value whose name it is, of those from 0 to `last`.
template <typename Enum>
Enum ByName(const std::string& name, int last) {
  for (int number = 0; number <= last; ++number) {
    if (Name(static_cast<Enum>(number)) == name) return static_cast<Enum>(number);
  }
  ADD_FAILURE() << "no such name: " << name;
  return static_cast<Enum>(0);
}

absl::Status ErrorOf(const Json& error) {
  return {CodeOf(error.at("code")), error.at("message").get<std::string>()};
}

std::optional<std::string> BodyOf(const Json& response) {
  if (response.contains("body")) return response.at("body").get<std::string>();
  if (!response.contains("body_repeat")) return std::nullopt;
  const std::string part = FromHex(response.at("body_repeat").at("hex"));
  std::string body;
  for (int64_t left = response.at("body_repeat").at("times"); left > 0; --left) body += part;
  return body;
}

}  // namespace

std::string FromHex(const std::string& digits) {
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::string ToHex(const std::string& bytes) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string digits;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    digits.push_back(kDigits[byte >> 4]);
    digits.push_back(kDigits[byte & 15]);
  }
  return digits;
}

std::string TextOf(const Json& step, const char* field, const std::string& otherwise) {
  return step.contains(field) ? step.at(field).get<std::string>() : otherwise;
}

bool FlagOf(const Json& step, const char* field, bool otherwise) {
  return step.contains(field) ? step.at(field).get<bool>() : otherwise;
}

std::optional<Duration> SpanOf(const Json& step, const char* field) {
  if (!step.contains(field)) return std::nullopt;
  return Duration(step.at(field).get<int64_t>());
}

Duration SpanOr(const Json& step, const char* field, int64_t otherwise_ms) {
  return SpanOf(step, field).value_or(Duration(otherwise_ms));
}

absl::StatusCode CodeOf(const std::string& name) {
  for (int number = 0; number <= 16; ++number) {
    const auto code = static_cast<absl::StatusCode>(number);
    if (absl::StatusCodeToString(code) == name) return code;
  }
  ADD_FAILURE() << "no such code: " << name;
  return absl::StatusCode::kUnknown;
}

ErrorReason ReasonOf(const std::string& name) { return ByName<ErrorReason>(name, 19); }

Verdict VerdictOf(const Json& step) {
  return ByName<Verdict>(TextOf(step, "verdict", "SUCCEEDED"), 3);
}

UnresolvedCause CauseOf(const std::string& name) { return ByName<UnresolvedCause>(name, 6); }

OperationState StateOf(const std::string& name) { return ByName<OperationState>(name, 5); }

std::optional<CachedResponse> ResponseOf(const Json& step, const char* field) {
  if (!step.contains(field)) return std::nullopt;
  const Json& from = step.at(field);
  CachedResponse response;
  if (from.contains("http_status"))
    response.status = CachedResponse::HttpStatus{from["http_status"]};
  if (from.contains("grpc_code")) response.status = CachedResponse::GrpcCode{from["grpc_code"]};
  response.status_message = TextOf(from, "status_message");
  response.content_type = TextOf(from, "content_type");
  for (const Json& entry : from.value("metadata", Json::array())) {
    response.metadata.emplace_back(entry.at(0).get<std::string>(), FromHex(entry.at(1)));
  }
  response.body = BodyOf(from);
  response.body_omitted = FlagOf(from, "body_omitted");
  response.body_size = std::stoull(TextOf(from, "body_size", "0"));
  return response;
}

std::optional<Fingerprint> FingerprintOf(const Json& step) {
  if (step.contains("request") && step.at("request").is_null()) return std::nullopt;
  return FingerprintBytes("POST", "/v1/charges", TextOf(step, "request", "charge 100"));
}

EffectResult EffectOf(const Json& effect) {
  EffectResult result;
  if (auto answer = ResponseOf(effect, "answer")) {
    result = EffectResult::Answered(*std::move(answer));
  } else if (effect.contains("error")) {
    result = EffectResult::Failed(ErrorOf(effect.at("error")));
  } else {
    result = EffectResult::NothingHappened(ErrorOf(effect.at("nothing_happened")));
  }
  result.provider_request_id = TextOf(effect, "provider_request_id");
  if (effect.contains("provider_code")) result.provider_code = TextOf(effect, "provider_code");
  result.retry_after = SpanOf(effect, "retry_after_ms");
  return result;
}

LookUp LookUpOf(const Json& look_up) {
  const std::string found = look_up.at("found");
  return LookUp{.found = found == "HAPPENED"    ? LookUp::Found::kHappened
                         : found == "NOT_THERE" ? LookUp::Found::kNotThere
                                                : LookUp::Found::kUnknown,
                .verdict = VerdictOf(look_up),
                .response = ResponseOf(look_up, "response"),
                .provider_request_id = TextOf(look_up, "provider_request_id"),
                .evidence = TextOf(look_up, "evidence")};
}

Classifier ClassifierOf(const Json& step) {
  const std::string name = TextOf(step, "classifier", "grpc");
  if (name == "grpc") return ClassifyGrpc;
  if (name == "http") return ClassifyHttp;
  const ProviderProfile* profile = FindProvider(name);
  if (profile == nullptr) {
    ADD_FAILURE() << "no such provider: " << name;
    return ClassifyHttp;
  }
  return ClassifierFor(*profile);
}

}  // namespace idempotency::testing
