// Texts that are not UTF-8: which, where, and what becomes of the message.
#include "service/utf8_repair.h"

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/stubs/logging.h"
#include "gtest/gtest.h"
#include "service/text.h"
#include "tests/service/edge/requests.h"

namespace idempotency::service {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr char kBad[] =
    "a\xff"
    "b";
constexpr char kMended[] =
    "a\xEF\xBF\xBD"
    "b";

TEST(MendTest, ReplacesEveryByteThatIsPartOfNoCharacter) {
  struct Row {
    const char* name;
    std::string text;
    std::string mended;
  };
  const Row rows[] = {
      {"empty", "", ""},
      {"valid", "a\t\xc3\xa4\xf0\x9f\x92\xb3", "a\t\xc3\xa4\xf0\x9f\x92\xb3"},
      {"latin_1", "M\xfcnchen", "M\xEF\xBF\xBDnchen"},
      {"cut_off", "a\xe2\x82", "a\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"surrogate", "\xed\xa0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"overlong", "\xc0\xaf!", "\xEF\xBF\xBD\xEF\xBF\xBD!"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(MendUtf8(row.text), row.mended) << row.name;
    EXPECT_EQ(IsUtf8(row.text), row.text == row.mended) << row.name;
    EXPECT_TRUE(IsUtf8(row.mended)) << row.name;
  }
}

// protobuf serializes what it would refuse to parse.
template <typename Request>
std::optional<RepairedMessage> Repair(const Request& request) {
  const google::protobuf::LogSilencer silencer;
  return RepairTexts(request.SerializeAsString(), *Request::descriptor());
}

std::vector<std::string> Fields(const RepairedTexts& texts) {
  std::vector<std::string> fields;
  for (const RepairedText& text : texts) {
    fields.push_back((text.command < 0 ? "" : std::to_string(text.command) + " ") +
                     text.request->name() + "." + text.field + (MayGoOn(text) ? " goes on" : ""));
  }
  return fields;
}

TEST(RepairTextsTest, NamesTheFieldsOfARequest) {
  v1::CompleteRequest complete = ValidComplete();
  complete.mutable_id()->set_key(kBad);
  complete.set_provider_request_id(kBad);
  complete.mutable_response()->add_metadata()->set_name("fine");
  complete.mutable_response()->add_metadata()->set_name(kBad);
  complete.mutable_response()->set_body(kBad);  // bytes are no text
  const auto repaired = Repair(complete);
  ASSERT_TRUE(repaired.has_value());
  EXPECT_THAT(
      Fields(repaired->texts),
      ElementsAre("CompleteRequest.id.key", "CompleteRequest.response.metadata[1].name goes on",
                  "CompleteRequest.provider_request_id goes on"));
  v1::CompleteRequest parsed;
  ASSERT_TRUE(parsed.ParseFromString(repaired->bytes));
  complete.mutable_id()->set_key(kMended);
  complete.set_provider_request_id(kMended);
  complete.mutable_response()->mutable_metadata(1)->set_name(kMended);
  EXPECT_EQ(parsed.DebugString(), complete.DebugString());
}

TEST(RepairTextsTest, ALabelIsALabelWhicheverHalfIsAtFault) {
  for (const bool name : {true, false}) {
    v1::ReserveRequest reserve = ValidReserve();
    (*reserve.mutable_labels())[name ? kBad : "fine"] = name ? "fine" : kBad;
    const auto repaired = Repair(reserve);
    ASSERT_TRUE(repaired.has_value());
    EXPECT_THAT(Fields(repaired->texts), ElementsAre("ReserveRequest.labels")) << name;
    EXPECT_TRUE(v1::ReserveRequest().ParseFromString(repaired->bytes)) << name;
  }
}

TEST(RepairTextsTest, SaysWhichCommandIsAtFault) {
  v1::BatchRequest batch;
  *batch.add_commands()->mutable_complete() = ValidComplete();
  batch.mutable_commands(0)->mutable_complete()->set_provider_request_id(kBad);
  *batch.add_commands()->mutable_reserve() = ValidReserve();
  *batch.add_commands()->mutable_reserve() = ValidReserve();
  batch.mutable_commands(2)->mutable_reserve()->mutable_owner()->set_worker(kBad);
  batch.add_commands()->mutable_release()->mutable_id()->set_scope(kBad);
  const auto repaired = Repair(batch);
  ASSERT_TRUE(repaired.has_value());
  EXPECT_THAT(Fields(repaired->texts),
              ElementsAre("0 CompleteRequest.provider_request_id goes on",
                          "2 ReserveRequest.owner.worker", "3 ReleaseRequest.id.scope"));
  v1::BatchRequest parsed;
  ASSERT_TRUE(parsed.ParseFromString(repaired->bytes));
  EXPECT_EQ(parsed.commands_size(), 4);
}

TEST(RepairTextsTest, LeavesWhatItDoesNotKnowAsItIs) {
  // Field 1000 as a varint, 8 bytes, 2 bytes of no text, a group with a varint, and 4 bytes.
  const std::string unknown(
      "\xc0\x3e\x07"
      "\xc1\x3e"
      "12345678"
      "\xc2\x3e\x02\xff\xfe"
      "\xc3\x3e\x08\x01\xc4\x3e"
      "\xc5\x3e"
      "1234");
  v1::ReleaseRequest release;
  release.set_detail(kBad);
  const auto repaired =
      RepairTexts(unknown + release.SerializeAsString(), *v1::ReleaseRequest::descriptor());
  ASSERT_TRUE(repaired.has_value());
  EXPECT_EQ(repaired->bytes.substr(0, unknown.size()), unknown);
  EXPECT_TRUE(v1::ReleaseRequest().ParseFromString(repaired->bytes));
}

TEST(RepairTextsTest, RefusesBytesThatAreNoMessage) {
  struct Row {
    const char* name;
    std::string bytes;
  };
  std::string deep;
  for (int i = 0; i < 10'000; ++i) deep += "\xc3\x3e";
  const Row rows[] = {
      {"no_tag", "\xff\xff\xff"},
      {"tag_zero", std::string("\0\0", 2)},
      {"text_cut_off",
       "\x1a\x05"
       "abc"},
      {"end_of_no_group", "\xc4\x3e"},
      {"group_without_an_end", "\xc3\x3e\x08\x01"},
      {"groups_without_end", deep},
      {"id_that_is_no_message", "\x0a\x02\xff\xff"},
      {"length_of_four_gigabytes", "\x1a\xff\xff\xff\xff\x0f"},
  };
  for (const Row& row : rows) {
    EXPECT_FALSE(RepairTexts(row.bytes, *v1::ReleaseRequest::descriptor()).has_value()) << row.name;
  }
}

TEST(RepairTextsTest, GivesUpWhereMoreIsAtFaultThanARequestMayHold) {
  v1::BatchRequest batch;
  for (size_t i = 0; i < kMaxRepairedTexts; ++i) {
    batch.add_commands()->mutable_release()->set_detail(kBad);
  }
  ASSERT_TRUE(Repair(batch).has_value());
  EXPECT_EQ(Repair(batch)->texts.size(), kMaxRepairedTexts);
  batch.add_commands()->mutable_release()->set_detail(kBad);
  EXPECT_FALSE(Repair(batch).has_value());
}

TEST(RepairTextsTest, ManyFaultsInOneFieldAreOne) {
  v1::CompleteRequest complete = ValidComplete();
  for (size_t i = 0; i <= kMaxRepairedTexts; ++i) {
    complete.mutable_response()->add_metadata()->set_name(kBad);
  }
  const auto repaired = Repair(complete);
  ASSERT_TRUE(repaired.has_value());
  EXPECT_THAT(Fields(repaired->texts),
              ElementsAre("CompleteRequest.response.metadata[0].name goes on"));
}

TEST(RepairTextsTest, ChangesNothingWhereNothingIsAtFault) {
  v1::BatchRequest batch;
  *batch.add_commands()->mutable_complete() = ValidComplete();
  *batch.add_commands()->mutable_reserve() = ValidReserve();
  const auto repaired = Repair(batch);
  ASSERT_TRUE(repaired.has_value());
  EXPECT_EQ(repaired->bytes, batch.SerializeAsString());
  EXPECT_THAT(repaired->texts, IsEmpty());
}

// Whatever the bytes: what protobuf would parse stays as it is, and what comes out has no fault.
TEST(RepairTextsTest, SpoiltBytesAreMendedOrRefused) {
  v1::BatchRequest batch;
  *batch.add_commands()->mutable_complete() = ValidComplete();
  batch.mutable_commands(0)->mutable_complete()->mutable_response()->add_metadata()->set_name("n");
  *batch.add_commands()->mutable_reserve() = ValidReserve();
  (*batch.mutable_commands(1)->mutable_reserve()->mutable_labels())["name"] = "value";
  const std::string whole = batch.SerializeAsString();
  const google::protobuf::LogSilencer silencer;
  constexpr uint32_t kSeed = 20'260'131;
  std::mt19937 random(kSeed);
  int mended = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = whole;
    for (uint32_t changes = random() % 3 + 1; changes > 0; --changes) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    v1::BatchRequest parsed;
    const bool parses = parsed.ParseFromString(bytes);
    const auto repaired = RepairTexts(bytes, *v1::BatchRequest::descriptor());
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << " round " << round);
    if (parses && repaired) {
      ASSERT_THAT(repaired->texts, IsEmpty());
      v1::BatchRequest same;
      ASSERT_TRUE(same.ParseFromString(repaired->bytes));
      ASSERT_EQ(same.DebugString(), parsed.DebugString());
    }
    if (!parses && repaired && parsed.ParseFromString(repaired->bytes)) {
      ++mended;
      ASSERT_FALSE(repaired->texts.empty());
    }
  }
  EXPECT_GT(mended, 1000);
}

}  // namespace
}  // namespace idempotency::service
