// The audit's own sink: what is written when, what is not written at all, and what happens where
// nothing can be.
#include "service/audit_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "tests/support/temp_directory.h"

namespace idempotency::service {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr core::Time kStart{seconds(1'800'000'000)};

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// Every line as a JSON object; fails the test where one is none.
std::vector<google::protobuf::Struct> LinesOf(const std::string& path) {
  std::vector<google::protobuf::Struct> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(line, &lines.emplace_back()).ok())
        << line;
  }
  return lines;
}

std::string Text(const google::protobuf::Struct& line, const std::string& field) {
  const auto value = line.fields().find(field);
  return value == line.fields().end() ? "" : value->second.string_value();
}

class AuditLogTest : public ::testing::Test {
 protected:
  std::unique_ptr<AuditLog> Open(const std::string& path) {
    auto audit = AuditLog::Open({path, [this] { return now_; }, &metrics_});
    EXPECT_TRUE(audit.ok()) << audit.status();
    return *std::move(audit);
  }
  std::string path() const { return directory_.file("audit"); }

  static AuditEntry Resolve() {
    AuditEntry entry;
    entry.action = "resolve_operation";
    entry.who = "spiffe://example.org/sa/on-call";
    entry.peer = "ipv4:10.0.0.7:41";
    entry.name_space = "payments";
    entry.scope = "acct-1";
    entry.key = "o-17";
    entry.actor = "alice";
    entry.reason = "seen \"there\"\n";
    return entry;
  }

