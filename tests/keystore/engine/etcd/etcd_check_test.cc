// What a check makes of an etcd; and what it sees of real ones.
#include "keystore/engine/etcd/etcd_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/keystore/engine/etcd/etcd_fixture.h"
#include "tests/keystore/engine/findings.h"
#include "tests/support/becomes_true.h"

namespace idempotency::keystore {
namespace {

using etcdserverpb::StatusResponse;
using ::testing::HasSubstr;

constexpr uint64_t kQuota = 7000;

StatusResponse MemberOf(uint64_t id) {
  StatusResponse member;
  member.mutable_header()->set_cluster_id(17);
  member.mutable_header()->set_member_id(id);
  member.set_version("3.6.9");
  member.set_leader(1);
  member.set_db_size(6500);
  member.set_db_size_in_use(5999);
  member.set_db_size_quota(kQuota);
  return member;
}

// Three members, with nothing wrong but what etcd never tells.
EtcdCheckFacts Good() {
  EtcdCheckFacts facts{.endpoints = {"127.0.0.1:1", "localhost:2", "[::1]:3"},
                       .quota_bytes = 1,
                       .max_request_bytes = 1000,
                       .clock_skew = core::Duration(500),
                       .txn_ops = kUsualTxnOps};
  facts.view.list = etcdserverpb::MemberListResponse();
  for (uint64_t id = 1; id <= 3; ++id) {
    facts.view.members.emplace_back(MemberOf(id));
    facts.view.list->add_members()->set_id(id);
  }
  facts.view.alarms = etcdserverpb::AlarmResponse();
  facts.view.auth = etcdserverpb::AuthStatusResponse();
  facts.view.auth->set_enabled(true);
  return facts;
}

void SetVersion(EtcdCheckFacts& facts, const std::string& version) {
  for (auto& member : facts.view.members) member->set_version(version);
}

void Silence(EtcdCheckFacts& facts, size_t member) {
  facts.view.members[member] = absl::UnavailableError("no answer");
}

TEST(EtcdCheck, WhatIsWellIsCalledWellAndTheClockIsNotKnown) {
  const std::vector<Finding> findings = Judge(Good());
  EXPECT_EQ(IdsOf(findings, Severity::kNotChecked), std::set<std::string>{"etcd.clock"});
  EXPECT_EQ(IdsOf(findings, Severity::kOk).size(), findings.size() - 1);
  ExpectDocumented(findings);
}

using F = EtcdCheckFacts;

std::vector<FactsRow<F>> RowsOfMembers() {
  const absl::Status unknown = absl::PermissionDeniedError("not for you");
  return {
      {"an old version", [](F& f) { SetVersion(f, "3.4.23"); }, "etcd.version",
       Severity::kGuaranteeFails},
      {"one old member", [](F& f) { f.view.members[1]->set_version("3.5.27"); }, "etcd.version",
       Severity::kGuaranteeFails},
      {"no version", [](F& f) { SetVersion(f, "unknown"); }, "etcd.version", Severity::kNotChecked},
      {"one is silent",
       [](F& f) { Silence(f, 2); },
       "etcd.quorum",
       Severity::kWarning,
       {"etcd.version", "etcd.one_cluster", "etcd.endpoints", "etcd.learner", "etcd.space"}},
      {"no leader",
       [](F& f) {
         for (auto& member : f.view.members) member->set_leader(0);
       },
       "etcd.quorum", Severity::kGuaranteeFails},
      {"another cluster", [](F& f) { f.view.members[2]->mutable_header()->set_cluster_id(18); },
       "etcd.one_cluster", Severity::kGuaranteeFails},
      {"two members",
       [](F& f) {
         f.view.list->mutable_members()->RemoveLast();
         f.view.members.pop_back();
         f.endpoints.pop_back();
       },
       "etcd.members",
       Severity::kWarning,
       {"etcd.quorum", "etcd.endpoints"}},
      {"one without a vote", [](F& f) { f.view.list->mutable_members(0)->set_is_learner(true); },
       "etcd.members", Severity::kWarning},
      {"members not told",
       [unknown](F& f) { f.view.list = unknown; },
       "etcd.members",
       Severity::kNotChecked,
       {"etcd.endpoints", "etcd.version"}},
      {"one that is not named",
       [](F& f) { f.view.list->add_members(); },
       "etcd.endpoints",
       Severity::kWarning,
       {"etcd.members", "etcd.version"}},
      {"one that is named twice",
       [](F& f) { f.view.members[2]->mutable_header()->set_member_id(1); },
       "etcd.endpoints",
       Severity::kWarning,
       {"etcd.version"}},
      {"a learner", [](F& f) { f.view.members[0]->set_is_learner(true); }, "etcd.learner",
       Severity::kWarning}};
}

std::vector<FactsRow<F>> RowsOfSurroundings() {
  const absl::Status unknown = absl::PermissionDeniedError("not for you");
  return {
      {"no room", [](F& f) { f.view.alarms->add_alarms()->set_alarm(etcdserverpb::NOSPACE); },
       "etcd.alarms", Severity::kWarning},
      {"damage", [](F& f) { f.view.alarms->add_alarms()->set_alarm(etcdserverpb::CORRUPT); },
       "etcd.alarms", Severity::kGuaranteeFails},
      {"damage that one member tells",
       [unknown](F& f) {
         f.view.alarms = unknown;
         f.view.members[1]->add_errors("memberID:2 alarm:CORRUPT ");
       },
       "etcd.alarms", Severity::kGuaranteeFails},
      {"alarms not told", [unknown](F& f) { f.view.alarms = unknown; }, "etcd.alarms",
       Severity::kNotChecked},
      {"near the quota", [](F& f) { f.view.members[2]->set_db_size_in_use(6000); }, "etcd.space",
       Severity::kWarning},
      {"a quota that it does not tell",
       [](F& f) {
         f.quota_bytes = kQuota;
         for (auto& member : f.view.members) member->set_db_size_quota(0);
       },
       "etcd.space", Severity::kNotChecked},
      {"small transactions", [](F& f) { f.txn_ops = 64; }, "etcd.max_txn_ops", Severity::kWarning},
      {"small requests", [](F& f) { f.large_request = absl::InvalidArgumentError("too large"); },
       "etcd.max_request_bytes", Severity::kGuaranteeFails},
      {"requests not answered", [](F& f) { f.large_request = absl::UnavailableError("gone"); },
       "etcd.max_request_bytes", Severity::kNotChecked},
      {"in the clear over a network", [](F& f) { f.endpoints[1] = "etcd-1:2379"; }, "etcd.tls",
       Severity::kWarning},
      {"nobody is asked", [](F& f) { f.view.auth->set_enabled(false); }, "etcd.auth",
       Severity::kWarning},
      {"nobody is asked for a name",
       [](F& f) {
         f.view.auth->set_enabled(false);
         f.has_certificate = true;
       },
       "etcd.auth", Severity::kNotChecked},
      {"it never tells the time", [](F&) {}, "etcd.clock", Severity::kNotChecked}};
}

TEST(EtcdCheck, EachFindingByWhatRaisesIt) {
  std::vector<FactsRow<F>> rows = RowsOfMembers();
  for (const FactsRow<F>& row : RowsOfSurroundings()) rows.push_back(row);
  ExpectRows<F>(Good, rows);
}

TEST(EtcdCheck, KnownFaultsHaveTheirVersions) {
  const std::pair<const char*, Severity> rows[] = {{"3.3.27", Severity::kGuaranteeFails},
                                                   {"3.4.19", Severity::kWarning},
                                                   {"3.4.20", Severity::kGuaranteeFails},
                                                   {"3.4.41", Severity::kGuaranteeFails},
                                                   {"3.4.42", Severity::kOk},
                                                   {"3.5.0", Severity::kGuaranteeFails},
                                                   {"3.5.27", Severity::kGuaranteeFails},
                                                   {"3.5.28", Severity::kOk},
                                                   {"3.5.28-rc.1", Severity::kOk},
                                                   {"3.6.8", Severity::kGuaranteeFails},
                                                   {"3.6.9", Severity::kOk},
                                                   {"3.6.9+git", Severity::kOk},
                                                   {"4.0.0", Severity::kOk},
                                                   {"3.6", Severity::kNotChecked},
                                                   {"", Severity::kNotChecked}};
  for (const auto& [version, severity] : rows) {
    EtcdCheckFacts facts = Good();
    SetVersion(facts, version);
    EXPECT_EQ(FindingOf(Judge(facts), "etcd.version").severity, severity) << version;
  }
}

TEST(EtcdCheck, AMemberThatIsAloneMayLoseWhatItAcknowledges) {
  for (const auto& [version, loses] :
       {std::pair("3.4.20", true), {"3.4.21", false}, {"3.5.4", true}, {"3.5.5", false}}) {
    EtcdCheckFacts facts = Good();
    SetVersion(facts, version);
    EXPECT_EQ(FindingOf(Judge(facts), "etcd.version").seen.find("alone"), std::string::npos);
    for (int i = 0; i < 2; ++i) facts.view.list->mutable_members()->RemoveLast();
    EXPECT_EQ(FindingOf(Judge(facts), "etcd.version").seen.find("alone") != std::string::npos,
              loses)
        << version;
  }
}

TEST(EtcdCheck, WhatASilentMemberWouldSayIsNotKnown) {
  EtcdCheckFacts facts = Good();
  Silence(facts, 1);
  EXPECT_EQ(IdsOf(Judge(facts), Severity::kNotChecked),
            (std::set<std::string>{"etcd.version", "etcd.one_cluster", "etcd.endpoints",
                                   "etcd.learner", "etcd.space", "etcd.clock"}));
  // What is wrong with the others is wrong all the same.
  facts.view.members[0]->set_version("3.5.0");
  EXPECT_EQ(FindingOf(Judge(facts), "etcd.version").severity, Severity::kGuaranteeFails);
}

TEST(EtcdCheck, WhatAMemberIsThatNobodyNamesIsNotKnown) {
  const auto version = [](const EtcdCheckFacts& facts) {
    return FindingOf(Judge(facts), "etcd.version");
  };
  EtcdCheckFacts facts = Good();
  facts.view.list->add_members()->set_id(4);
  EXPECT_EQ(version(facts).severity, Severity::kNotChecked);
  EXPECT_THAT(version(facts).seen, HasSubstr("1 more"));
  // Nobody says who there is.
  facts.view.list = absl::PermissionDeniedError("not for you");
  EXPECT_EQ(version(facts).severity, Severity::kNotChecked);
  EXPECT_THAT(version(facts).seen, HasSubstr("not for you"));
  Silence(facts, 2);
  EXPECT_EQ(version(facts).severity, Severity::kNotChecked);
  // What is wrong with those that answer is wrong all the same.
  facts.view.members[0]->set_version("3.5.27");
  EXPECT_EQ(version(facts).severity, Severity::kGuaranteeFails);
}

TEST(EtcdCheck, WhereNobodyAnswersNothingIsCalledWell) {
  EtcdCheckFacts facts = Good();
  for (size_t i = 0; i < 3; ++i) Silence(facts, i);
  const absl::Status gone = absl::UnavailableError("gone");
  facts.view.list = gone;
  facts.view.alarms = gone;
  facts.view.auth = gone;
  facts.large_request = gone;
  const std::vector<Finding> findings = Judge(facts);
  EXPECT_EQ(IdsOf(findings, Severity::kGuaranteeFails), std::set<std::string>{"etcd.quorum"});
  // What was found out at start, and what only the options say.
  EXPECT_EQ(IdsOf(findings, Severity::kOk),
            (std::set<std::string>{"etcd.max_txn_ops", "etcd.tls"}));
  EXPECT_EQ(VersionsOf(facts.view), "");
}

TEST(EtcdCheck, WhetherItAsksWhoIsCallingWhereItDoesNotTell) {
  const absl::Status old = absl::UnimplementedError("unknown method");
  struct Row {
    absl::Status auth;
    bool token;
    bool certificate;
    absl::Status served;
    Severity severity;
  };
  const Row rows[] = {{absl::PermissionDeniedError("only root"), false, false, {}, Severity::kOk},
                      {old, true, false, {}, Severity::kOk},
                      {old, false, false, {}, Severity::kWarning},
                      {old, false, true, {}, Severity::kNotChecked},
                      {old, false, false, absl::UnavailableError("gone"), Severity::kNotChecked}};
  for (const Row& row : rows) {
    EtcdCheckFacts facts = Good();
    facts.view.auth = row.auth;
    facts.view.has_token = row.token;
    facts.has_certificate = row.certificate;
    facts.large_request = row.served;
    EXPECT_EQ(FindingOf(Judge(facts), "etcd.auth").severity, row.severity) << row.auth;
  }
}

// --- Real ones -----------------------------------------------------------------------------------

TEST(EtcdCheck, OfOneMemberOfAnOldVersion) {
  EtcdFixture fixture;
  // No answer is late, however slow the machine.
  fixture.etcd.call_timeout = std::chrono::minutes(2);
  const auto engine = fixture.Open();
  const std::vector<std::string> keys = fixture.Keys();
  const EngineCheck check = engine->CheckStore();
  EXPECT_EQ(check.engine, "etcd");
  // Debian's.
  EXPECT_THAT(check.version, HasSubstr("3.4."));
  EXPECT_EQ(IdsOf(check.findings, Severity::kGuaranteeFails),
            std::set<std::string>{"etcd.version"});
  EXPECT_EQ(IdsOf(check.findings, Severity::kWarning),
            (std::set<std::string>{"etcd.members", "etcd.auth"}));
  EXPECT_EQ(IdsOf(check.findings, Severity::kNotChecked),
            (std::set<std::string>{"etcd.space", "etcd.clock"}));
  EXPECT_EQ(fixture.Keys(), keys) << "it has changed nothing";
}

TEST(EtcdCheck, OfOneThatTakesLessThanItIsThoughtTo) {
  EtcdCluster small(1, {"--max-request-bytes=600000", "--max-txn-ops=64"});
  EtcdFixture fixture(&small);
  fixture.etcd.call_timeout = std::chrono::minutes(2);
  const auto engine = fixture.Open();
  const std::vector<Finding> findings = engine->CheckStore().findings;
  EXPECT_EQ(FindingOf(findings, "etcd.max_request_bytes").severity, Severity::kGuaranteeFails);
  EXPECT_EQ(FindingOf(findings, "etcd.max_txn_ops").severity, Severity::kWarning);
}

TEST(EtcdCheck, OfThreeMembersOfWhichOneAndThenTwoAreGone) {
  EtcdCluster etcd(3);
  EtcdFixture fixture(&etcd);
  const auto engine = fixture.Open();
  const auto quorum = [&engine] {
    return FindingOf(engine->CheckStore().findings, "etcd.quorum").severity;
  };
  // A member that has just begun may not have heard of the others yet.
  EXPECT_TRUE(BecomesTrue([&] { return quorum() == Severity::kOk; }));
  EXPECT_TRUE(BecomesTrue([&] {
    return FindingOf(engine->CheckStore().findings, "etcd.members").severity == Severity::kOk;
  }));
  etcd.member(2).Kill();
  EXPECT_TRUE(BecomesTrue([&] { return quorum() == Severity::kWarning; }));
  etcd.member(1).Kill();
  // The last one finds out by itself that it is alone.
  EXPECT_TRUE(BecomesTrue([&] { return quorum() == Severity::kGuaranteeFails; }));
}

}  // namespace
}  // namespace idempotency::keystore
