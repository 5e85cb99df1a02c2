#include "service/validation.h"

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "keystore/core/limits.h"
#include "service/digest.h"
#include "tests/service/edge/requests.h"

namespace idempotency::service {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

std::string Bytes(size_t count) { return std::string(count, 'x'); }

google::protobuf::Duration Seconds(int64_t whole, int32_t nanos = 0) {
  google::protobuf::Duration duration;
  duration.set_seconds(whole);
  duration.set_nanos(nanos);
  return duration;
}

// Of a request that is looked at again: the checks take parts out of theirs.
Checked<core::ReserveCommand> CheckReserve(v1::ReserveRequest request, const core::Policy& policy) {
  return service::CheckReserve(&request, policy);
}
Checked<core::RenewCommand> CheckRenew(v1::RenewRequest request, const core::Policy& policy) {
  return service::CheckRenew(&request, policy);
}

// --- Ids ------------------------------------------------------------------------------------

struct IdRow {
  const char* name;
  std::function<void(v1::OperationId*)> change;
  const char* field;  // at fault; null: accepted
};

class IdTest : public testing::TestWithParam<IdRow> {};

TEST_P(IdTest, NamesTheFieldAtFault) {
  v1::OperationId id = ValidId();
  GetParam().change(&id);
  SCOPED_TRACE(id.ShortDebugString());
  v1::OperationId taken = id;
  const Checked<core::Key> key = CheckId(&taken);
  if (GetParam().field == nullptr) {
    ASSERT_TRUE(key.ok()) << key.error().message;
    EXPECT_EQ(key.value(), (core::Key{id.namespace_(), id.scope(), id.key()}));
    return;
  }
  ASSERT_FALSE(key.ok());
  EXPECT_EQ(taken.SerializeAsString(), id.SerializeAsString());
  EXPECT_EQ(key.error().field, GetParam().field);
  EXPECT_FALSE(key.error().message.empty());
}

const IdRow kIdRows[] = {
    {"valid", [](auto*) {}, nullptr},
    {"namespace_empty", [](auto* id) { id->clear_namespace_(); }, "id.namespace"},
    {"namespace_64", [](auto* id) { id->set_namespace_(Bytes(64)); }, nullptr},
    {"namespace_65", [](auto* id) { id->set_namespace_(Bytes(65)); }, "id.namespace"},
    {"namespace_all_kinds", [](auto* id) { id->set_namespace_("a0._-z"); }, nullptr},
    {"namespace_digit_first", [](auto* id) { id->set_namespace_("0a"); }, "id.namespace"},
    {"namespace_dot_first", [](auto* id) { id->set_namespace_(".a"); }, "id.namespace"},
    {"namespace_upper", [](auto* id) { id->set_namespace_("aB"); }, "id.namespace"},
    {"namespace_slash", [](auto* id) { id->set_namespace_("a/b"); }, "id.namespace"},
    {"namespace_utf8", [](auto* id) { id->set_namespace_("a\xc3\xa4"); }, "id.namespace"},
    // Whether it may be left out depends on the policy: see CheckNewKey.
    {"scope_empty", [](auto* id) { id->clear_scope(); }, nullptr},
    {"scope_255", [](auto* id) { id->set_scope(Bytes(255)); }, nullptr},
    {"scope_256", [](auto* id) { id->set_scope(Bytes(256)); }, "id.scope"},
    {"scope_control", [](auto* id) { id->set_scope("a\nb"); }, "id.scope"},
    {"key_empty", [](auto* id) { id->clear_key(); }, "id.key"},
    {"key_1", [](auto* id) { id->set_key("k"); }, nullptr},
    {"key_255", [](auto* id) { id->set_key(Bytes(255)); }, nullptr},
    {"key_256", [](auto* id) { id->set_key(Bytes(256)); }, "id.key"},
    {"key_nul", [](auto* id) { id->set_key(std::string("a\0b", 3)); }, "id.key"},
    {"key_delete", [](auto* id) { id->set_key("a\x7f"); }, "id.key"},
    {"key_c1_control", [](auto* id) { id->set_key("a\xc2\x85"); }, "id.key"},
    {"key_not_utf8", [](auto* id) { id->set_key("a\xff"); }, "id.key"},
    {"key_any_other_text", [](auto* id) { id->set_key(" \xc3\xa4 / \xf0\x9f\x92\xb3 "); }, nullptr},
};

INSTANTIATE_TEST_SUITE_P(Rows, IdTest, testing::ValuesIn(kIdRows),
                         [](const auto& row) { return row.param.name; });

TEST(NewKeyTest, AsksWhatThePolicyAsks) {
  core::Policy policy;
  policy.max_key_bytes = 10;
  const core::Key fits{"payments", "acct", Bytes(10)};
  EXPECT_EQ(CheckNewKey(fits, policy), std::nullopt);
  const core::Key long_key{"payments", "acct", Bytes(11)};
  ASSERT_TRUE(CheckNewKey(long_key, policy).has_value());
  EXPECT_EQ(CheckNewKey(long_key, policy)->field, "id.key");

  const core::Key no_scope{"payments", "", "k"};
  ASSERT_TRUE(CheckNewKey(no_scope, policy).has_value());
  EXPECT_EQ(CheckNewKey(no_scope, policy)->field, "id.scope");
  policy.scope_optional = true;
  EXPECT_EQ(CheckNewKey(no_scope, policy), std::nullopt);
}

TEST(NewKeyTest, RefusesSensitiveKeysWhereAsked) {
  const core::Key mail{"payments", "acct", "alice@example.com"};
  core::Policy policy;
  ASSERT_TRUE(CheckNewKey(mail, policy).has_value());
  EXPECT_EQ(CheckNewKey(mail, policy)->field, "id.key");
  EXPECT_THAT(CheckNewKey(mail, policy)->message, testing::Not(testing::HasSubstr("alice")));
  policy.key_check = core::KeyCheck::kWarn;
  EXPECT_EQ(CheckNewKey(mail, policy), std::nullopt);
  policy.key_check = core::KeyCheck::kOff;
  EXPECT_EQ(CheckNewKey(mail, policy), std::nullopt);
}

// --- Reserve ----------------------------------------------------------------------------------

struct ReserveRow {
  const char* name;
  std::function<void(v1::ReserveRequest*)> change;
  const char* field;  // at fault; null: accepted
};

class ReserveTest : public testing::TestWithParam<ReserveRow> {};

TEST_P(ReserveTest, NamesTheFieldAtFault) {
  v1::ReserveRequest request = ValidReserve();
  GetParam().change(&request);
  const Checked<core::ReserveCommand> command = CheckReserve(request, core::Policy{});
  SCOPED_TRACE(request.ShortDebugString());
  if (GetParam().field == nullptr) {
    EXPECT_TRUE(command.ok()) << command.error().message;
    return;
  }
  ASSERT_FALSE(command.ok());
  EXPECT_EQ(command.error().field, GetParam().field);
}

void AddLabels(v1::ReserveRequest* request, int count, size_t value_bytes) {
  for (int i = 0; i < count; ++i) {
    (*request->mutable_labels())["l" + std::string(1, static_cast<char>('a' + i))] =
        Bytes(value_bytes);
  }
}

const ReserveRow kReserveRows[] = {
    {"valid", [](auto*) {}, nullptr},
    {"attempt_id_empty", [](auto* r) { r->clear_attempt_id(); }, "attempt_id"},
    {"attempt_id_15", [](auto* r) { r->set_attempt_id(Bytes(15)); }, "attempt_id"},
    {"attempt_id_16", [](auto* r) { r->set_attempt_id(Bytes(16)); }, nullptr},
    {"attempt_id_64", [](auto* r) { r->set_attempt_id(Bytes(64)); }, nullptr},
    {"attempt_id_65", [](auto* r) { r->set_attempt_id(Bytes(65)); }, "attempt_id"},
    {"fingerprint_missing", [](auto* r) { r->clear_fingerprint(); }, "fingerprint"},
    {"algorithm_empty", [](auto* r) { r->mutable_fingerprint()->clear_algorithm(); },
     "fingerprint.algorithm"},
    {"algorithm_64", [](auto* r) { r->mutable_fingerprint()->set_algorithm(Bytes(64)); }, nullptr},
    {"algorithm_65", [](auto* r) { r->mutable_fingerprint()->set_algorithm(Bytes(65)); },
     "fingerprint.algorithm"},
    {"digest_15", [](auto* r) { r->mutable_fingerprint()->set_digest(Bytes(15)); },
     "fingerprint.digest"},
    {"digest_16", [](auto* r) { r->mutable_fingerprint()->set_digest(Bytes(16)); }, nullptr},
    {"digest_64", [](auto* r) { r->mutable_fingerprint()->set_digest(Bytes(64)); }, nullptr},
    {"digest_65", [](auto* r) { r->mutable_fingerprint()->set_digest(Bytes(65)); },
     "fingerprint.digest"},
    {"worker_255", [](auto* r) { r->mutable_owner()->set_worker(Bytes(255)); }, nullptr},
    {"worker_256", [](auto* r) { r->mutable_owner()->set_worker(Bytes(256)); }, "owner.worker"},
    {"operation_ref_255", [](auto* r) { r->mutable_owner()->set_operation_ref(Bytes(255)); },
     nullptr},
    {"operation_ref_256", [](auto* r) { r->mutable_owner()->set_operation_ref(Bytes(256)); },
     "owner.operation_ref"},
    {"traceparent_255", [](auto* r) { r->mutable_owner()->set_traceparent(Bytes(255)); }, nullptr},
    {"traceparent_256", [](auto* r) { r->mutable_owner()->set_traceparent(Bytes(256)); },
     "owner.traceparent"},
    {"labels_16", [](auto* r) { AddLabels(r, 16, 1); }, nullptr},
    {"labels_17", [](auto* r) { AddLabels(r, 17, 1); }, "labels"},
    {"labels_1024_bytes", [](auto* r) { AddLabels(r, 1, 1022); }, nullptr},
    {"labels_1025_bytes", [](auto* r) { AddLabels(r, 1, 1023); }, "labels"},
    {"labels_an_empty_name_is_not_stored", [](auto* r) { (*r->mutable_labels())[""] = "v"; },
     "labels"},
    {"lease_zero", [](auto* r) { *r->mutable_lease_duration() = Seconds(0); }, "lease_duration"},
    {"lease_negative", [](auto* r) { *r->mutable_lease_duration() = Seconds(0, -1); },
     "lease_duration"},
    {"lease_1_ns", [](auto* r) { *r->mutable_lease_duration() = Seconds(0, 1); }, nullptr},
    {"lease_max", [](auto* r) { *r->mutable_lease_duration() = Seconds(86'400); }, nullptr},
    {"lease_over_max", [](auto* r) { *r->mutable_lease_duration() = Seconds(86'400, 1); },
     "lease_duration"},
    {"lease_huge",
     [](auto* r) {
       *r->mutable_lease_duration() = Seconds(std::numeric_limits<int64_t>::max(), 999'999'999);
     },
     "lease_duration"},
    {"lease_nanos_of_two_seconds",
     [](auto* r) { *r->mutable_lease_duration() = Seconds(1, 2'000'000'000); }, "lease_duration"},
    {"lease_of_two_signs", [](auto* r) { *r->mutable_lease_duration() = Seconds(5, -1); },
     "lease_duration"},
    {"age_of_two_signs", [](auto* r) { *r->mutable_operation_age() = Seconds(-5, 1); },
     "operation_age"},
    {"age_of_ten_thousand_years",
     [](auto* r) { *r->mutable_operation_age() = Seconds(315'576'000'000); }, nullptr},
    {"age_beyond_all_durations",
     [](auto* r) { *r->mutable_operation_age() = Seconds(315'576'000'001); }, "operation_age"},
    {"age_negative", [](auto* r) { *r->mutable_operation_age() = Seconds(-5); }, nullptr},
};

INSTANTIATE_TEST_SUITE_P(Rows, ReserveTest, testing::ValuesIn(kReserveRows),
                         [](const auto& row) { return row.param.name; });

TEST(ReserveCommandTest, CarriesEverything) {
  v1::ReserveRequest request = ValidReserve();
  *request.mutable_lease_duration() = Seconds(5);
  request.mutable_owner()->set_worker("pod-1");
  request.mutable_owner()->set_operation_ref("run-1");
  request.mutable_owner()->set_traceparent("00-...");
  (*request.mutable_labels())["b"] = "2";
  (*request.mutable_labels())["a"] = "1";
  *request.mutable_operation_age() = Seconds(1, 500'000'001);
  request.set_dispatch_later(true);
  request.set_start_over(true);

  const Checked<core::ReserveCommand> checked = CheckReserve(request, core::Policy{});
  ASSERT_TRUE(checked.ok());
  const core::ReserveCommand& command = checked.value();
  EXPECT_EQ(command.fingerprint, (core::Fingerprint{"sha256/jcs-1", std::string(32, 'd')}));
  EXPECT_EQ(command.attempt_id, DigestAttemptId(request.attempt_id()));
  EXPECT_EQ(command.lease, seconds(5));
  EXPECT_EQ(command.owner, (core::Owner{"pod-1", "run-1", "00-..."}));
  EXPECT_EQ(command.labels, (core::Labels{{"a", "1"}, {"b", "2"}}));
  EXPECT_EQ(command.operation_age, milliseconds(1501));
  EXPECT_TRUE(command.dispatch_later);
  EXPECT_TRUE(command.start_over);
  EXPECT_EQ(command.refuse_new, core::Reason::kNone);
}

TEST(ReserveCommandTest, FillsInWhatIsUnset) {
  core::Policy policy;
  policy.default_lease = seconds(17);
  const Checked<core::ReserveCommand> checked = CheckReserve(ValidReserve(), policy);
  ASSERT_TRUE(checked.ok());
  EXPECT_EQ(checked.value().lease, seconds(17));
  EXPECT_EQ(checked.value().operation_age, std::nullopt);
}

TEST(ReserveCommandTest, TakesANegativeAgeAsZero) {
  v1::ReserveRequest request = ValidReserve();
  *request.mutable_operation_age() = Seconds(-1);
  EXPECT_EQ(CheckReserve(request, core::Policy{}).value().operation_age, milliseconds(0));
}

TEST(ReserveCommandTest, RoundsTheShortestLeaseUp) {
  v1::ReserveRequest request = ValidReserve();
  *request.mutable_lease_duration() = Seconds(0, 1);
  EXPECT_EQ(CheckReserve(request, core::Policy{}).value().lease, milliseconds(1));
}

TEST(ReserveCommandTest, LetsFingerprintsBeOptional) {
  v1::ReserveRequest request = ValidReserve();
  request.clear_fingerprint();
  core::Policy policy;
  policy.fingerprint_optional = true;
  const Checked<core::ReserveCommand> checked = CheckReserve(request, policy);
  ASSERT_TRUE(checked.ok());
  EXPECT_FALSE(checked.value().fingerprint.given());
  // Half of one is still wrong.
  request.mutable_fingerprint()->set_algorithm("sha256");
  EXPECT_FALSE(CheckReserve(request, policy).ok());
}

TEST(WaitTest, IsCutToThePolicy) {
  core::Policy policy;
  policy.max_wait = seconds(10);
  EXPECT_EQ(CheckWait(Seconds(0), policy).value(), milliseconds(0));
  EXPECT_EQ(CheckWait(Seconds(10), policy).value(), seconds(10));
  EXPECT_EQ(CheckWait(Seconds(10, 1), policy).value(), seconds(10));
  ASSERT_FALSE(CheckWait(Seconds(-1), policy).ok());
  EXPECT_EQ(CheckWait(Seconds(-1), policy).error().field, "wait_duration");
}

TEST(WaitTest, ADurationThatIsNoneIsRefusedNotGuessed) {
  for (const auto& wait : {Seconds(1, -1), Seconds(0, 1'000'000'000), Seconds(315'576'000'001)}) {
    const Checked<core::Duration> checked = CheckWait(wait, core::Policy{});
    ASSERT_FALSE(checked.ok()) << wait.ShortDebugString();
    EXPECT_EQ(checked.error().field, "wait_duration") << wait.ShortDebugString();
  }
}

// --- Renew ------------------------------------------------------------------------------------

TEST(RenewTest, ChecksItsFields) {
  v1::RenewRequest request;
  EXPECT_EQ(CheckRenew(request, core::Policy{}).error().field, "fencing_token");
  request.set_fencing_token(1);
  request.set_progress(Bytes(4096));
  ASSERT_TRUE(CheckRenew(request, core::Policy{}).ok());
  request.set_progress(Bytes(4097));
  EXPECT_EQ(CheckRenew(request, core::Policy{}).error().field, "progress");
  request.clear_progress();
  request.mutable_owner()->set_worker(Bytes(256));
  EXPECT_EQ(CheckRenew(request, core::Policy{}).error().field, "owner.worker");
  request.clear_owner();
  *request.mutable_lease_duration() = Seconds(0);
  EXPECT_EQ(CheckRenew(request, core::Policy{}).error().field, "lease_duration");
}

TEST(RenewTest, TellsUnsetFromEmpty) {
  v1::RenewRequest request;
  request.set_fencing_token(1);
  EXPECT_EQ(CheckRenew(request, core::Policy{}).value().progress, std::nullopt);
  EXPECT_EQ(CheckRenew(request, core::Policy{}).value().owner, std::nullopt);
  request.set_progress("");
  request.mutable_owner();
  EXPECT_EQ(CheckRenew(request, core::Policy{}).value().progress, "");
  EXPECT_EQ(CheckRenew(request, core::Policy{}).value().owner, core::Owner{});
}

// --- Finishing verbs: only id, token and verdict refuse
// --------------------------------------------

TEST(CompleteTest, IsRefusedForTokenAndVerdictAlone) {
  v1::CompleteRequest request = ValidComplete();
  request.set_fencing_token(0);
  EXPECT_EQ(CheckComplete(request, core::Policy{}).error().field, "fencing_token");
  request = ValidComplete();
  for (const auto verdict :
       {v1::VERDICT_UNSPECIFIED, v1::VERDICT_ABANDONED, static_cast<v1::Verdict>(77)}) {
    request.set_verdict(verdict);
    ASSERT_FALSE(CheckComplete(request, core::Policy{}).ok()) << verdict;
    EXPECT_EQ(CheckComplete(request, core::Policy{}).error().field, "verdict");
  }
}

TEST(CompleteTest, CutsAndClampsTheRest) {
  v1::CompleteRequest request = ValidComplete();
  request.set_provider_request_id(Bytes(254) + "\xc3\xa4");
  *request.mutable_retention() = Seconds(std::numeric_limits<int64_t>::max());
  request.mutable_response()->set_body(Bytes(11));
  core::Policy policy;
  policy.max_response_bytes = 10;
  const Checked<core::CompleteCommand> checked = CheckComplete(request, policy);
  ASSERT_TRUE(checked.ok());
  EXPECT_EQ(checked.value().provider_request_id, Bytes(254));
  EXPECT_EQ(checked.value().retention, policy.max_retention);
  EXPECT_TRUE(checked.value().response.body_omitted);
  // The digest is of what was said, not of what is kept.
  EXPECT_EQ(checked.value().content, DigestContent(request));
}

TEST(CompleteTest, TakesNegativeRetentionAsZero) {
  v1::CompleteRequest request = ValidComplete();
  EXPECT_EQ(CheckComplete(request, core::Policy{}).value().retention, std::nullopt);
  *request.mutable_retention() = Seconds(-1);
  EXPECT_EQ(CheckComplete(request, core::Policy{}).value().retention, milliseconds(0));
}

TEST(CompleteTest, TellsNoResponseFromAnEmptyOne) {
  v1::CompleteRequest request = ValidComplete();
  EXPECT_FALSE(CheckComplete(request, core::Policy{}).value().response.bytes.present());
  request.mutable_response();
  EXPECT_TRUE(CheckComplete(request, core::Policy{}).value().response.bytes.present());
}

TEST(CompleteTest, ADurationThatIsNoneRefusesNoFinishingVerb) {
  v1::CompleteRequest complete = ValidComplete();
  v1::MarkUnresolvedRequest mark;
  mark.set_fencing_token(3);
  for (const auto& span : {Seconds(1, -1), Seconds(-1, 1), Seconds(0, 2'000'000'000),
                           Seconds(std::numeric_limits<int64_t>::max())}) {
    *complete.mutable_retention() = span;
    *mark.mutable_retry_after() = span;
    EXPECT_TRUE(CheckComplete(complete, core::Policy{}).ok()) << span.ShortDebugString();
    EXPECT_TRUE(CheckMarkUnresolved(mark).ok()) << span.ShortDebugString();
  }
}

TEST(ReleaseTest, ARepeatWithAnotherDetailIsTheSameMessage) {
  v1::ReleaseRequest request;
  request.set_fencing_token(3);
  const core::Digest without = CheckRelease(request).value().content;
  request.set_detail("refused before it was sent");
  EXPECT_EQ(CheckRelease(request).value().content, without);
  EXPECT_NE(without, core::Digest{});
}

TEST(ReleaseTest, CutsItsDetail) {
  v1::ReleaseRequest request;
  EXPECT_EQ(CheckRelease(request).error().field, "fencing_token");
  request.set_fencing_token(3);
  request.set_detail(Bytes(1025));
  const Checked<core::ReleaseCommand> checked = CheckRelease(request);
  ASSERT_TRUE(checked.ok());
  EXPECT_EQ(checked.value().detail, Bytes(1024));
}

TEST(MarkUnresolvedTest, AcceptsWhateverElseIsSaid) {
  v1::MarkUnresolvedRequest request;
  EXPECT_EQ(CheckMarkUnresolved(request).error().field, "fencing_token");
  request.set_fencing_token(3);
  request.set_detail(Bytes(1025));
  request.set_provider_request_id(Bytes(256));
  *request.mutable_retry_after() = Seconds(-1);
  Checked<core::MarkUnresolvedCommand> checked = CheckMarkUnresolved(request);
  ASSERT_TRUE(checked.ok());
  EXPECT_EQ(checked.value().detail, Bytes(1024));
  EXPECT_EQ(checked.value().provider_request_id, Bytes(255));
  EXPECT_EQ(checked.value().retry_after, milliseconds(0));
  *request.mutable_retry_after() = Seconds(std::numeric_limits<int64_t>::max());
  checked = CheckMarkUnresolved(request);
  ASSERT_TRUE(checked.ok());
  EXPECT_EQ(checked.value().retry_after, core::kMaxPolicyDuration);
}

TEST(MarkUnresolvedTest, TakesUnknownCausesAsOther) {
  v1::MarkUnresolvedRequest request;
  request.set_fencing_token(3);
  struct Row {
    int sent;
    core::UnresolvedCause kept;
  };
  for (const Row& row :
       {Row{0, core::UnresolvedCause::kOther}, Row{1, core::UnresolvedCause::kTimeout},
        Row{2, core::UnresolvedCause::kConnectionLost}, Row{3, core::UnresolvedCause::kServerError},
        Row{4, core::UnresolvedCause::kOwnerCancelled}, Row{5, core::UnresolvedCause::kOther},
        Row{6, core::UnresolvedCause::kOther}, Row{99, core::UnresolvedCause::kOther}}) {
    request.set_cause(static_cast<v1::UnresolvedCause>(row.sent));
    EXPECT_EQ(CheckMarkUnresolved(request).value().cause, row.kept) << row.sent;
  }
}

// --- For operators ------------------------------------------------------------------------------

TEST(ResolveTest, ChecksItsFields) {
  const core::Policy policy;
  struct Row {
    const char* name;
    std::function<void(v1::ResolveOperationRequest*)> change;
    const char* field;
  };
  const Row rows[] = {
      {"valid", [](auto*) {}, nullptr},
      {"no_resolution", [](auto* r) { r->clear_resolution(); }, "resolution"},
      {"no_actor", [](auto* r) { r->clear_actor(); }, "actor"},
      {"actor_255", [](auto* r) { r->set_actor(Bytes(255)); }, nullptr},
      {"actor_256", [](auto* r) { r->set_actor(Bytes(256)); }, "actor"},
      {"no_reason", [](auto* r) { r->clear_reason(); }, "reason"},
      {"reason_1024", [](auto* r) { r->set_reason(Bytes(1024)); }, nullptr},
      {"reason_1025", [](auto* r) { r->set_reason(Bytes(1025)); }, "reason"},
      {"provider_request_id_255", [](auto* r) { r->set_provider_request_id(Bytes(255)); }, nullptr},
      {"provider_request_id_256", [](auto* r) { r->set_provider_request_id(Bytes(256)); },
       "provider_request_id"},
      {"completed_without_verdict", [](auto* r) { r->mutable_completed(); }, "completed.verdict"},
      {"completed", [](auto* r) { r->mutable_completed()->set_verdict(v1::VERDICT_FAILED); },
       nullptr},
      {"completed_abandoned",
       [](auto* r) { r->mutable_completed()->set_verdict(v1::VERDICT_ABANDONED); },
       "completed.verdict"},
      {"abandoned", [](auto* r) { r->mutable_abandoned(); }, nullptr},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    v1::ResolveOperationRequest request = ValidResolve();
    row.change(&request);
    const Checked<core::ResolveCommand> checked = CheckResolve(request, policy);
    ASSERT_EQ(checked.ok(), row.field == nullptr) << request.ShortDebugString();
    if (row.field != nullptr) EXPECT_EQ(checked.error().field, row.field);
  }
}

TEST(DeleteTest, ChecksItsFields) {
  v1::DeleteOperationRequest request;
  EXPECT_EQ(CheckDelete(request).error().field, "actor");
  request.set_actor("alice");
  EXPECT_EQ(CheckDelete(request).error().field, "reason");
  request.set_reason("test data");
  request.set_force(true);
  request.set_etag("1.1");
  const Checked<core::DeleteCommand> checked = CheckDelete(request);
  ASSERT_TRUE(checked.ok());
  EXPECT_TRUE(checked.value().force);
  EXPECT_EQ(checked.value().etag, "1.1");
}

TEST(ListTest, ChecksItsFields) {
  struct Row {
    const char* name;
    std::function<void(v1::ListOperationsRequest*)> change;
    const char* field;
  };
  const Row rows[] = {
      {"valid", [](auto*) {}, nullptr},
      {"no_namespace", [](auto* r) { r->clear_namespace_(); }, "namespace"},
      {"scope_256", [](auto* r) { r->set_scope(Bytes(256)); }, "scope"},
      {"prefix_256", [](auto* r) { r->set_key_prefix(Bytes(256)); }, "key_prefix"},
      {"ref_256", [](auto* r) { r->set_operation_ref(Bytes(256)); }, "operation_ref"},
      {"age_negative", [](auto* r) { *r->mutable_min_age() = Seconds(-1); }, "min_age"},
      {"age_of_two_signs", [](auto* r) { *r->mutable_min_age() = Seconds(1, -1); }, "min_age"},
      {"state_unspecified",
       [](auto* r) {
         r->add_states(v1::OPERATION_STATE_PENDING);
         r->add_states(v1::OPERATION_STATE_UNSPECIFIED);
       },
       "states[1]"},
      {"state_unknown", [](auto* r) { r->add_states(static_cast<v1::OperationState>(6)); },
       "states[0]"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    v1::ListOperationsRequest request;
    request.set_namespace_("payments");
    row.change(&request);
    const Checked<keystore::ListFilter> checked = CheckListFilter(request);
    ASSERT_EQ(checked.ok(), row.field == nullptr) << request.ShortDebugString();
    if (row.field != nullptr) EXPECT_EQ(checked.error().field, row.field);
  }
}

TEST(ListTest, LooksOnlyAtOpenRecordsWhereOnlyTheyAreAskedFor) {
  v1::ListOperationsRequest request;
  request.set_namespace_("payments");
  EXPECT_FALSE(CheckListFilter(request).value().scan.open_only);
  EXPECT_EQ(CheckListFilter(request).value().scan.scope, std::nullopt);
  request.add_states(v1::OPERATION_STATE_UNRESOLVED);
  request.add_states(v1::OPERATION_STATE_PENDING);
  EXPECT_TRUE(CheckListFilter(request).value().scan.open_only);
  request.add_states(v1::OPERATION_STATE_COMPLETE);
  EXPECT_FALSE(CheckListFilter(request).value().scan.open_only);
}

TEST(PageSizeTest, HasItsBounds) {
  EXPECT_EQ(CheckPageSize(0).value(), 100u);
  EXPECT_EQ(CheckPageSize(1).value(), 1u);
  EXPECT_EQ(CheckPageSize(1000).value(), 1000u);
  EXPECT_EQ(CheckPageSize(1001).value(), 1000u);
  EXPECT_EQ(CheckPageSize(-1).error().field, "page_size");
}

}  // namespace
}  // namespace idempotency::service
