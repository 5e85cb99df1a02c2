// Lists: by key, page after page; or the oldest unknown first.
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "keystore/core/limits.h"
#include "keystore/core/names.h"
#include "tests/keystore/shell/shell_fixture.h"

namespace idempotency::keystore {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class ListerTest : public ShellTest {
 protected:
  absl::StatusOr<ListPage> List(const ListFilter& filter, size_t page_size = 100,
                                const std::string& page_token = "") {
    std::optional<absl::StatusOr<ListPage>> page;
    store->List(filter, page_size, page_token,
                [&page](absl::StatusOr<ListPage> result) { page = std::move(result); });
    EXPECT_TRUE(page.has_value()) << "the engine answers at once";
    return *std::move(page);
  }

  // The entries of every page as "key STATE"; `sizes` receives how many each page had.
  std::vector<std::string> ListAll(const ListFilter& filter, size_t page_size = 100,
                                   std::vector<size_t>* sizes = nullptr) {
    std::vector<std::string> all;
    std::string token;
    do {
      const absl::StatusOr<ListPage> page = List(filter, page_size, token);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) break;
      for (const ListEntry& entry : page->entries) all.push_back(InWords(entry));
      if (sizes != nullptr) sizes->push_back(page->entries.size());
      token = page->next_page_token;
    } while (!token.empty());
    return all;
  }

  static std::string InWords(const ListEntry& entry) {
    const std::string_view state =
        entry.record == nullptr ? "UNREADABLE" : core::Name(entry.record->state);
    return entry.key.key + " " + std::string(state);
  }

  // Keys 00 .. count - 1, pending.
  void ReserveMany(size_t count) {
    for (size_t i = 0; i < count; ++i) Send(Reserve(NumberedKey(i), i));
  }
  static std::string NumberedKey(size_t i) {
    const std::string digits = std::to_string(i);
    return std::string(4 - digits.size(), '0') + digits;
  }

  // One key in each state.
  void ReserveEachState() {
    for (const char* key : {"complete", "expired", "freed", "pending", "unresolved"}) {
      Send(Reserve(key, 1));
    }
    Send(ZeroRetention(Complete("freed", 3)));
    Request brief = Complete("expired", 2);
    core::Policy policy = *brief.policy;
    policy.terms.retention = 1s;
    brief.policy = std::make_shared<const core::Policy>(policy);
    Send(brief);
    Send(Complete("complete", 1));
    Send(Mark("unresolved", 5));
    clock.Advance(1s);
  }
};

ListFilter States(std::vector<core::State> states) {
  return ListFilter{.states = std::move(states)};
}

// --- By key ----------------------------------------------------------------------------------

TEST_F(ListerTest, ListsByKeyAllButTheFreed) {
  ReserveEachState();
  EXPECT_THAT(ListAll({}), ElementsAre("complete COMPLETE", "expired EXPIRED", "pending PENDING",
                                       "unresolved UNRESOLVED"));
}

TEST_F(ListerTest, NothingStoredIsOneEmptyPage) {
  const absl::StatusOr<ListPage> page = List({});
  ASSERT_TRUE(page.ok());
  EXPECT_THAT(page->entries, IsEmpty());
  EXPECT_EQ(page->next_page_token, "");
}

TEST_F(ListerTest, FiltersByStateAsObservedNow) {
  ReserveEachState();
  EXPECT_THAT(ListAll(States({core::State::kFreed})), ElementsAre("freed FREED"));
  EXPECT_THAT(ListAll(States({core::State::kPending, core::State::kExpired})),
              ElementsAre("expired EXPIRED", "pending PENDING"));
  clock.Advance(kLease);
  EXPECT_THAT(ListAll(States({core::State::kPending})), IsEmpty()) << "lapsed, and not written";
  EXPECT_THAT(ListAll(States({core::State::kUnresolved})),
              ElementsAre("unresolved UNRESOLVED", "pending UNRESOLVED"));
}

TEST_F(ListerTest, WhatIsForgottenIsNotListed) {
  Send(ReserveDispatchLater("k", 1));
  clock.Advance(kLease + core::kFreedMemory);
  EXPECT_THAT(ListAll(States({core::State::kFreed})), IsEmpty());
}

