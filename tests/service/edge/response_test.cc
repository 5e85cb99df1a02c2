// What is kept of an answer, and what its digest says.
#include "service/response.h"

#include <functional>
#include <set>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "keystore/core/limits.h"
#include "service/digest.h"
#include "tests/service/edge/requests.h"

namespace idempotency::service {
namespace {

constexpr size_t kMaxBody = 10;

std::string Bytes(size_t count) { return std::string(count, 'x'); }

v1::CachedResponse StoredAndLoaded(const v1::CachedResponse& reported) {
  v1::CachedResponse loaded;
  EXPECT_TRUE(LoadResponse(StoreResponse(reported, kMaxBody), &loaded));
  return loaded;
}

void AddMetadata(v1::CachedResponse* response, const std::string& name, const std::string& value) {
  v1::MetadataEntry* entry = response->add_metadata();
  entry->set_name(name);
  entry->set_value(value);
}

TEST(ResponseTest, KeepsEverythingWithinLimits) {
  v1::CachedResponse response;
  response.set_http_status(201);
  response.set_status_message("Created");
  response.set_content_type("application/json");
  AddMetadata(&response, "Request-Id", std::string("\0\xff", 2));
  AddMetadata(&response, "Request-Id", "again");
  response.set_body(std::string("{}\0\xff", 4));
  response.set_body_size(4);
  EXPECT_EQ(StoredAndLoaded(response).SerializeAsString(), response.SerializeAsString());
}

TEST(ResponseTest, TellsNoBodyFromAnEmptyOne) {
  v1::CachedResponse response;
  response.set_grpc_code(5);
  EXPECT_FALSE(StoredAndLoaded(response).has_body());
  response.set_body("");
  EXPECT_TRUE(StoredAndLoaded(response).has_body());
  EXPECT_FALSE(StoredAndLoaded(response).body_omitted());
  EXPECT_EQ(StoredAndLoaded(response).grpc_code(), 5);
}

TEST(ResponseTest, KeepsStatusZeroAsAStatus) {
  v1::CachedResponse response;
  response.set_grpc_code(0);
  EXPECT_EQ(StoredAndLoaded(response).status_case(), v1::CachedResponse::kGrpcCode);
}

TEST(ResponseTest, LeavesOutABodyOverTheLimit) {
  v1::CachedResponse response;
  response.set_body(Bytes(kMaxBody));
  EXPECT_EQ(StoredAndLoaded(response).body(), Bytes(kMaxBody));
  EXPECT_EQ(StoredAndLoaded(response).body_size(), kMaxBody);
  response.set_body(Bytes(kMaxBody + 1));
  EXPECT_TRUE(StoreResponse(response, kMaxBody).body_omitted);
  EXPECT_FALSE(StoredAndLoaded(response).has_body());
  EXPECT_TRUE(StoredAndLoaded(response).body_omitted());
  EXPECT_EQ(StoredAndLoaded(response).body_size(), kMaxBody + 1);
}

TEST(ResponseTest, KeepsTheRestWhereTheStoreDoesNotTakeTheBody) {
  v1::CachedResponse response;
  response.set_http_status(201);
  response.set_content_type("application/json");
  AddMetadata(&response, "Request-Id", "1");
  response.set_body(Bytes(kMaxBody));
  const core::Response lean = WithoutBody(StoreResponse(response, kMaxBody));
  EXPECT_TRUE(lean.body_omitted);
  v1::CachedResponse loaded;
  ASSERT_TRUE(LoadResponse(lean, &loaded));
  response.clear_body();
  response.set_body_omitted(true);
  response.set_body_size(kMaxBody);
  EXPECT_EQ(loaded.SerializeAsString(), response.SerializeAsString());
}

TEST(ResponseTest, KeepsNothingOfWhatIsNoAnswerWhereTheStoreDoesNotTakeIt) {
  const core::Response lean = WithoutBody({.bytes = core::Blob("\xff"), .body_omitted = false});
  EXPECT_TRUE(lean.body_omitted);
  EXPECT_FALSE(lean.bytes.present());
}

TEST(ResponseTest, BelievesAnOwnerThatHasLeftTheBodyOut) {
  v1::CachedResponse response;
  response.set_body_size(5'000'000);
  EXPECT_TRUE(StoreResponse(response, kMaxBody).body_omitted);
  EXPECT_EQ(StoredAndLoaded(response).body_size(), 5'000'000u);
  response.set_body_omitted(true);
  response.set_body("a part of it");
  EXPECT_FALSE(StoredAndLoaded(response).has_body());
  EXPECT_EQ(StoredAndLoaded(response).body_size(), 5'000'000u);
}

TEST(ResponseTest, CutsTexts) {
  v1::CachedResponse response;
  response.set_status_message(Bytes(1024));
  response.set_content_type(Bytes(255));
  EXPECT_EQ(StoredAndLoaded(response).status_message(), Bytes(1024));
  EXPECT_EQ(StoredAndLoaded(response).content_type(), Bytes(255));
  response.set_status_message(Bytes(1025));
  response.set_content_type(Bytes(256));
  EXPECT_EQ(StoredAndLoaded(response).status_message(), Bytes(1024));
  EXPECT_EQ(StoredAndLoaded(response).content_type(), Bytes(255));
}

TEST(ResponseTest, LeavesOutMetadataOverItsLimits) {
  v1::CachedResponse response;
  for (int i = 0; i < 64; ++i) AddMetadata(&response, "n", "v");
  EXPECT_EQ(StoredAndLoaded(response).metadata_size(), 64);
  EXPECT_FALSE(StoredAndLoaded(response).metadata_omitted());
  AddMetadata(&response, "n", "v");
  EXPECT_EQ(StoredAndLoaded(response).metadata_size(), 64);
  EXPECT_TRUE(StoredAndLoaded(response).metadata_omitted());

  v1::CachedResponse large;
  AddMetadata(&large, "n", Bytes(8191));
  EXPECT_FALSE(StoredAndLoaded(large).metadata_omitted());
  AddMetadata(&large, "", "v");
  EXPECT_TRUE(StoredAndLoaded(large).metadata_omitted());
  EXPECT_EQ(StoredAndLoaded(large).metadata_size(), 1);
}

TEST(ResponseTest, NeverKeepsCredentials) {
  v1::CachedResponse response;
  for (const char* name : {"Authorization", "cookie", "SET-COOKIE", "proxy-authorization"}) {
    EXPECT_TRUE(BearsCredentials(name)) << name;
    AddMetadata(&response, name, "secret");
  }
  AddMetadata(&response, "date", "today");
  const v1::CachedResponse kept = StoredAndLoaded(response);
  ASSERT_EQ(kept.metadata_size(), 1);
  EXPECT_EQ(kept.metadata(0).name(), "date");
  EXPECT_TRUE(kept.metadata_omitted());
  EXPECT_EQ(kept.SerializeAsString().find("secret"), std::string::npos);
}

TEST(ResponseTest, DecidesItselfWhetherMetadataWasLeftOut) {
  v1::CachedResponse response;
  response.set_metadata_omitted(true);
  EXPECT_FALSE(StoredAndLoaded(response).metadata_omitted());
}

TEST(ResponseTest, CarriesNothingThatItDoesNotKnow) {
  // Field 100, as a later version might have it.
  v1::CachedResponse response;
  ASSERT_TRUE(response.ParseFromString(std::string("\xa2\x06\x05hello", 8)));
  EXPECT_EQ(StoreResponse(response, kMaxBody).bytes.view().find("hello"), std::string::npos);
}

TEST(ResponseTest, NoticesBytesThatAreNoResponse) {
  v1::CachedResponse out;
  EXPECT_FALSE(LoadResponse(core::Response{core::Blob("\xff\xff\xff"), false}, &out));
}

// --- Digests ----------------------------------------------------------------------------------

TEST(DigestTest, IsTheSameForTheSame) {
  v1::CompleteRequest request = ValidComplete();
  request.mutable_response()->set_body("b");
  EXPECT_EQ(DigestContent(request), DigestContent(request));
  v1::CompleteRequest copy;
  ASSERT_TRUE(copy.ParseFromString(request.SerializeAsString()));
  EXPECT_EQ(DigestContent(copy), DigestContent(request));
  EXPECT_NE(DigestContent(request), core::Digest{});
}

TEST(DigestTest, IsStored) {
  // What a restart must find again.
  const core::Digest attempt = DigestAttemptId("attempt-00000001");
  EXPECT_EQ(attempt, (core::Digest{0x6ef4549772d3e2d5, 0xbb5c20e6ba1d1f4d}))
      << std::hex << attempt.high << " " << attempt.low;
  const core::Digest complete = DigestContent(ValidComplete());
  EXPECT_EQ(complete, (core::Digest{0x2191131616a1abda, 0x53d793746a2ac890}))
      << std::hex << complete.high << " " << complete.low;
}

TEST(DigestTest, DoesNotDependOnHowThePartsAreGathered) {
  // As any other implementation makes them: SHA-256 of 7, "attempt", the size and the id, with
  // numbers in eight bytes, the lowest first.
  struct Row {
    size_t size;
    core::Digest digest;
  };
  const Row rows[] = {
      {0, {0xab31bf32a6d030b1, 0xd9140efeba5ef982}},
      {1, {0x2ce1d145d3009a52, 0xc938dfdbc24514a5}},
      {232, {0x64e65fac45f66821, 0x76a9b02f0dd1502c}},
      {233, {0x2ad0715d15fcf40c, 0xb14572c24fadf072}},
      {234, {0x44a3b144693d0970, 0xf9ead0f1ba005c35}},
      {256, {0x3dd288b5b1146739, 0x7a1554e9004f8573}},
      {257, {0xc5a8e45acd013a9d, 0x0c086e8814e833a1}},
      {1000, {0x791cc53a39184c3d, 0xfda8a804914ce25e}},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(DigestAttemptId(std::string(row.size, 'a')), row.digest) << row.size;
  }
}

TEST(DigestTest, LooksAtEveryPartOfACompletion) {
  using Change = std::function<void(v1::CompleteRequest*)>;
  const std::pair<const char*, Change> changes[] = {
      {"nothing", [](auto*) {}},
      {"verdict", [](auto* r) { r->set_verdict(v1::VERDICT_FAILED); }},
      {"provider_request_id", [](auto* r) { r->set_provider_request_id("p"); }},
      {"response", [](auto* r) { r->mutable_response(); }},
      {"http_status", [](auto* r) { r->mutable_response()->set_http_status(0); }},
      {"grpc_code", [](auto* r) { r->mutable_response()->set_grpc_code(0); }},
      {"grpc_code_1", [](auto* r) { r->mutable_response()->set_grpc_code(1); }},
      {"http_status_1", [](auto* r) { r->mutable_response()->set_http_status(1); }},
      {"status_message", [](auto* r) { r->mutable_response()->set_status_message("m"); }},
      {"content_type", [](auto* r) { r->mutable_response()->set_content_type("m"); }},
      {"metadata", [](auto* r) { AddMetadata(r->mutable_response(), "ab", "c"); }},
      {"metadata_split", [](auto* r) { AddMetadata(r->mutable_response(), "a", "bc"); }},
      {"body_empty", [](auto* r) { r->mutable_response()->set_body(""); }},
      {"body", [](auto* r) { r->mutable_response()->set_body("b"); }},
      {"body_long", [](auto* r) { r->mutable_response()->set_body(Bytes(2'000'000)); }},
      {"body_omitted", [](auto* r) { r->mutable_response()->set_body_omitted(true); }},
      {"body_size", [](auto* r) { r->mutable_response()->set_body_size(1); }},
  };
  std::set<std::pair<uint64_t, uint64_t>> seen;
  for (const auto& [name, change] : changes) {
    v1::CompleteRequest request = ValidComplete();
    change(&request);
    const core::Digest digest = DigestContent(request);
    EXPECT_TRUE(seen.emplace(digest.high, digest.low).second) << name;
  }
}

TEST(DigestTest, LooksAtNothingElseOfACompletion) {
  v1::CompleteRequest request = ValidComplete();
  const core::Digest digest = DigestContent(request);
  request.mutable_id()->set_key("another");
  request.set_fencing_token(8);
  request.mutable_retention()->set_seconds(1);
  EXPECT_EQ(DigestContent(request), digest);
}

TEST(DigestTest, KeepsPurposesApart) {
  v1::ReleaseRequest release;
  release.set_detail("x");
  EXPECT_NE(DigestContent(release), DigestAttemptId("x"));
}

TEST(DigestTest, LooksAtEveryPartOfAMark) {
  using Change = std::function<void(v1::MarkUnresolvedRequest*)>;
  const std::pair<const char*, Change> changes[] = {
      {"nothing", [](auto*) {}},
      {"cause", [](auto* r) { r->set_cause(v1::UNRESOLVED_CAUSE_TIMEOUT); }},
      {"detail", [](auto* r) { r->set_detail("d"); }},
      {"provider_request_id", [](auto* r) { r->set_provider_request_id("d"); }},
      {"retry_after", [](auto* r) { r->mutable_retry_after()->set_seconds(1); }},
      {"retry_after_nanos", [](auto* r) { r->mutable_retry_after()->set_nanos(1); }},
      {"reconcile_first", [](auto* r) { r->set_reconcile_first(true); }},
  };
  std::set<std::pair<uint64_t, uint64_t>> seen;
  for (const auto& [name, change] : changes) {
    v1::MarkUnresolvedRequest request;
    change(&request);
    const core::Digest digest = DigestContent(request);
    EXPECT_TRUE(seen.emplace(digest.high, digest.low).second) << name;
  }
}

TEST(DigestTest, OfAResolutionDoesNotDependOnWhoSaysSo) {
  v1::ResolveOperationRequest request = ValidResolve();
  const core::Digest digest = DigestContent(request);
  request.set_actor("bob");
  request.set_reason("another");
  request.set_etag("1.2");
  EXPECT_EQ(DigestContent(request), digest);
  request.mutable_abandoned();
  EXPECT_NE(DigestContent(request), digest);
  request.mutable_completed()->set_verdict(v1::VERDICT_SUCCEEDED);
  const core::Digest completed = DigestContent(request);
  request.mutable_completed()->mutable_response()->set_body("b");
  EXPECT_NE(DigestContent(request), completed);
}

}  // namespace
}  // namespace idempotency::service
