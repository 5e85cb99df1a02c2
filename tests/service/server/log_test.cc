// What the log says of a life cycle, and what it never says.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/service/server/commands.h"
#include "tests/support/service_fixture.h"

namespace idempotency::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kTraceparent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

constexpr const char* kEvents[] = {"refused",    "late_completion", "fingerprint_mismatch",
                                   "unresolved", "inspected",       "resolved",
                                   "deleted",    "lease_lapsed",    "command"};

// Everything that must not be logged has this in it.
std::string Secret(const std::string& name) { return "secret-" + name; }

v1::ReserveRequest OwnedReserve(const std::string& key, const std::string& attempt = "1") {
  v1::ReserveRequest request = Reserve(Secret(key), attempt);
  request.mutable_id()->set_scope(Secret("scope"));
  request.mutable_owner()->set_worker("pod-1");
  request.mutable_owner()->set_operation_ref("run-7");
  request.mutable_owner()->set_traceparent(kTraceparent);
  (*request.mutable_labels())["label"] = Secret("label");
  return request;
}

template <typename Request>
Request InScope(Request request) {
  request.mutable_id()->set_scope(Secret("scope"));
  return request;
}

class Story {
 public:
  explicit Story(ServiceFixture* service) : service_(service) {}

  uint64_t Acquire(const v1::ReserveRequest& request) {
    const auto reserved = Send(&Api::Reserve, request);
    EXPECT_EQ(reserved.response.outcome(), v1::RESERVE_OUTCOME_ACQUIRED);
    return reserved.response.lease().fencing_token();
  }
  // With a credential, as a caller sends it.
  template <typename Stub, typename Request, typename Response>
  CallResult<Response> Send(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                         Response*),
                            const Request& request) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + Secret("credential"));
    Response response;
    grpc::Status status;
    if constexpr (std::is_same_v<Stub, Api>) {
      status = (service_->api()->*method)(&context, request, &response);
    } else {
      status = (service_->admin()->*method)(&context, request, &response);
    }
    return ReadResult(status, context, std::move(response));
  }

  // Renewed, completed, mismatched, reported otherwise, inspected, deleted.
  void Succeed() {
    const uint64_t token = Acquire(OwnedReserve("a"));
    v1::RenewRequest renew = InScope(Renew(Secret("a"), token));
    renew.set_progress(Secret("progress"));
    EXPECT_TRUE(Send(&Api::Renew, renew).status.ok());
    v1::CompleteRequest complete = InScope(Complete(Secret("a"), token, Secret("body")));
    complete.set_provider_request_id("req_1");
    EXPECT_TRUE(Send(&Api::Complete, complete).status.ok());
    complete.mutable_response()->set_body(Secret("other-body"));
    complete.clear_provider_request_id();
    EXPECT_EQ(Send(&Api::Complete, complete).reason, "ALREADY_COMPLETE");
    v1::ReserveRequest other = OwnedReserve("a", "2");
    *other.mutable_fingerprint() = Print('x');
    EXPECT_EQ(Send(&Api::Reserve, other).response.outcome(),
              v1::RESERVE_OUTCOME_FINGERPRINT_MISMATCH);
    EXPECT_TRUE(Send(&Api::GetOperation, InScope(Get(Secret("a")))).status.ok());
    EXPECT_TRUE(Send(&AdminApi::InspectOperation, InScope(Inspect(Secret("a")))).status.ok());
    EXPECT_TRUE(Send(&AdminApi::DeleteOperation, InScope(Delete(Secret("a")))).status.ok());
  }

  // Lapsed, resolved, done again, reported late, released, tried again as the same attempt.
  void Lapse() {
    const uint64_t lapsed = Acquire(OwnedReserve("b"));
    service_->Advance(std::chrono::hours(1));
    v1::ResolveOperationRequest resolve = InScope(Resolve(Secret("b")));
    resolve.mutable_not_executed();
    EXPECT_TRUE(Send(&AdminApi::ResolveOperation, resolve).status.ok());
    const uint64_t token = Acquire(OwnedReserve("b", "2"));
    const auto late =
        Send(&Api::Complete, InScope(Complete(Secret("b"), lapsed, Secret("late-body"))));
    EXPECT_EQ(late.reason, "STALE_FENCING_TOKEN");
    EXPECT_TRUE(Send(&Api::Release, InScope(Release(Secret("b"), token))).status.ok());
    EXPECT_EQ(Send(&Api::Reserve, OwnedReserve("b", "2")).reason, "ATTEMPT_FINISHED");
  }

  void Doubt() {
    const uint64_t token = Acquire(OwnedReserve("c"));
    EXPECT_EQ(Send(&AdminApi::DeleteOperation, InScope(Delete(Secret("c")))).reason, "LEASE_LIVE");
    EXPECT_TRUE(Send(&Api::MarkUnresolved, InScope(Mark(Secret("c"), token))).status.ok());
  }

 private:
  ServiceFixture* const service_;
};