  const TempDirectory directory_;
  CountingMetrics metrics_;
  core::Time now_ = kStart;
};

TEST_F(AuditLogTest, AnActIsCarriedOutWhenItsLineIsInTheFile) {
  const auto audit = Open(path());
  std::string there;
  absl::Notification done;
  audit->Begin(Resolve(), [&](std::optional<AuditLog::Act> act) {
    there = ReadFile(path());
    ASSERT_TRUE(act);
    audit->End(*act, "OK");
    done.Notify();
  });
  done.WaitForNotification();
  EXPECT_EQ(there,
            "{\"time\":\"2027-01-15T08:00:00.000Z\",\"audit\":\"act\",\"id\":\"1800000000000-1\","
            "\"action\":\"resolve_operation\",\"who\":\"spiffe://example.org/sa/on-call\","
            "\"peer\":\"ipv4:10.0.0.7:41\",\"namespace\":\"payments\",\"scope\":\"acct-1\","
            "\"key\":\"o-17\",\"actor\":\"alice\",\"reason\":\"seen \\\"there\\\"\\u000a\","
            "\"result\":\"begins\"}\n");
  audit->Flush();
  const auto lines = LinesOf(path());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(Text(lines[1], "audit"), "act_ended");
  EXPECT_EQ(Text(lines[1], "id"), Text(lines[0], "id"));
  EXPECT_EQ(Text(lines[1], "result"), "OK");
  EXPECT_EQ(metrics_.Read().audited, (std::array<uint64_t, kAuditLines>{1, 1, 0}));
}

TEST_F(AuditLogTest, AnActIsNotCarriedOutWhereTheSinkIsFull) {
  const auto audit = Open("/dev/full");
  EXPECT_FALSE(audit->BeginAndWait(Resolve()));
  EXPECT_EQ(metrics_.Read().audit_failures, (std::array<uint64_t, kAuditLines>{1, 0, 0}));
  AuditEntry denied;
  denied.action = "reserve";
  audit->Deny(denied, "ACCESS_DENIED");
  audit->Flush();
  EXPECT_EQ(metrics_.Read().audit_failures, (std::array<uint64_t, kAuditLines>{1, 0, 1}));
}

TEST_F(AuditLogTest, SoManyActsAtOnceAndNoMore) {
  const auto audit = Open(path());
  absl::Notification go;
  size_t carried = 0;  // by one thread
  size_t refused = 0;
  for (size_t i = 0; i < kMaxAuditedActs + 3; ++i) {
    audit->Begin(Resolve(), [&](std::optional<AuditLog::Act> act) {
      if (!act) return static_cast<void>(++refused);
      go.WaitForNotification();
      ++carried;
    });
  }
  // The thread that carries acts out has taken one, which is not begun but carried by then.
  EXPECT_GE(refused, 2u);
  EXPECT_LE(refused, 3u);
  go.Notify();
  while (!audit->BeginAndWait(Resolve())) std::this_thread::yield();
  EXPECT_EQ(carried + refused, kMaxAuditedActs + 3);
}

TEST_F(AuditLogTest, AFloodOfDenialsIsAFewLinesAndACount) {
  const auto audit = Open(path());
  AuditEntry entry;
  entry.action = "reserve";
  entry.who = "token:ci";
  entry.name_space = "payments";
  entry.key = "k";
  constexpr uint64_t kDenials = 100'000;
  for (uint64_t i = 0; i < kDenials; ++i) audit->Deny(entry, "ACCESS_DENIED");
  audit->TellUntold();
  audit->Flush();
  EXPECT_EQ(LinesOf(path()).size(), kDenialsToldOfStory);
  now_ = kStart + kDenialWindow;
  audit->TellUntold();
  audit->Flush();
  const auto lines = LinesOf(path());
  ASSERT_EQ(lines.size(), kDenialsToldOfStory + 1);
  EXPECT_EQ(Text(lines[0], "audit"), "denial");
  EXPECT_EQ(Text(lines[0], "key"), "k");
  EXPECT_EQ(Text(lines.back(), "audit"), "denials_counted");
  EXPECT_EQ(Text(lines.back(), "who"), "token:ci");
  EXPECT_EQ(lines.back().fields().at("count").number_value(), kDenials - kDenialsToldOfStory);
}

TEST_F(AuditLogTest, WhatWasNotToldIsToldAtTheEnd) {
  auto audit = Open(path());
  AuditEntry entry;
  entry.action = "renew";
  for (uint64_t i = 0; i <= kDenialsToldOfStory; ++i) audit->Deny(entry, "NO_CREDENTIALS");
  audit.reset();
  EXPECT_THAT(ReadFile(path()), HasSubstr("\"denials_counted\",\"action\":\"renew\",\"count\":1}"));
}

// Somebody who is denied may have put anything anywhere.
TEST_F(AuditLogTest, WhatLooksLikeACredentialIsWithheld) {
  auto audit = Open(path());
  AuditEntry entry = Resolve();
  entry.scope = "alice@example.org";
  entry.key = "4111111111111111";
  entry.reason = "Bearer abcdefghijklmnopqrstuvwxyz";
  audit->BeginAndWait(entry);
  audit.reset();
  const std::string text = ReadFile(path());
  EXPECT_THAT(text, Not(HasSubstr("alice@")));
  EXPECT_THAT(text, Not(HasSubstr("4111111111111111")));
  EXPECT_THAT(text, Not(HasSubstr("abcdefghij")));
  // printf %s 4111111111111111 | sha256sum
  EXPECT_EQ(Text(LinesOf(path())[0], "key_sha256"),
            "9bbef19476623ca56c17da75fd57734dbf82530686043a6e491c6d71befe8f6e");
  EXPECT_THAT(Text(LinesOf(path())[0], "key"), HasSubstr("withheld: looks like"));
}

TEST_F(AuditLogTest, AFileThatWasMovedAwayIsBegunAnew) {
  const auto audit = Open(path());
  EXPECT_TRUE(audit->BeginAndWait(Resolve()));
  std::filesystem::rename(path(), path() + ".1");
  EXPECT_TRUE(audit->BeginAndWait(Resolve())) << "into the file that was moved";
  EXPECT_TRUE(audit->Reopen().ok());
  EXPECT_TRUE(audit->BeginAndWait(Resolve()));
  EXPECT_EQ(LinesOf(path() + ".1").size(), 2u);
  EXPECT_EQ(LinesOf(path()).size(), 1u);
  // Where the path leads nowhere, what was open goes on.
  std::filesystem::rename(path(), path() + ".2");
  std::filesystem::create_directory(path());
  EXPECT_EQ(audit->Reopen().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(audit->BeginAndWait(Resolve()));
  EXPECT_EQ(LinesOf(path() + ".2").size(), 2u);
}

TEST_F(AuditLogTest, AddsToWhatIsThere) {
  std::ofstream(path()) << "{}\n";
  EXPECT_TRUE(Open(path())->BeginAndWait(Resolve()));
  EXPECT_EQ(LinesOf(path()).size(), 2u);
}

TEST_F(AuditLogTest, SaysWhatToDoWhereTheFileCannotBeOpened) {
  const auto audit =
      AuditLog::Open({directory_.file("no/such/file"), [] { return kStart; }, &metrics_});
  EXPECT_EQ(audit.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(audit.status().message()),
              HasSubstr("cannot be opened (No such file or directory); name a file that this "
                        "process may append to, or stderr."));
}

// The disk fills up in the middle of a line, and has room again later.
TEST_F(AuditLogTest, ALineThatWasCutOffDoesNotRunIntoTheNext) {
  const auto audit = Open(path());
  ASSERT_TRUE(audit->BeginAndWait(Resolve()));
  const uintmax_t first = std::filesystem::file_size(path());
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{.rlim_cur = first + 20, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_FALSE(audit->BeginAndWait(Resolve()));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_TRUE(audit->BeginAndWait(Resolve()));
  std::ifstream in(path());
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1].size(), 20u) << "what was there in time";
  EXPECT_THAT(lines[2], HasSubstr("\"id\":\"1800000000000-3\""));
}

}  // namespace
}  // namespace idempotency::service
