// The published vectors of what answers mean, and the properties that no table may break.
#include "idempotency/classification.h"

#include <set>
#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "idempotency/providers.h"
#include "tests/client/lib/vector_file.h"

namespace idempotency {
namespace {

std::string Name(Disposition disposition) {
  switch (disposition) {
    case Disposition::kSucceeded:
      return "SUCCEEDED";
    case Disposition::kFailed:
      return "FAILED";
    case Disposition::kNothingHappened:
      return "NOTHING_HAPPENED";
    case Disposition::kUnknown:
      return "UNKNOWN";
  }
  return "?";
}

Classifier ClassifierOf(const VectorRow& row) {
  const std::string name = row.Text("classifier");
  if (name == "grpc") return ClassifyGrpc;
  if (name == "http") return ClassifyHttp;
  const ProviderProfile* profile = FindProvider(name);
  EXPECT_NE(profile, nullptr) << row;
  return profile == nullptr ? Classifier(ClassifyHttp) : ClassifierFor(*profile);
}

EffectResult ResultOf(const VectorRow& row, int http_status) {
  EffectResult result;
  if (row.Has("error_code")) {
    result.error = absl::Status(static_cast<absl::StatusCode>(row.Number("error_code")), "why");
  } else {
    result.response.emplace();
    result.response->metadata = row.Pairs("headers");
    if (row.Has("http_status")) result.response->status = CachedResponse::HttpStatus{http_status};
    if (row.Has("grpc_code")) {
      result.response->status = CachedResponse::GrpcCode{static_cast<int>(row.Number("grpc_code"))};
    }
  }
  if (row.Has("provider_code")) result.provider_code = row.Text("provider_code");
  if (row.Has("retry_after_ms")) result.retry_after = Duration{row.Number("retry_after_ms")};
  result.attempt = static_cast<uint32_t>(row.Number("attempt", 1));
  const std::string certainty = row.Text("certainty");
  if (certainty == "NOTHING_HAPPENED") {
    result.certainty = EffectResult::Certainty::kNothingHappened;
  } else if (certainty == "UNKNOWN") {
    result.certainty = EffectResult::Certainty::kUnknown;
  }
  return result;
}

void ExpectMeaning(const VectorRow& row, const Classification& found, int http_status) {
  EXPECT_EQ(Name(found.disposition), row.Text("means")) << row << " at " << http_status;
  if (found.disposition != Disposition::kUnknown) {
    EXPECT_FALSE(found.reconcile_first) << row;
    return;
  }
  EXPECT_EQ(Name(found.cause), row.Text("cause")) << row << " at " << http_status;
  EXPECT_EQ(found.reconcile_first, row.Flag("reconcile_first")) << row << " at " << http_status;
}

TEST(ClassificationTest, Vectors) {
  std::set<std::string> tried;
  for (const VectorRow& row : ReadRows("classification.json")) {
    const Classifier classify = ClassifierOf(row);
    tried.insert(row.Text("classifier"));
    const std::vector<int64_t> statuses = row.Numbers("http_status");
    const auto first = static_cast<int>(statuses.empty() ? 0 : statuses[0]);
    const auto last = static_cast<int>(statuses.empty() ? 0 : statuses[1]);
    for (int status = first; status <= last; ++status) {
      ExpectMeaning(row, classify(ResultOf(row, status)), status);
    }
  }
  std::set<std::string> all = {"grpc", "http"};
  for (const std::string& name : ProviderNames()) all.insert(name);
  EXPECT_EQ(tried, all);
}

std::vector<Classifier> EveryClassifier() {
  std::vector<Classifier> classifiers = {ClassifyGrpc, ClassifyHttp};
  for (const std::string& name : ProviderNames()) {
    classifiers.push_back(ClassifierFor(*FindProvider(name)));
  }
  return classifiers;
}

// What may hide a landed effect is never taken for "nothing happened".
TEST(ClassificationTest, ALostAnswerIsUnknownToEveryClassifier) {
  const absl::StatusCode lost[] = {
      absl::StatusCode::kCancelled,   absl::StatusCode::kUnknown,
      absl::StatusCode::kInternal,    absl::StatusCode::kDeadlineExceeded,
      absl::StatusCode::kUnavailable, absl::StatusCode::kAborted,
      absl::StatusCode::kDataLoss};
  for (const Classifier& classify : EveryClassifier()) {
    for (absl::StatusCode code : lost) {
      const EffectResult result = EffectResult::Failed(absl::Status(code, "connection refused"));
      EXPECT_EQ(classify(result).disposition, Disposition::kUnknown) << code;
    }
    EXPECT_EQ(classify(EffectResult{}).disposition, Disposition::kUnknown);
  }
}

TEST(ClassificationTest, AServersErrorIsUnknownToEveryClassifier) {
  for (const Classifier& classify : EveryClassifier()) {
    for (int status = 500; status <= 599; ++status) {
      CachedResponse response;
      response.status = CachedResponse::HttpStatus{status};
      EffectResult result = EffectResult::Answered(response);
      EXPECT_EQ(classify(result).disposition, Disposition::kUnknown) << status;
      result.provider_code = "";
      EXPECT_EQ(classify(result).disposition, Disposition::kUnknown) << status;
    }
  }
}

TEST(ClassificationTest, WhoKnowsBetterIsBelieved) {
  for (const Classifier& classify : EveryClassifier()) {
    const EffectResult never_sent =
        EffectResult::NothingHappened(absl::UnavailableError("connection refused"));
    EXPECT_EQ(classify(never_sent).disposition, Disposition::kNothingHappened);
    CachedResponse response;
    response.status = CachedResponse::HttpStatus{200};
    EffectResult in_doubt = EffectResult::Answered(response);
    in_doubt.provider_code = "";
    EXPECT_EQ(classify(in_doubt).disposition, Disposition::kSucceeded);
    in_doubt.certainty = EffectResult::Certainty::kUnknown;
    EXPECT_EQ(classify(in_doubt).disposition, Disposition::kUnknown);
  }
}

}  // namespace
}  // namespace idempotency
