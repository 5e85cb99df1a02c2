#include "tests/proof/sim/checker.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "keystore/core/limits.h"
#include "keystore/core/names.h"
#include "keystore/core/transition.h"
#include "tests/keystore/core/core_text.h"
#include "tests/proof/sim/actors.h"
#include "tests/proof/sim/linearizer.h"

namespace idempotency::proof {
namespace {

using core::Duration;
using core::EventKind;
using core::Record;
using core::State;
using core::Time;
using core::UnknownOutcome;

using Broken = std::string_view;

// --- What is read off a record -----------------------------------------------------------------

const core::EndedAttempt* EndedOf(const Record& record, uint64_t token) {
  for (const core::EndedAttempt& ended : record.ended) {
    if (ended.token == token) return &ended;
  }
  return nullptr;
}

Time AfterRerun(const core::Terms& terms, bool reconcile_first, Time from) {
  if (terms.unknown_outcome != UnknownOutcome::kRerun || reconcile_first) return Time{};
  return from + (terms.retention.count() == 0 ? core::kFreedMemory : terms.retention);
}

// When the key is forgotten if nobody does anything more; unset: never.
Time ForgottenAt(const Record& record) {
  if (record.state != State::kPending) return record.forget_time;
  const Time lapse = record.lease_expire_time;
  if (record.started) return AfterRerun(record.terms, false, lapse);
  if (!record.earlier.has_value()) return lapse + core::kFreedMemory;
  const core::Unknown& earlier = *record.earlier;
  const Time then = AfterRerun(record.terms, earlier.reconcile_first, earlier.since);
  return core::IsSet(then) ? std::max(then, lapse + core::kFreedMemory) : then;
}

// Whether one policy lets somebody try again after this record, at `now`.
bool Allows(const core::Terms& terms, const Record& record, const core::Now& now) {
  const bool unresolved = record.unknown.has_value();
  if (unresolved && record.unknown->reconcile_first) return false;
  switch (terms.unknown_outcome) {
    case UnknownOutcome::kRerun:
      return true;
    case UnknownOutcome::kReconcileFirst:
      return false;
    case UnknownOutcome::kRetrySameKey:
      break;
  }
  const uint32_t attempts = unresolved ? record.unknown->attempt : record.attempt;
  const bool waited = !unresolved || now.earliest >= record.unknown->next_attempt_time;
  // A lapsed attempt that never began leaves an earlier one's count.
  const bool left = attempts < terms.max_attempts ||
                    (!unresolved && !record.started && record.earlier.has_value());
  return left && waited &&
         std::max(now.latest, now.wall) < record.create_time + terms.protection_window;
}

// --- The checks --------------------------------------------------------------------------------

class Check {
 public:
  explicit Check(const History& history) : h_(history), last_(history.keys.size(), nullptr) {}

  std::string Run();

 private:
  core::Now NowAt(size_t replica, Seq seq, const core::RecordPtr& held) const;
  Duration ForwardBetween(Duration from, Duration to) const;
  Duration Back() const;
  bool TooEarly(const Change& since, Time end, Duration at) const;

  bool OneStep(const Change& change) const;
  Broken CheckChange(const Change& change);
  Broken CheckGrant(const Change& change) const;
  Broken CheckPermission(const Change& change, const core::Now& now) const;
  Broken CheckPolicies(const Change& change, const core::Now& now) const;
  Broken CheckStands(const Change& change, const core::Now& now) const;
  Broken CheckErased(const Change& change, const core::Now& now) const;
  Broken CheckLapse(const Change& change) const;

