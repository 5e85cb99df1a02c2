#include "service/exporter/http_listener.h"

#include <atomic>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/http.h"

namespace idempotency::service {
namespace {

using idempotency::testing::HttpGet;
using idempotency::testing::HttpRequest;
using ::testing::HasSubstr;

class HttpListenerTest : public ::testing::Test {
 protected:
  HttpListenerTest() {
    auto listener = HttpListener::Start("127.0.0.1:0", {[] { return std::string("a_metric 1\n"); },
                                                        [this] { return ready_.load(); }});
    EXPECT_TRUE(listener.ok()) << listener.status();
    listener_ = std::move(*listener);
  }

  int port() const { return listener_->port(); }

  std::atomic<bool> ready_{false};
  std::unique_ptr<HttpListener> listener_;
};

TEST_F(HttpListenerTest, AnswersItsThreePages) {
  EXPECT_EQ(HttpGet(port(), "/metrics").body, "a_metric 1\n");
  EXPECT_THAT(HttpGet(port(), "/metrics").head, HasSubstr("text/plain; version=0.0.4"));
  EXPECT_EQ(HttpGet(port(), "/healthz").status, 200);
  EXPECT_EQ(HttpGet(port(), "/readyz").status, 503);
  ready_ = true;
  EXPECT_EQ(HttpGet(port(), "/readyz").status, 200);
  // Whether alive does not depend on it.
  EXPECT_EQ(HttpGet(port(), "/healthz").status, 200);
}

TEST_F(HttpListenerTest, SaysWhatThereIsWhereSomethingElseIsAskedFor) {
  EXPECT_EQ(HttpGet(port(), "/").status, 404);
  EXPECT_THAT(HttpGet(port(), "/etc/passwd").body, HasSubstr("/metrics"));
  EXPECT_EQ(HttpGet(port(), "/../../../../etc/passwd").status, 404);
  EXPECT_EQ(HttpRequest(port(), "POST", "/metrics").status, 405);
  EXPECT_EQ(HttpRequest(port(), "DELETE", "/healthz").status, 405);
  const auto head = HttpRequest(port(), "HEAD", "/metrics");
  EXPECT_EQ(head.status, 200);
  EXPECT_THAT(head.head, HasSubstr("Content-Length: 11"));
  EXPECT_EQ(head.body, "");
}

TEST_F(HttpListenerTest, AnAddressThatIsTakenIsAnErrorThatNamesTheFlag) {
  const auto second = HttpListener::Start("127.0.0.1:" + std::to_string(port()),
                                          {[] { return std::string(); }, [] { return true; }});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("--metrics_listen"));
}

TEST(MetricsAddressTest, TakesNumbersAndLocalhost) {
  for (const char* address : {"127.0.0.1:9464", "0.0.0.0:0", "localhost:9464", "[::1]:9464",
                              "[::]:65535", "10.1.2.3:1"}) {
    EXPECT_TRUE(CheckMetricsAddress(address).ok()) << address;
  }
}

TEST(MetricsAddressTest, RefusesNonsenseAndSaysWhatToWrite) {
  for (const char* address :
       {"", ":", "9464", ":9464", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
        "127.0.0.1:+1", "127.0.0.1: 1", "127.0.0.1:0x50", "127.0.0.1:80s", "::1:9464", "[::1]",
        "metrics.example.com:9464", "unix:/run/metrics", "127.0.0.1:80,127.0.0.1:81",
        "127.0.0.1:99999999999999999999"}) {
    const absl::Status status = CheckMetricsAddress(address);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << address;
    EXPECT_THAT(std::string(status.message()), HasSubstr("use such as 127.0.0.1:9464")) << address;
  }
}

}  // namespace
}  // namespace idempotency::service