// The whole of a log that was written to a pipe, which holds all of it.
std::string LogOf(ServiceFixture::Options options,
                  const std::function<void(ServiceFixture*)>& story) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
  {
    options.log_fd = ends[1];
    ServiceFixture service(std::move(options));
    story(&service);
  }
  close(ends[1]);
  std::string text(1 << 20, '\0');
  size_t size = 0;
  for (ssize_t got = 1; got > 0; size += static_cast<size_t>(std::max<ssize_t>(got, 0))) {
    got = read(ends[0], text.data() + size, text.size() - size);
  }
  close(ends[0]);
  text.resize(size);
  return text;
}

std::string LogOf(service::LogLevel level) {
  return LogOf({.log_level = level}, [](ServiceFixture* service) {
    Story story(service);
    story.Succeed();
    story.Lapse();
    story.Doubt();
  });
}

std::vector<std::string> LinesOf(const std::string& text) {
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

TEST(ServiceLogTest, SaysWhoseOperationItIs) {
  std::set<std::string> missing(std::begin(kEvents), std::end(kEvents));
  for (const std::string& line : LinesOf(LogOf(service::LogLevel::kDebug))) {
    for (const char* event : kEvents) {
      if (!absl::StrContains(line, "\"event\":\"" + std::string(event) + "\"")) continue;
      missing.erase(event);
      EXPECT_THAT(line, HasSubstr(R"("namespace":"payments")"));
      EXPECT_THAT(line, HasSubstr(R"("operation_ref":"run-7")"));
      EXPECT_THAT(line, HasSubstr(R"("trace_id":"0af7651916cd43dd8448eb211c80319c")"));
    }
    if (absl::StrContains(line, "ALREADY_COMPLETE") || absl::StrContains(line, "deleted")) {
      EXPECT_THAT(line, HasSubstr(R"("provider_request_id":"req_1")"));
    }
  }
  EXPECT_THAT(missing, ::testing::IsEmpty());
}

TEST(ServiceLogTest, NeverSaysWhatIsInTheRequests) {
  const std::string text = LogOf(service::LogLevel::kDebug);
  EXPECT_THAT(text, HasSubstr("late_completion"));
  EXPECT_THAT(text, Not(HasSubstr("secret")));
  EXPECT_THAT(text, Not(HasSubstr("attempt-of-")));
  EXPECT_THAT(text, Not(HasSubstr(Print().digest())));
}

TEST(ServiceLogTest, SaysNothingOfOrdinaryCommandsAtInfo) {
  const std::string text = LogOf(service::LogLevel::kInfo);
  EXPECT_THAT(text, Not(HasSubstr(R"("event":"command")")));
  EXPECT_THAT(text, HasSubstr("lease_lapsed"));
}

// --- Texts that look like what should not be stored --------------------------------------------

v1::ReserveRequest SensitiveReserve(const std::string& attempt) {
  v1::ReserveRequest request = Reserve("carol@example.com", attempt);
  request.mutable_id()->set_scope("alice@example.com");
  request.mutable_owner()->set_operation_ref("4111111111111111");
  (*request.mutable_labels())["mail"] = "bob@example.com";
  (*request.mutable_labels())["sk_live_0123456789abcdef"] = "label";
  return request;
}

// What is said of a new operation, of one that exists, and of one that has been freed.
std::string WarningsUnder(const std::string& key_check, uint64_t* counted) {
  const std::string config =
      "defaults: {key_check: " + key_check + "}\nnamespaces: [{name: payments}]";
  return LogOf({.config = config, .log_level = service::LogLevel::kWarning},
               [counted](ServiceFixture* service) {
                 const auto made = service->Call(&Api::Reserve, SensitiveReserve("1"));
                 EXPECT_TRUE(made.status.ok()) << made.status.error_message();
                 service->Call(&Api::Reserve, SensitiveReserve("2"));
                 v1::ReleaseRequest release =
                     Release("carol@example.com", made.response.lease().fencing_token());
                 release.mutable_id()->set_scope("alice@example.com");
                 EXPECT_TRUE(service->Call(&Api::Release, release).status.ok());
                 EXPECT_EQ(service->Call(&Api::Reserve, SensitiveReserve("3")).response.outcome(),
                           v1::RESERVE_OUTCOME_ACQUIRED);
                 *counted = service->metrics().Read().sensitive;
               });
}

TEST(SensitiveTextTest, IsWarnedOfOnceANewOperationAndField) {
  uint64_t counted = 0;
  const std::string text = WarningsUnder("WARN", &counted);
  EXPECT_EQ(counted, 5u);
  const std::vector<std::string> lines = LinesOf(text);
  ASSERT_EQ(lines.size(), 5u) << text;
  const std::pair<const char*, const char*> expected[] = {
      {"id.key", "an e-mail address"},          {"id.scope", "an e-mail address"},
      {"labels", "an e-mail address"},          {"labels", "an API key"},
      {"owner.operation_ref", "a card number"},
  };
  for (size_t i = 0; i < lines.size(); ++i) {
    EXPECT_THAT(lines[i], HasSubstr(R"("event":"looks_sensitive")"));
    EXPECT_THAT(lines[i], HasSubstr(R"("namespace":"payments")"));
    EXPECT_THAT(lines[i], HasSubstr(absl::StrCat("\"field\":\"", expected[i].first, "\"")));
    EXPECT_THAT(lines[i], HasSubstr(absl::StrCat("\"looks_like\":\"", expected[i].second, "\"")));
  }
  for (const char* secret : {"carol", "alice", "bob", "4111", "sk_live"}) {
    EXPECT_THAT(text, Not(HasSubstr(secret)));
  }
}

TEST(SensitiveTextTest, IsNotLookedForWhereTheCheckIsOff) {
  uint64_t counted = 1;
  EXPECT_EQ(WarningsUnder("OFF", &counted), "");
  EXPECT_EQ(counted, 0u);
}

TEST(SensitiveTextTest, BesideTheKeyIsNoReasonToRefuse) {
  uint64_t counted = 0;
  const std::string text =
      LogOf({.log_level = service::LogLevel::kWarning}, [&counted](ServiceFixture* service) {
        v1::ReserveRequest request = SensitiveReserve("1");
        EXPECT_EQ(service->Call(&Api::Reserve, request).reason, "INVALID_FIELD");
        EXPECT_EQ(service->metrics().Read().sensitive, 0u);
        request.mutable_id()->set_key("order-1");
        EXPECT_TRUE(service->Call(&Api::Reserve, request).status.ok());
        counted = service->metrics().Read().sensitive;
      });
  EXPECT_EQ(counted, 4u);
  EXPECT_THAT(text, Not(HasSubstr("id.key")));
}

}  // namespace
}  // namespace idempotency::testing
