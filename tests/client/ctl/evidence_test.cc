#include "client/ctl/evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace idempotency::ctl {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

std::vector<Evidence> Read(const std::string& csv, const std::string& reason = "export") {
  std::string error;
  std::vector<Evidence> evidence = ReadEvidence(csv, "ann", reason, &error);
  EXPECT_EQ(error, "");
  return evidence;
}

std::string ErrorOf(const std::string& csv, const std::string& reason = "export") {
  std::string error;
  EXPECT_THAT(ReadEvidence(csv, "ann", reason, &error), IsEmpty());
  return error;
}

constexpr char kHead[] = "namespace,scope,key,resolution\n";

TEST(EvidenceTest, IsARequestALine) {
  const auto evidence = Read(
      "key,namespace,scope,resolution,verdict,provider_request_id,reason,etag,http_status,"
      "content_type,body\n"
      "o-1,pay,a,completed,succeeded,ch_1,seen,e1,200,application/json,{}\n"
      "o-2,pay,,not-executed,,,,,,,\n"
      "o-3,pay,a,abandoned,,,,,,,\n");
  ASSERT_THAT(evidence, SizeIs(3));
  const v1::ResolveOperationRequest& first = evidence[0].request;
  EXPECT_EQ(evidence[0].line, 2u);
  EXPECT_EQ(first.id().namespace_(), "pay");
  EXPECT_EQ(first.id().scope(), "a");
  EXPECT_EQ(first.id().key(), "o-1");
  EXPECT_EQ(first.completed().verdict(), v1::VERDICT_SUCCEEDED);
  EXPECT_EQ(first.completed().response().http_status(), 200);
  EXPECT_EQ(first.completed().response().content_type(), "application/json");
  EXPECT_EQ(first.completed().response().body(), "{}");
  EXPECT_EQ(first.provider_request_id(), "ch_1");
  EXPECT_EQ(first.reason(), "seen");
  EXPECT_EQ(first.etag(), "e1");
  EXPECT_EQ(first.actor(), "ann");
  EXPECT_TRUE(evidence[1].request.has_not_executed());
  EXPECT_EQ(evidence[1].request.id().scope(), "");
  EXPECT_EQ(evidence[1].request.reason(), "export");
  EXPECT_TRUE(evidence[2].request.has_abandoned());
}

TEST(EvidenceTest, WithoutAnAnswerThereIsNone) {
  const auto evidence = Read("namespace,scope,key,resolution,verdict\npay,a,o,completed,failed\n");
  ASSERT_THAT(evidence, SizeIs(1));
  EXPECT_EQ(evidence[0].request.completed().verdict(), v1::VERDICT_FAILED);
  EXPECT_FALSE(evidence[0].request.completed().has_response());
}

TEST(EvidenceTest, WrongColumnsAreNamed) {
  EXPECT_THAT(ErrorOf("namespace,scope,key\npay,a,o\n"), HasSubstr("column resolution is missing"));
  EXPECT_THAT(ErrorOf("namespace,scope,key,resolution,color\npay,a,o,abandoned,red\n"),
              HasSubstr("there is no column color"));
  EXPECT_THAT(ErrorOf("namespace,scope,key,key,resolution\npay,a,o,o,abandoned\n"),
              HasSubstr("column key is there twice"));
  EXPECT_THAT(ErrorOf(kHead + std::string("pay,a,abandoned\n")), HasSubstr("line 2: 3 fields"));
  EXPECT_THAT(ErrorOf(kHead), HasSubstr("nothing to settle"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("nothing to settle"));
}

TEST(EvidenceTest, WrongLinesAreNamedAllOfThem) {
  const std::string error = ErrorOf(
      "namespace,scope,key,resolution,verdict,http_status\n"
      ",a,o-1,abandoned,,\n"
      "pay,a,,abandoned,,\n"
      "pay,a,o-2,done,,\n"
      "pay,a,o-3,completed,maybe,\n"
      "pay,a,o-4,completed,succeeded,2000\n"
      "pay,a,o-5,not-executed,failed,\n"
      "pay,a,o-6,abandoned,,\n"
      "pay,a,o-6,abandoned,,\n");
  EXPECT_THAT(error,
              AllOf(HasSubstr("line 2: namespace is empty"), HasSubstr("line 3: key is empty"),
                    HasSubstr("line 4: resolution is"), HasSubstr("line 5: verdict is"),
                    HasSubstr("line 6: http_status"), HasSubstr("line 7: verdict is only for"),
                    HasSubstr("line 9: the operation is that of line 8")));
  EXPECT_THAT(error, Not(HasSubstr("line 8:")));
  EXPECT_THAT(ErrorOf(kHead + std::string("pay,a,o,abandoned\n"), ""), HasSubstr("no reason"));
}

TEST(EvidenceTest, OfManyWrongLinesTheFirstAreShown) {
  std::string csv = kHead;
  for (int i = 0; i < 50; ++i) csv += "pay,a,o-" + std::to_string(i) + ",what\n";
  EXPECT_THAT(ErrorOf(csv), AllOf(HasSubstr("line 11:"), Not(HasSubstr("line 12:")),
                                  HasSubstr("and 40 lines more")));
}

// The server would refuse the line; better to know before half of the file is sent.
TEST(EvidenceTest, TextsAreWithinTheServersLimits) {
  const std::string head = "namespace,scope,key,resolution,provider_request_id,reason\n";
  const auto line = [](size_t id, size_t reason) {
    return "pay,a,o-1,abandoned," + std::string(id, 'i') + "," + std::string(reason, 'r') + "\n";
  };
  EXPECT_THAT(Read(head + line(255, 1024)), SizeIs(1));
  EXPECT_THAT(ErrorOf(head + line(256, 1)),
              HasSubstr("line 2: provider_request_id has 256 bytes; at most 255 are kept"));
  EXPECT_THAT(ErrorOf(head + line(0, 1025)), HasSubstr("line 2: reason has 1025 bytes"));
  std::string error;
  EXPECT_THAT(ReadEvidence(kHead + std::string("pay,a,o-1,abandoned\n"), std::string(256, 'a'),
                           "export", &error),
              IsEmpty());
  EXPECT_THAT(error, HasSubstr("line 2: actor has 256 bytes"));
}

}  // namespace
}  // namespace idempotency::ctl