TEST_F(ListerTest, FiltersByReference) {
  for (const char* key : {"a", "b", "c"}) {
    Request request = Reserve(key, 1);
    const std::string reference = *key == 'b' ? "order-2" : "order-1";
    std::get<core::ReserveCommand>(request.command).owner.operation_ref = reference;
    Send(request);
  }
  EXPECT_THAT(ListAll({.operation_ref = "order-1"}), ElementsAre("a PENDING", "c PENDING"));
}

TEST_F(ListerTest, FiltersByTheAgeOfTheLastUpdate) {
  Send(Reserve("old", 1));
  clock.Advance(10s);
  Send(Reserve("young", 2));
  clock.Advance(5s);
  EXPECT_THAT(ListAll({.min_age = 15s}), ElementsAre("old PENDING"));
  EXPECT_THAT(ListAll({.min_age = 15s + 1ms}), IsEmpty());
  EXPECT_THAT(ListAll({.min_age = 5s}), ElementsAre("old PENDING", "young PENDING"));
}

TEST_F(ListerTest, FiltersByNamespaceScopeAndPrefix) {
  for (const auto& [name_space, scope, key] :
       {std::tuple("mail", "eu", "pre-1"), std::tuple("pay", "eu", "pre-2"),
        std::tuple("pay", "eu", "other"), std::tuple("pay", "us", "pre-3")}) {
    Request request = Reserve(key, 1);
    request.key = core::Key{name_space, scope, key};
    Send(request);
  }
  EXPECT_THAT(ListAll({.scan = {.name_space = "pay"}}), SizeIs(3));
  EXPECT_THAT(ListAll({.scan = {.name_space = "pay", .scope = "eu"}}), SizeIs(2));
  EXPECT_THAT(ListAll({.scan = {.name_space = "pay", .scope = "eu", .key_prefix = "pre-"}}),
              ElementsAre("pre-2 PENDING"));
  EXPECT_THAT(ListAll({.scan = {.name_space = "pay", .key_prefix = "pre-"}}),
              ElementsAre("pre-2 PENDING", "pre-3 PENDING"));
}

TEST_F(ListerTest, WhatCannotBeReadIsShownWhereNothingIsLeftOut) {
  Send(Reserve("a", 1));
  engine.Put(KeyOf("b"), core::Unreadable{});
  EXPECT_THAT(ListAll({}), ElementsAre("a PENDING", "b UNREADABLE"));
  EXPECT_THAT(ListAll(States({core::State::kPending})), ElementsAre("a PENDING"));
  EXPECT_THAT(ListAll({.operation_ref = "x"}), IsEmpty());
}

TEST_F(ListerTest, PagesHoldWhatIsAskedForAndMissNothing) {
  ReserveMany(25);
  std::vector<size_t> sizes;
  const std::vector<std::string> all = ListAll({}, 10, &sizes);
  EXPECT_THAT(sizes, ElementsAre(10, 10, 5));
  ASSERT_THAT(all, SizeIs(25));
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], NumberedKey(i) + " PENDING");
}

TEST_F(ListerTest, APageIsFilledOverSeveralScans) {
  ReserveMany(25);
  engine.LimitVisits(4);
  std::vector<size_t> sizes;
  EXPECT_THAT(ListAll({}, 10, &sizes), SizeIs(25));
  EXPECT_THAT(sizes, ElementsAre(10, 10, 5));
}

TEST_F(ListerTest, ScansThatFindNothingEndThePageInTime) {
  ReserveMany(50);
  engine.LimitVisits(1);
  const absl::StatusOr<ListPage> page = List(States({core::State::kComplete}), 10);
  ASSERT_TRUE(page.ok());
  EXPECT_THAT(page->entries, IsEmpty());
  EXPECT_NE(page->next_page_token, "") << "an empty page, and not the last";
  EXPECT_EQ(engine.scans(), 20u);
  EXPECT_THAT(ListAll(States({core::State::kComplete}), 10), IsEmpty());
}

