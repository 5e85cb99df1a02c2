// Results of a pipeline as bytes, and how they become messages.
#include "service/front/outbox.h"

#include <cstdint>
#include <string>
#include <vector>

#include "grpcpp/support/slice.h"
#include "gtest/gtest.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "service/front/held_answers.h"

namespace idempotency::service {
namespace {

// A result of about so many bytes.
std::string ResultOf(uint64_t tag, size_t bytes) {
  v1::PipelineResponse response;
  v1::Result* const result = response.add_results();
  result->set_tag(tag);
  result->mutable_reserve()->set_detail(std::string(bytes, 'x'));
  return response.SerializeAsString();
}

v1::PipelineResponse Take(Outbox* outbox, size_t max_bytes) {
  const grpc::ByteBuffer message = ToMessage(outbox->Take(max_bytes));
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(message.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  v1::PipelineResponse response;
  EXPECT_TRUE(response.ParseFromString(bytes));
  return response;
}

TEST(HeldAnswersTest, HoldsUpToItsMostAndNoMore) {
  HeldAnswers held(100);
  EXPECT_TRUE(held.Hold(60));
  EXPECT_FALSE(held.Hold(41));
  EXPECT_EQ(held.bytes(), 60u) << "what was refused takes no room";
  EXPECT_TRUE(held.Hold(40));
  EXPECT_FALSE(held.Hold(1));
  held.LetGo(60);
  EXPECT_TRUE(held.Hold(60));
}

TEST(OutboxTest, ResultsThatHaveGatheredAreOneMessage) {
  Outbox outbox;
  EXPECT_TRUE(outbox.empty());
  // Shorter than a piece of the message, longer than one, and short again.
  const std::vector<size_t> sizes = {0, 10, 9'000, 9'000, 100'000, 10, 16'000, 16'384, 3};
  size_t bytes = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const std::string result = ResultOf(i, sizes[i]);
    bytes += result.size();
    outbox.Add(result);
    EXPECT_EQ(outbox.bytes(), bytes);
    EXPECT_EQ(outbox.results(), i + 1);
  }
  const v1::PipelineResponse response = Take(&outbox, bytes);
  ASSERT_EQ(static_cast<size_t>(response.results_size()), sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    const v1::Result& result = response.results(static_cast<int>(i));
    EXPECT_EQ(result.tag(), i);
    EXPECT_EQ(result.reserve().detail().size(), sizes[i]);
  }
  EXPECT_TRUE(outbox.empty());
  EXPECT_EQ(outbox.bytes(), 0u);
  EXPECT_EQ(outbox.results(), 0u);
}

TEST(OutboxTest, AMessageHasABound) {
  constexpr size_t kMost = 100'000;
  Outbox outbox;
  for (uint64_t tag = 0; tag < 1000; ++tag) outbox.Add(ResultOf(tag, 1000));
  uint64_t next = 0;
  int messages = 0;
  while (!outbox.empty()) {
    const v1::PipelineResponse response = Take(&outbox, kMost);
    EXPECT_LE(response.ByteSizeLong(), kMost);
    // In the order that they came, and no smaller than they must be.
    for (const v1::Result& result : response.results()) EXPECT_EQ(result.tag(), next++);
    EXPECT_TRUE(outbox.empty() || response.ByteSizeLong() > kMost / 2);
    EXPECT_EQ(outbox.results(), 1000 - next);
    ++messages;
  }
  EXPECT_EQ(next, 1000u);
  EXPECT_GT(messages, 1);
}

TEST(OutboxTest, WhatIsLargerThanAMessageIsTakenAlone) {
  Outbox outbox;
  outbox.Add(ResultOf(1, 50'000));
  outbox.Add(ResultOf(2, 50'000));
  const v1::PipelineResponse response = Take(&outbox, 1000);
  ASSERT_EQ(response.results_size(), 1);
  EXPECT_EQ(response.results(0).tag(), 1u);
  EXPECT_EQ(outbox.results(), 1u);
}

TEST(OutboxTest, IsEmptyOnceCleared) {
  Outbox outbox;
  outbox.Add(ResultOf(1, 10));
  outbox.Clear();
  EXPECT_TRUE(outbox.empty());
  EXPECT_EQ(outbox.bytes(), 0u);
  EXPECT_EQ(outbox.results(), 0u);
  outbox.Add(ResultOf(2, 10));
  EXPECT_EQ(Take(&outbox, 1000).results(0).tag(), 2u);
}

}  // namespace
}  // namespace idempotency::service