  Broken CheckOp(const Op& op);
  const Change* BaseOf(size_t key, const Record& shown, Seq by, Broken* broken) const;
  bool Between(const Op& op, const Record& shown) const;
  Broken CheckShown(const Op& op, const Record& shown);
  bool Expired(const Op& op, const Record& shown) const;
  Broken CheckByTime(const Record& base, const Record& shown) const;
  Broken CheckEffect(const Op& op, const core::RecordPtr& shown) const;
  bool Carries(const Change& change, const Op& op) const;
  Broken CheckMismatch(const Op& op, const core::RecordPtr& shown) const;
  Broken CheckRepeat(const Op& op) const;
  Broken CheckHolder(const Op& op, const core::RecordPtr& shown);
  bool OnItsWay(size_t key, uint64_t token, const Op& seen) const;
  bool AloneIn(const Op& op) const;

  std::string Describe(Broken broken, const std::string& where) const {
    return std::string(broken) + "\n  " + where + "\n";
  }

  const History& h_;
  std::vector<const Change*> last_;                              // by key
  std::map<size_t, uint64_t> highest_;                           // token by key
  std::map<std::pair<size_t, uint64_t>, const Op*> lapsed_;      // key and token: by whom
  std::map<std::pair<size_t, uint64_t>, core::Digest> holders_;  // key and token: whose
};

// What the replica was told last before `seq`, as a record holds it.
core::Now Check::NowAt(size_t replica, Seq seq, const core::RecordPtr& held) const {
  core::Now now;
  for (const Told& told : h_.told[replica]) {
    if (told.seq > seq) break;
    now = told.now;
  }
  return held == nullptr ? now : core::NotBefore(now, held->update_time);
}

Duration Check::ForwardBetween(Duration from, Duration to) const {
  Duration sum{0};
  for (const auto& shifts : h_.forward) {
    for (const Shift& shift : shifts) {
      if (shift.at >= from && shift.at <= to) sum += shift.span;
    }
  }
  return sum;
}

Duration Check::Back() const {
  Duration sum{0};
  for (const auto& shifts : h_.back) {
    for (const Shift& shift : shifts) sum += shift.span;
  }
  return sum;
}

// Whether what was written by `since`, and was to last until `end`, is over at true time `at`
// though less time has passed than was promised.
bool Check::TooEarly(const Change& since, Time end, Duration at) const {
  const Duration promised = end - NowAt(since.replica, since.asked, nullptr).latest;
  return at - since.asked_at + ForwardBetween(since.asked_at, at) < promised;
}

// A batch writes a key once, whatever its commands have made of it. Whether it was one command,
// for all that can be known: nobody else had asked anything of the key.
bool Check::OneStep(const Change& change) const {
  if (change.by_filter) return true;
  const auto asked = std::count_if(h_.ops.begin(), h_.ops.end(), [&](const Op& op) {
    return op.key == change.key && op.replica == change.replica && op.fate != Fate::kNothing &&
           op.invoked < change.asked && op.returned > change.asked;
  });
  return asked <= 1;
}

// --- What was stored ---------------------------------------------------------------------------

Broken Check::CheckPolicies(const Change& change, const core::Now& now) const {
  const Record& before = *change.before;
  if (now.in_doubt) return "I1: an attempt is granted from an unknown while the clock is in doubt";
  if (!Allows(before.terms, before, now)) return "I1: the stored policy allows no other attempt";
  for (const Op& op : h_.ops) {
    const auto* reserve = std::get_if<core::ReserveCommand>(&op.command);
    if (op.key == change.key && reserve != nullptr && op.invoked < change.asked &&
        reserve->attempt_id == change.after->attempt_id && Allows(op.policy->terms, before, now)) {
      return {};
    }
  }
  return "I1: today's policy allows no other attempt";
}

// I1: the newest event before the grant says why it may be.
Broken Check::CheckPermission(const Change& change, const core::Now& now) const {
  const std::vector<core::Event>& events = change.after->history;
  size_t at = events.size() - 1;
  while (at > 0 && events[at].kind != EventKind::kAcquired) --at;
  while (at > 0 && events[at - 1].kind == EventKind::kLateCompletion) --at;
  const Record& before = *change.before;
  if (at == 0) {
    if (before.resolution == core::Resolution::kDeleted) return {};
    const Time end = ForgottenAt(before);
    if (!core::IsSet(end)) return "I1, I10: what is never forgotten is taken for new";
    if (now.in_doubt || now.earliest < end) return "I1, I9: a key is forgotten early";
    return {};
  }
  const core::Event& reason = events[at - 1];
  const bool freed = before.state == State::kFreed;
  switch (reason.kind) {
    case EventKind::kReleased:
    case EventKind::kCompleted:
      return freed ? Broken() : CheckPolicies(change, now);
    case EventKind::kResolved: {
      const std::string_view said = core::Name(core::Resolution::kNotExecuted);
      const bool not_executed = reason.detail.substr(0, said.size()) == said;
      // With zero retention whatever is resolved is free.
      return freed || not_executed ? Broken() : "I1: resolved, and not as not executed";
    }
    case EventKind::kLeaseLapsed:
      if (before.started || before.earlier.has_value()) return CheckPolicies(change, now);
      return {};
    case EventKind::kMarkedUnresolved:
      return CheckPolicies(change, now);
    case EventKind::kStartedOver: {
      const bool over =
          before.state == State::kExpired || (before.state == State::kComplete && !now.in_doubt &&
                                              now.earliest >= before.response_expire_time);
      return over ? Broken() : "I1, I9: started over before it was over";
    }
    case EventKind::kAcquired:
    case EventKind::kDispatched:
    case EventKind::kLateCompletion:
      break;
  }
  return "I1: nothing in the history permits the grant";
}

Broken Check::CheckGrant(const Change& change) const {
  const Record& after = *change.after;
  const auto highest = highest_.find(change.key);
  if (highest != highest_.end() && after.token <= highest->second) return "I2: a token comes again";
  if (change.before == nullptr) {
    if (!OneStep(change)) return {};
    return after.history.size() == 1 ? Broken() : "I1: a new key has a past";
  }
  if (!OneStep(change)) return {};
  if (after.state != State::kPending) return "I1: a new token, and nobody holds it";
  if (after.history.empty() || after.history.back().kind != EventKind::kAcquired) {
    return "I1: a grant is not in the history";
  }
  return CheckPermission(change, NowAt(change.replica, change.asked, change.before));
}

// I3: what is complete may not change before it is over.
Broken Check::CheckStands(const Change& change, const core::Now& now) const {
  const Record& before = *change.before;
  if (before.state != State::kComplete) return {};
  if (!now.in_doubt && now.earliest >= before.response_expire_time) return {};
  if (change.after == nullptr) return "I3, I4: an answer vanishes before its retention is over";
  const Record& after = *change.after;
  if (after.resolution == core::Resolution::kDeleted) return {};
  const bool replaced = before.verdict == core::Verdict::kAbandoned &&
                        after.resolution == core::Resolution::kCompleted;
  if (replaced) return {};
  const bool same = after.state == State::kComplete && after.verdict == before.verdict &&
                    after.response == before.response &&
                    after.complete_time == before.complete_time &&
                    after.response_expire_time == before.response_expire_time &&
                    after.forget_time == before.forget_time;
  return same ? Broken() : "I3: an answer changes before its retention is over";
}

Broken Check::CheckErased(const Change& change, const core::Now& now) const {
  if (change.after != nullptr) return {};
  const Time end = ForgottenAt(*change.before);
  if (!core::IsSet(end)) return "I10: an unknown outcome is erased";
  if (now.in_doubt || now.earliest < end) return "I9, I10: what is remembered is erased";
  return {};
}

// I6: by a lapse alone nothing is freed that may have begun.
Broken Check::CheckLapse(const Change& change) const {
  const Record& before = *change.before;
  if (before.state != State::kPending || change.after == nullptr) return {};
  const Record& after = *change.after;
  if (after.token != before.token || after.state != State::kFreed) return {};
  if (after.resolution != core::Resolution::kNone) return {};
  const core::EndedAttempt* ended = EndedOf(after, before.token);
  const bool lapsed = ended == nullptr || ended->verb == core::EndVerb::kLapsed;
  const bool began = before.started || before.earlier.has_value();
  return lapsed && began ? "I6: a lapse frees what may have begun" : Broken();
}

Broken Check::CheckChange(const Change& change) {
  const bool grant = change.after != nullptr &&
                     (change.before == nullptr || change.after->token != change.before->token);
  Broken broken = grant ? CheckGrant(change) : Broken();
  if (change.after != nullptr) {
    uint64_t& highest = highest_[change.key];
    highest = std::max(highest, change.after->token);
  }
  if (!broken.empty() || change.before == nullptr) return broken;
  if (!OneStep(change)) return {};
  const core::Now now = NowAt(change.replica, change.asked, change.before);
  for (const Broken rule :
       {CheckStands(change, now), CheckErased(change, now), CheckLapse(change)}) {
    if (!rule.empty()) return rule;
  }
  // By true time, whatever the clocks said.
  const Change* since = last_[change.key];
  if (since == nullptr || since->after != change.before) return {};
  if (grant && change.before->state == State::kPending &&
      TooEarly(*since, change.before->lease_expire_time, change.asked_at)) {
    return "I6: a lease is over before its time";
  }
  const bool gone = change.after == nullptr || (change.after->history.size() == 1 && grant);
  const bool deleted = change.before->resolution == core::Resolution::kDeleted;
  if (gone && !deleted && TooEarly(*since, ForgottenAt(*change.before), change.asked_at)) {
    return "I9: a key is forgotten before its time";
  }
  return {};
}

// --- What was answered -------------------------------------------------------------------------

// The stored record that `shown` was made of by nothing but time, and that was safe by then.
const Change* Check::BaseOf(size_t key, const Record& shown, Seq by, Broken* broken) const {
  *broken = "I11, I12: a record is shown that was never stored";
  for (size_t i = h_.changes.size(); i > 0; --i) {
    const Change& change = h_.changes[i - 1];
    if (change.key != key || change.after == nullptr || change.after->token != shown.token)
      continue;
    const Record& stored = *change.after;
    if (stored.changes > shown.changes || stored.changes + 2 < shown.changes) continue;
    if (stored.changes == shown.changes && !(stored == shown)) continue;
    if (change.durable <= by) {
      *broken = {};
      return &change;
    }
    *broken = change.lost ? "I4: what was answered is lost" : "I5: what is shown is not safe";
  }
  return nullptr;
}

// One command of a batch shows what the later ones of it have changed again before it was stored.
bool Check::Between(const Op& op, const Record& shown) const {
  return std::any_of(h_.changes.begin(), h_.changes.end(), [&](const Change& change) {
    if (change.key != op.key || change.after == nullptr || change.durable > op.returned)
      return false;
    const Record& after = *change.after;
    const bool earlier =
        shown.token < after.token || (shown.token == after.token && shown.changes < after.changes);
    const bool later =
        change.before == nullptr || shown.token > change.before->token ||
        (shown.token == change.before->token && shown.changes > change.before->changes);
    return change.asked > op.invoked && change.asked < op.returned && earlier && later;
  });
}

// I6, I9: what time may have made of a record.
Broken Check::CheckByTime(const Record& base, const Record& shown) const {
  if (base.changes == shown.changes) return {};
  const bool began = base.started || base.earlier.has_value();
  switch (base.state) {
    case State::kPending:
      if (shown.state == State::kUnresolved && began) return {};
      if (shown.state == State::kFreed && !began) return {};
      return "I6: a lapse leaves an unknown, or frees what never began";
    case State::kComplete:
      return shown.state == State::kExpired ? Broken() : "I3: time makes an answer expire, no more";
    case State::kUnresolved:
    case State::kExpired:
    case State::kFreed:
      break;
  }
  return "I6: time alone changes nothing here";
}

Broken Check::CheckShown(const Op& op, const Record& shown) {
  if (!shown.owner.operation_ref.empty() && shown.owner.operation_ref != TagOf(op.key)) {
    return "I11: another key's operation is shown";
  }
  Broken broken;
  const Change* base = BaseOf(op.key, shown, op.returned, &broken);
  const bool as_stored = base != nullptr && base->after->changes == shown.changes;
  if (!as_stored && Between(op, shown)) return {};
  if (base == nullptr) return broken;
  broken = CheckByTime(*base->after, shown);
  if (!broken.empty()) return broken;
  const bool by_time = base->after->changes != shown.changes;
  if (by_time) {
    const bool lapse = base->after->state == State::kPending;
    const Time end = lapse ? base->after->lease_expire_time : base->after->response_expire_time;
    if (TooEarly(*base, end, op.returned_at)) {
      return lapse ? "I6: a lease is over before its time"
                   : "I9: an answer expires before its time";
    }
  }
  if (shown.state == State::kPending) {
    const Duration span =
        shown.lease_expire_time - NowAt(base->replica, base->asked, nullptr).latest;
    if (op.invoked_at - base->asked_at > span + 2 * h_.clock_skew + Back()) {
      return "I6: a lease goes on after its time";
    }
  }
  if (shown.state == State::kComplete && Expired(op, shown))
    return "I9: an expired answer is served";
  return {};
}

// Whether an answer that is shown was over by every time that the replica was told meanwhile.
bool Check::Expired(const Op& op, const Record& shown) const {
  const core::Now first =
      core::NotBefore(NowAt(op.replica, op.invoked, nullptr), shown.update_time);
  bool expired = !first.in_doubt && first.earliest >= shown.response_expire_time;
  for (const Told& told : h_.told[op.replica]) {
    const bool meanwhile = told.seq > op.invoked && told.seq < op.returned;
    if (meanwhile && told.now.in_doubt) expired = false;
  }
  return expired;
}

// I4, I5, I8: what was acknowledged is in what is stored.
Broken Check::CheckEffect(const Op& op, const core::RecordPtr& shown) const {
  const auto* completed = std::get_if<core::CompleteCommand>(&op.command);
  if (completed != nullptr && shown != nullptr) {
    const core::EndedAttempt* ended = EndedOf(*shown, completed->token);
    if (ended == nullptr || ended->verb != core::EndVerb::kCompleted ||
        ended->content != completed->content) {
      return "I3, I4: a completion is acknowledged that is not stored";
    }
  }
  const auto* marked = std::get_if<core::MarkUnresolvedCommand>(&op.command);
  if (marked != nullptr && shown != nullptr && EndedOf(*shown, marked->token) == nullptr) {
    return "I4: a mark is acknowledged that is not stored";
  }
  const bool tells_nothing = std::holds_alternative<core::RenewAnswer>(op.answer) ||
                             std::holds_alternative<core::ReleaseAnswer>(op.answer);
  if (!tells_nothing) return {};
  Broken broken = "I4: an acknowledged change was never stored";
  for (const Change& change : h_.changes) {
    if (change.key != op.key || change.after == nullptr || !Carries(change, op)) continue;
    if (change.durable <= op.returned) return {};
    broken =
        change.lost ? "I4: what was acknowledged is lost" : "I5: what was acknowledged is not safe";
  }
  return broken;
}

// Whether what an answered Renew or Release has done is in this change.
bool Check::Carries(const Change& change, const Op& op) const {
  const Record& after = *change.after;
  // What a later command of the same batch has changed again was stored as that left it.
  if (change.asked > op.invoked && change.asked < op.returned && !OneStep(change)) return true;
  if (const auto* renewed = std::get_if<core::RenewAnswer>(&op.answer)) {
    return after.token == renewed->lease.token && after.state == State::kPending &&
           after.lease_expire_time == renewed->lease.expire_time;
  }
  const core::EndedAttempt* ended =
      EndedOf(after, std::get<core::ReleaseCommand>(op.command).token);
  return ended != nullptr && (ended->verb == core::EndVerb::kReleased ||
                              ended->verb == core::EndVerb::kReleasedUnknown);
}

// I7: another request gets neither a grant nor a body.
Broken Check::CheckMismatch(const Op& op, const core::RecordPtr& shown) const {
  if (shown == nullptr || !shown->fingerprint.given()) return {};
  const auto* reserve = std::get_if<core::ReserveCommand>(&op.command);
  const auto* get = std::get_if<core::GetCommand>(&op.command);
  if (reserve == nullptr && get == nullptr) return {};
  const core::Fingerprint& given = reserve != nullptr ? reserve->fingerprint : get->fingerprint;
  if (given == shown->fingerprint) return {};
  const auto* reserved = std::get_if<core::ReserveAnswer>(&op.answer);
  const auto* got = std::get_if<core::GetAnswer>(&op.answer);
  if ((reserved != nullptr && reserved->reveal) || (got != nullptr && got->reveal)) {
    return "I7: a body for another request";
  }
  if (reserved == nullptr) return {};
  const bool optional = op.policy->fingerprint_optional && !given.given();
  const bool mismatch = reserved->outcome == core::ReserveOutcome::kFingerprintMismatch;
  if (mismatch && reserved->lease.has_value()) return "I7: a lease for another request";
  return mismatch || optional || shown->state == State::kFreed
             ? Broken()
             : "I7: another request is taken for this one";
}

// No other command on the key can have had its effect meanwhile.
bool Check::AloneIn(const Op& op) const {
  return std::none_of(h_.ops.begin(), h_.ops.end(), [&](const Op& other) {
    return &other != &op && other.key == op.key && other.fate != Fate::kNothing &&
           other.invoked < op.returned && other.returned > op.invoked;
  });
}

// I8: what ended an attempt, said again, changes nothing.
Broken Check::CheckRepeat(const Op& op) const {
  const bool ends = std::holds_alternative<core::CompleteCommand>(op.command) ||
                    std::holds_alternative<core::ReleaseCommand>(op.command) ||
                    std::holds_alternative<core::MarkUnresolvedCommand>(op.command);
  if (!ends) return {};
  const bool again = std::any_of(h_.ops.begin(), h_.ops.end(), [&](const Op& other) {
    return other.message == op.message && other.key == op.key && other.returned < op.invoked &&
           other.fate == Fate::kAnswered && !std::holds_alternative<core::Refusal>(other.answer);
  });
  if (!again || !AloneIn(op)) return {};
  const bool changes = std::any_of(h_.changes.begin(), h_.changes.end(), [&](const Change& change) {
    return change.key == op.key && change.replica == op.replica && change.asked > op.invoked &&
           change.asked < op.returned && change.after != nullptr;
  });
  return changes ? "I8: a repetition changes something" : Broken();
}

// Whether a write that keeps the lease alive was under way while its lapse was seen elsewhere: the
// record was read before it and judged by a clock that was read later, or the database took longer
// over it than the lease had left. Whoever writes because of what was seen loses the race, or makes
// this write lose it. Only where there are other writers.
bool Check::OnItsWay(size_t key, uint64_t token, const Op& seen) const {
  return !h_.exclusive && std::any_of(h_.changes.begin(), h_.changes.end(), [&](const Change& c) {
    return c.key == key && c.after != nullptr && c.after->token == token &&
           c.asked < seen.returned && c.applied > seen.invoked;
  });
}

// I1, I6: a token is one attempt's, and one whose lapse has been seen is nobody's.
Broken Check::CheckHolder(const Op& op, const core::RecordPtr& shown) {
  uint64_t live = 0;
  if (const auto* renewed = std::get_if<core::RenewAnswer>(&op.answer)) live = renewed->lease.token;
  const auto* reserved = std::get_if<core::ReserveAnswer>(&op.answer);
  if (reserved != nullptr && (reserved->outcome == core::ReserveOutcome::kAcquired ||
                              reserved->outcome == core::ReserveOutcome::kAlreadyHeld)) {
    live = reserved->lease->token;
    const core::Digest& id = std::get<core::ReserveCommand>(op.command).attempt_id;
    const auto [holder, added] = holders_.try_emplace({op.key, live}, id);
    if (!added && holder->second != id) return "I1: two attempts hold one token";
  }
  // Where clocks differ, others see it for as long as the slowest of them may.
  const bool one_clock = h_.clock_skew.count() == 0;
  if (one_clock && shown != nullptr && shown->state == State::kPending) live = shown->token;
  if (live != 0 && Back().count() == 0) {
    const auto seen = lapsed_.find({op.key, live});
    const bool again = seen != lapsed_.end() && seen->second->returned < op.invoked;
    if (again && !OnItsWay(op.key, live, *seen->second)) return "I6: a lapsed lease is live again";
  }
  if (shown == nullptr || shown->ended.empty()) return {};
  const core::EndedAttempt& ended = shown->ended.back();
  if (ended.verb == core::EndVerb::kLapsed) lapsed_.try_emplace({op.key, ended.token}, &op);
  return {};
}

Broken Check::CheckOp(const Op& op) {
  if (op.fate != Fate::kAnswered) return {};
  const core::RecordPtr shown = ShownIn(op.answer);
  if (shown != nullptr) {
    const Broken broken = CheckShown(op, *shown);
    if (!broken.empty()) return broken;
  }
  for (const Broken broken : {CheckEffect(op, shown), CheckMismatch(op, shown), CheckRepeat(op),
                              CheckHolder(op, shown)}) {
    if (!broken.empty()) return broken;
  }
  return {};
}

std::string Check::Run() {
  for (size_t i = 0; i < h_.changes.size(); ++i) {
    const Change& change = h_.changes[i];
    const Broken broken = CheckChange(change);
    const auto text = [](const core::RecordPtr& record) {
      return record == nullptr ? std::string("nothing") : core::Text(*record);
    };
    if (!broken.empty()) {
      return Describe(broken, "key " + std::to_string(change.key) + ": " + text(change.before) +
                                  "\n  becomes " + text(change.after));
    }
    if (!change.lost) last_[change.key] = &change;
  }
  // In the order of the answers.
  std::vector<const Op*> ops;
  for (const Op& op : h_.ops) ops.push_back(&op);
  std::sort(ops.begin(), ops.end(),
            [](const Op* a, const Op* b) { return a->returned < b->returned; });
  for (const Op* op : ops) {
    const Broken broken = CheckOp(*op);
    if (!broken.empty()) {
      return Describe(broken, "#" + std::to_string(op - h_.ops.data()) + " " +
                                  core::Text(op->command) + " <- " + core::Text(op->answer));
    }
  }
  for (const ListedEntry& entry : h_.listed) {
    Broken broken = "a list shows what cannot be read";
    if (entry.record != nullptr) {
      const Change* base = BaseOf(entry.key, *entry.record, entry.seq, &broken);
      if (base != nullptr) broken = CheckByTime(*base->after, *entry.record);
    }
    if (!broken.empty()) return Describe(broken, "in a list, key " + std::to_string(entry.key));
  }
  return {};
}

}  // namespace

std::string BrokenInvariant(const History& history) {
  if (!history.broken.empty()) return history.broken + "\n";
  std::string broken = Check(history).Run();
  return broken.empty() ? NotLinearizable(history) : broken;
}

}  // namespace idempotency::proof