TEST_F(ListerTest, PagesAreBoundedInNumber) {
  ReserveMany(core::kMaxPageSize + 1);
  std::vector<size_t> sizes;
  ListAll({}, 1'000'000, &sizes);
  EXPECT_THAT(sizes, ElementsAre(core::kMaxPageSize, 1));
  EXPECT_THAT(List({}, 0)->entries, SizeIs(1)) << "a page has at least one";
}

TEST_F(ListerTest, PagesAreBoundedInBytes) {
  constexpr size_t kKeys = 900;
  constexpr size_t kTextBytes = core::kMaxLabelBytes + 3 * core::kMaxShortTextBytes;
  const std::string text(core::kMaxShortTextBytes, 'x');
  for (size_t i = 0; i < kKeys; ++i) {
    Request request = Reserve(NumberedKey(i), i);
    auto& command = std::get<core::ReserveCommand>(request.command);
    command.owner = {.worker = text, .operation_ref = text, .traceparent = text};
    command.labels = {{"l", std::string(core::kMaxLabelBytes - 1, 'x')}};
    Send(request);
  }
  std::vector<size_t> by_key;
  EXPECT_THAT(ListAll({}, 1000, &by_key), SizeIs(kKeys));
  clock.Advance(kLease);
  std::vector<size_t> oldest;
  EXPECT_THAT(ListAll(States({core::State::kUnresolved}), 1000, &oldest), SizeIs(kKeys));
  for (const size_t size : by_key) EXPECT_LE(size * kTextBytes, core::kMaxPageBytes);
  for (const size_t size : oldest) EXPECT_LE(size * kTextBytes, core::kMaxPageBytes);
  EXPECT_GT(by_key[0], 400u) << "pages are not cut for nothing";
  EXPECT_GT(oldest[0], 400u) << "pages are not cut for nothing";
}

TEST_F(ListerTest, AListGoesOnWhereAnEngineCompletesLater) {
  ReserveMany(25);
  engine.LimitVisits(4);
  engine.Hold(FakeEngine::Call::kScan);
  std::optional<absl::StatusOr<ListPage>> page;
  store->List({}, 10, "", [&](absl::StatusOr<ListPage> result) { page = std::move(result); });
  EXPECT_FALSE(page.has_value());
  std::thread other([&] { engine.ReleaseAll(); });
  other.join();
  ASSERT_TRUE(page.has_value() && page->ok());
  EXPECT_THAT((*page)->entries, SizeIs(10));
}

TEST_F(ListerTest, AnEngineThatCannotAnswerIsUnavailableAndNotEmpty) {
  ReserveMany(1);
  engine.FailNextScans(1);
  EXPECT_EQ(List({}).status().code(), absl::StatusCode::kUnavailable);
  engine.FailNextScans(1);
  EXPECT_EQ(List(States({core::State::kUnresolved})).status().code(),
            absl::StatusCode::kUnavailable);
}

// --- The oldest unknown first ----------------------------------------------------------------

TEST_F(ListerTest, ListsTheOldestUnknownFirst) {
  for (const char* key : {"d", "c", "b", "a"}) {
    Send(Reserve(key, 1));
    clock.Advance(1s);
  }
  Send(Mark("a", 4));
  clock.Advance(kLease);
  const ListFilter unresolved = States({core::State::kUnresolved});
  // a was marked before the leases of the others ended.
  EXPECT_THAT(ListAll(unresolved),
              ElementsAre("a UNRESOLVED", "d UNRESOLVED", "c UNRESOLVED", "b UNRESOLVED"));
  std::vector<size_t> sizes;
  EXPECT_THAT(ListAll(unresolved, 3, &sizes), SizeIs(4));
  EXPECT_THAT(sizes, ElementsAre(3, 1));
}

TEST_F(ListerTest, EquallyOldUnknownsAreOrderedByKeyAndNoneIsMissed) {
  ReserveMany(25);
  clock.Advance(kLease);
  engine.LimitVisits(7);
  std::vector<size_t> sizes;
  const auto all = ListAll(States({core::State::kUnresolved}), 10, &sizes);
  EXPECT_THAT(sizes, ElementsAre(10, 10, 5));
  ASSERT_THAT(all, SizeIs(25));
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], NumberedKey(i) + " UNRESOLVED");
}

