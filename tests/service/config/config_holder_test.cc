#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/config.h"

namespace idempotency::service {
namespace {

using testing::HasSubstr;

// A path of this test's own; nothing is there yet.
std::string OwnPath(const std::string& name) {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string path = testing::TempDir() + "/" + test->name() + "." + name;
  std::remove(path.c_str());
  return path;
}

void Write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

TEST(ConfigLoadTest, ReadsAFile) {
  const std::string path = OwnPath("config.yaml");
  Write(path, "namespaces: [{name: a}]");
  const auto config = Config::Load(path);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT((*config)->Names(), testing::ElementsAre("a"));
}

TEST(ConfigLoadTest, NamesTheFileInItsProblems) {
  const std::string path = OwnPath("config.yaml");
  Write(path, "what: 1");
  const absl::Status status = Config::Load(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), testing::StartsWith(path + ":1: what: unknown field"));
}

TEST(ConfigLoadTest, AMissingFileIsNotFound) {
  const std::string path = OwnPath("none.yaml");
  const absl::Status status = Config::Load(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(path + ": cannot be opened: check the path given with --config"));
}

TEST(ConfigLoadTest, ADirectoryIsNoFile) {
  const absl::Status status = Config::Load(testing::TempDir()).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot be read"));
}

TEST(ConfigLoadTest, SizeIsBounded) {
  const std::string path = OwnPath("config.yaml");
  std::string text = "namespaces: [{name: a}]\n#";
  text.append(kMaxConfigFileBytes - text.size(), 'x');
  Write(path, text);
  EXPECT_TRUE(Config::Load(path).ok());
  Write(path, text + "x");
  const absl::Status status = Config::Load(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()), path + ": larger than 1048576 bytes: shorten it");
}

TEST(ConfigHolderTest, WithoutAFileTheBuiltInHolds) {
  const auto holder = ConfigHolder::Open("");
  ASSERT_TRUE(holder.ok()) << holder.status();
  EXPECT_TRUE((*holder)->Get()->Accepts("anything"));
  EXPECT_TRUE((*holder)->Reload().ok());
  EXPECT_TRUE((*holder)->Get()->Accepts("anything"));
}

TEST(ConfigHolderTest, ABadFileIsRefusedAtTheStart) {
  const std::string path = OwnPath("config.yaml");
  EXPECT_EQ(ConfigHolder::Open(path).status().code(), absl::StatusCode::kNotFound);
  Write(path, "what: 1");
  EXPECT_EQ(ConfigHolder::Open(path).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ConfigHolderTest, ABadFileLaterKeepsTheLastGoodOne) {
  const std::string path = OwnPath("config.yaml");
  Write(path, "namespaces: [{name: a}]");
  const auto opened = ConfigHolder::Open(path);
  ASSERT_TRUE(opened.ok()) << opened.status();
  ConfigHolder& holder = **opened;
  const std::shared_ptr<const Config> before = holder.Get();

  Write(path, "namespaces: [{name: b}]");
  EXPECT_TRUE(holder.Reload().ok());
  EXPECT_THAT(holder.Get()->Names(), testing::ElementsAre("b"));
  // Whoever still works with the old one may go on.
  EXPECT_THAT(before->Names(), testing::ElementsAre("a"));

  Write(path, "namespaces: [{name: c, retention: -1s}]");
  const absl::Status bad = holder.Reload();
  EXPECT_EQ(bad.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(bad.message()),
              HasSubstr(":1: namespaces[0].retention: -1s is negative"));
  EXPECT_THAT(holder.Get()->Names(), testing::ElementsAre("b"));

  // An editor that empties the file before it writes must not stop all work.
  Write(path, "");
  EXPECT_FALSE(holder.Reload().ok());
  EXPECT_THAT(holder.Get()->Names(), testing::ElementsAre("b"));

  std::remove(path.c_str());
  EXPECT_EQ(holder.Reload().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(holder.Get()->Names(), testing::ElementsAre("b"));
}

TEST(ConfigHolderTest, WhatCannotBeTakenUpDoesNotComeIntoForce) {
  const std::string path = OwnPath("config.yaml");
  Write(path, "namespaces: [{name: a}]");
  const auto opened = ConfigHolder::Open(path);
  ASSERT_TRUE(opened.ok()) << opened.status();
  ConfigHolder& holder = **opened;
  Write(path, "namespaces: [{name: b}]");
  const absl::Status refused = holder.Reload([&](const Config& next) {
    EXPECT_THAT(next.Names(), testing::ElementsAre("b"));
    EXPECT_THAT(holder.Get()->Names(), testing::ElementsAre("a"));
    return absl::NotFoundError("no keys");
  });
  EXPECT_EQ(refused.message(), "no keys");
  EXPECT_THAT(holder.Get()->Names(), testing::ElementsAre("a"));
  EXPECT_TRUE(holder.Reload([](const Config&) { return absl::OkStatus(); }).ok());
  EXPECT_THAT(holder.Get()->Names(), testing::ElementsAre("b"));
}

TEST(ConfigHolderTest, MayBeReloadedWhileItIsRead) {
  const std::string path = OwnPath("config.yaml");
  Write(path, "namespaces: [{name: a}]");
  const auto opened = ConfigHolder::Open(path);
  ASSERT_TRUE(opened.ok()) << opened.status();
  ConfigHolder& holder = **opened;
  std::atomic<bool> done = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!done) {
        const std::shared_ptr<const core::Policy> policy = holder.Get()->PolicyFor("a");
        EXPECT_EQ(policy->max_key_bytes, core::kMaxKeyBytes);
      }
    });
  }
  threads.emplace_back([&] {
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(holder.Reload().ok());
  });
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(holder.Reload().ok());
  threads.back().join();
  threads.pop_back();
  done = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace idempotency::service
