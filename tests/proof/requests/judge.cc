#include "tests/proof/requests/judge.h"

#include <algorithm>

#include "google/rpc/error_details.pb.h"

namespace idempotency::proof {
namespace {

// Shorter texts may stand in a sentence by chance.
constexpr size_t kMinSecretBytes = 6;

std::string Joined(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) joined += (joined.empty() ? "" : " or ") + text;
  return joined;
}

std::string JudgeField(const std::string& field, const Expected& expected) {
  if (expected.fields.empty()) return "";
  const auto& fields = expected.fields;
  if (std::find(fields.begin(), fields.end(), field) != fields.end()) return "";
  return "blames '" + field + "', not " + Joined(fields);
}

std::string JudgeSentence(const std::string& message, const std::vector<std::string>& secrets) {
  if (message.size() < 10 || message.back() != '.') return "no sentence: '" + message + "'";
  if (message.find(kMark) != std::string::npos) return "repeats what was sent: " + message;
  for (const std::string& secret : secrets) {
    if (secret.size() >= kMinSecretBytes && message.find(secret) != std::string::npos) {
      return "repeats what was sent: " + message;
    }
  }
  return "";
}

std::string FirstOf(std::initializer_list<std::string> wrongs) {
  for (const std::string& wrong : wrongs) {
    if (!wrong.empty()) return wrong;
  }
  return "";
}

std::string Unless(bool holds, const std::string& wrong) { return holds ? "" : wrong; }

}  // namespace

std::string JudgeRefusal(const Answer& answer, const Expected& expected,
                         const std::vector<std::string>& secrets) {
  const grpc::Status& status = answer.status;
  const std::string told =
      std::to_string(status.error_code()) + " " + answer.reason + " " + status.error_message();
  if (status.ok()) return "accepted";
  const ReasonRule* const rule = FindReason(expected.reason);
  if (rule == nullptr) return "the harness expects " + expected.reason;
  google::rpc::ErrorInfo info;
  google::rpc::BadRequest blame;
  google::rpc::RetryInfo retry;
  const bool has_info = answer.Find(&info);
  const bool has_blame = answer.Find(&blame);
  const bool needs_blame = !expected.fields.empty();
  const std::string field =
      blame.field_violations_size() == 1 ? blame.field_violations(0).field() : "";
  return FirstOf({
      Unless(answer.reason == expected.reason, "is told " + told),
      Unless(status.error_code() == rule->code, "has the code of another reason: " + told),
      Unless(has_info && info.reason() == expected.reason && info.domain() == "idempotency.v1",
             "has no ErrorInfo: " + told),
      Unless(
          answer.details.code() == rule->code && answer.details.message() == status.error_message(),
          "has other details: " + told),
      Unless(!needs_blame || has_blame, "has no BadRequest: " + told),
      JudgeField(field, expected),
      Unless(answer.Find(&retry) == rule->retry_info, "RetryInfo where it should not be: " + told),
      JudgeSentence(status.error_message(), secrets),
  });
}

std::string JudgeError(const v1::Error& error, const Expected& expected,
                       const std::vector<std::string>& secrets) {
  const ReasonRule* const rule = FindReason(expected.reason);
  if (rule == nullptr) return "the harness expects " + expected.reason;
  const std::string name = v1::ErrorReason_Name(error.reason());
  return FirstOf({
      Unless(name == "ERROR_REASON_" + expected.reason, "is told " + error.ShortDebugString()),
      Unless(error.code() == rule->code, "has the code of another reason: " + name),
      JudgeField(error.field(), expected),
      Unless(error.has_retry_after() == rule->retry_info,
             "retry_after where it should not be: " + name),
      JudgeSentence(error.message(), secrets),
  });
}

}  // namespace idempotency::proof