TEST_F(ListerTest, TheLastPageOfTheOldestIsTheLast) {
  ReserveMany(10);
  clock.Advance(kLease);
  const absl::StatusOr<ListPage> page = List(States({core::State::kUnresolved}), 10);
  ASSERT_TRUE(page.ok());
  EXPECT_THAT(page->entries, SizeIs(10));
  EXPECT_EQ(page->next_page_token, "");
}

TEST_F(ListerTest, TheOldestOfOddNamesArePagedToo) {
  for (const core::Key& key : {core::Key{"a", "1:2", "x:y"}, core::Key{"a:1", "", ":"},
                               core::Key{"a", std::string("\0s", 2), std::string("\0\xff", 2)}}) {
    Request request = Reserve("", 1);
    request.key = key;
    Send(request);
  }
  clock.Advance(kLease);
  std::vector<size_t> sizes;
  EXPECT_THAT(ListAll(States({core::State::kUnresolved}), 1, &sizes), SizeIs(3));
  EXPECT_THAT(sizes, ElementsAre(1, 1, 1));
}

// --- Page tokens -----------------------------------------------------------------------------

struct OtherFilterCase {
  std::string name;
  ListFilter filter;
};

void PrintTo(const OtherFilterCase& c, std::ostream* out) { *out << c.name; }

class PageTokenTest : public ListerTest, public testing::WithParamInterface<OtherFilterCase> {};

TEST_P(PageTokenTest, IsBoundToItsFilter) {
  ReserveMany(3);
  clock.Advance(kLease);
  const std::string by_key = List({.scan = {.name_space = "pay"}}, 1)->next_page_token;
  const std::string oldest = List(States({core::State::kUnresolved}), 1)->next_page_token;
  ASSERT_NE(by_key, "");
  ASSERT_NE(oldest, "");
  EXPECT_EQ(List(GetParam().filter, 1, by_key).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(List(GetParam().filter, 1, oldest).status().code(), absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(
    Filters, PageTokenTest,
    testing::Values(
        OtherFilterCase{"AnotherNamespace", {.scan = {.name_space = "mail"}}},
        OtherFilterCase{"EveryNamespace", {}},
        OtherFilterCase{"AScope", {.scan = {.name_space = "pay", .scope = "eu"}}},
        OtherFilterCase{"TheEmptyScope", {.scan = {.name_space = "pay", .scope = ""}}},
        OtherFilterCase{"APrefix", {.scan = {.name_space = "pay", .key_prefix = "0"}}},
        OtherFilterCase{"AReference", {.scan = {.name_space = "pay"}, .operation_ref = "x"}},
        OtherFilterCase{"AnAge", {.scan = {.name_space = "pay"}, .min_age = 1s}},
        OtherFilterCase{"AState",
                        {.scan = {.name_space = "pay"}, .states = {core::State::kPending}}},
        OtherFilterCase{"UnresolvedOfANamespace",
                        {.scan = {.name_space = "pay"}, .states = {core::State::kUnresolved}}}),
    [](const auto& param) { return param.param.name; });

TEST_F(ListerTest, WhatIsNoTokenIsRefused) {
  ReserveMany(3);
  clock.Advance(kLease);
  const std::string tag = [&] {
    std::string text;
    absl::WebSafeBase64Unescape(List(States({core::State::kUnresolved}), 1)->next_page_token,
                                &text);
    return text.substr(0, 16);
  }();
  for (const std::string& text : {std::string(), tag, tag + "x", tag + "1:2", tag + "1:9:9:abc",
                                  tag + "1:1:18446744073709551615:abc", tag + ":::"}) {
    const std::string token = absl::WebSafeBase64Escape(text) + (text.empty() ? "!" : "");
    EXPECT_EQ(List(States({core::State::kUnresolved}), 1, token).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST_F(ListerTest, ATokenServesAnotherPageSizeAndALaterDay) {
  ReserveMany(5);
  const std::string token = List({}, 2)->next_page_token;
  Restart();
  clock.Advance(core::kDay);
  EXPECT_THAT(List({}, 10, token)->entries, SizeIs(3));
}

}  // namespace
}  // namespace idempotency::keystore
