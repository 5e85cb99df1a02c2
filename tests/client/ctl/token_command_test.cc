// Static tokens: made and digested here, sent nowhere.
#include <gmock/gmock.h>

#include <string>

#include "tests/client/ctl/fake_server.h"

namespace idempotency::ctl {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(TokenCommandTest, ANewTokenComesWithTheLineForTheServer) {
  FakeServer server;
  const RunResult made = server.Run({"token", "new", "ci"});
  ASSERT_EQ(made.code, 0) << made.err;
  const std::string token = std::string(kAttemptId) + kAttemptId;
  EXPECT_EQ(made.out, token + "\n");
  // Fit to be added to the file as it is.
  EXPECT_THAT(made.err, StartsWith("# "));
  EXPECT_THAT(made.err, HasSubstr("\nci sha256:"));
  // The same line as for a token from elsewhere.
  const RunResult hashed = server.Run({"token", "hash", "ci"}, token + "\n");
  ASSERT_EQ(hashed.code, 0) << hashed.err;
  EXPECT_THAT(made.err, EndsWith(hashed.out));
  EXPECT_EQ(hashed.out.size(), std::string("ci sha256:\n").size() + 64);
}

TEST(TokenCommandTest, TheLineIsTheDigestOfTheTokenAlone) {
  FakeServer server;
  // printf %s 0123456789abcdef0123456789abcdef | sha256sum
  EXPECT_EQ(server.Run({"token", "hash", "a"}, "0123456789abcdef0123456789abcdef\r\n").out,
            "a sha256:3eb1bd439947eb762998e566ccc2e099c791118b2f40579cc4f7da2b5061b7f9\n");
}

TEST(TokenCommandTest, ShortTokensAndWrongNamesAreRefused) {
  FakeServer server;
  for (const char* input : {"", "\n", "short", "0123456789 bcdef0123456789abcdef"}) {
    const RunResult run = server.Run({"token", "hash", "a"}, input);
    EXPECT_EQ(run.code, static_cast<int>(ExitCode::kUsage)) << input;
    EXPECT_THAT(run.err, HasSubstr("at least 32 random characters")) << input;
  }
  for (const char* name : {"a:b", "a b", "ä"}) {
    EXPECT_EQ(server.Run({"token", "new", name}).code, static_cast<int>(ExitCode::kUsage)) << name;
  }
  EXPECT_EQ(server.Run({"token"}).code, static_cast<int>(ExitCode::kUsage));
}

}  // namespace
}  // namespace idempotency::ctl
