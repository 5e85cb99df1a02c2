#include "service/activity.h"

#include <optional>
#include <utility>
#include <variant>

#include "keystore/clock.h"
#include "keystore/core/command.h"
#include "keystore/core/names.h"
#include "service/key_check.h"
#include "service/validation.h"

namespace idempotency::service {
namespace {

// What of a command may be logged.
struct Origin {
  std::string_view operation_ref;
  std::string_view provider_request_id;
  std::string_view trace_id;
  std::string_view actor;
  std::string_view reason;
};

Origin OriginOf(const core::Owner& owner) {
  return Origin{owner.operation_ref, {}, TraceIdOf(owner.traceparent), {}, {}};
}

struct FindOrigin {
  Origin operator()(const core::ReserveCommand& c) const { return OriginOf(c.owner); }
  Origin operator()(const core::RenewCommand& c) const {
    return c.owner ? OriginOf(*c.owner) : Origin{};
  }
  Origin operator()(const core::CompleteCommand& c) const {
    return Origin{{}, c.provider_request_id, {}, {}, {}};
  }
  Origin operator()(const core::ReleaseCommand&) const { return {}; }
  Origin operator()(const core::MarkUnresolvedCommand& c) const {
    return Origin{{}, c.provider_request_id, {}, {}, {}};
  }
  Origin operator()(const core::GetCommand&) const { return {}; }
  Origin operator()(const core::InspectCommand&) const { return {}; }
  Origin operator()(const core::ResolveCommand& c) const {
    return Origin{{}, c.provider_request_id, {}, c.actor, c.reason};
  }
  Origin operator()(const core::DeleteCommand& c) const {
    return Origin{{}, {}, {}, c.actor, c.reason};
  }
  Origin operator()(const core::ReclaimCommand&) const { return {}; }
};

Origin OriginOf(const core::Record& record) {
  Origin origin = OriginOf(record.owner);
  origin.provider_request_id = record.provider_request_id;
  return origin;
}

Origin OriginOf(const core::Met& met) {
  return Origin{met.operation_ref, met.provider_request_id, TraceIdOf(met.traceparent), {}, {}};
}

struct Line {
  LogLevel level = LogLevel::kDebug;
  std::string_view event = "command";
  std::string_view result;
  // What the operation knows; at most one is set.
  const core::Record* record = nullptr;
  const core::Met* met = nullptr;
};

std::string_view View(const keystore::TraceId& id) {
  return id[0] == '\0' ? std::string_view() : std::string_view(id.data(), id.size());
}

// A command's own words, completed by those of its call and by what the operation knows.
Origin OriginOf(const keystore::Request& request, const Line& line) {
  Origin origin = std::visit(FindOrigin{}, request.command);
  if (origin.trace_id.empty()) origin.trace_id = View(request.trace_id);
  Origin known;
  if (line.record != nullptr) known = OriginOf(*line.record);
  if (line.met != nullptr) known = OriginOf(*line.met);
  if (origin.operation_ref.empty()) origin.operation_ref = known.operation_ref;
  if (origin.trace_id.empty()) origin.trace_id = known.trace_id;
  if (origin.provider_request_id.empty()) origin.provider_request_id = known.provider_request_id;
  return origin;
}

// How an answer is told: most only to those who debug.
struct Describe {
  Line operator()(const core::Refusal& a) const {
    if (a.late_completion) {
      return Line{LogLevel::kWarning, "late_completion", core::Name(a.reason), nullptr, &a.met};
    }
    return Line{LogLevel::kInfo, "refused", core::Name(a.reason), nullptr, &a.met};
  }
  Line operator()(const core::ReserveAnswer& a) const {
    const core::Record* record = a.operation.get();
    if (a.outcome == core::ReserveOutcome::kFingerprintMismatch) {
      // The record is another request's: its owner is nobody's business here.
      return Line{LogLevel::kInfo, "fingerprint_mismatch", core::Name(a.next_step)};
    }
    return Line{LogLevel::kDebug, "command", core::Name(a.outcome), record};
  }
  Line operator()(const core::RenewAnswer& a) const {
    return Line{LogLevel::kDebug, "command", {}, nullptr, &a.met};
  }
  Line operator()(const core::CompleteAnswer& a) const {
    return Line{LogLevel::kDebug, "command", core::Name(a.operation->verdict), a.operation.get()};
  }
  Line operator()(const core::ReleaseAnswer& a) const {
    return Line{LogLevel::kDebug, "command", core::Name(a.state), nullptr, &a.met};
  }
  Line operator()(const core::MarkUnresolvedAnswer& a) const {
    const core::Record& record = *a.operation;
    const std::string_view cause =
        record.unknown ? core::Name(record.unknown->cause) : core::Name(record.state);
    return Line{LogLevel::kInfo, "unresolved", cause, &record};
  }
  Line operator()(const core::GetAnswer& a) const {
    return Line{LogLevel::kDebug, "command", core::Name(a.operation->state), a.operation.get()};
  }
  Line operator()(const core::InspectAnswer& a) const {
    return Line{LogLevel::kInfo, "inspected", core::Name(a.operation->state), a.operation.get()};
  }
  Line operator()(const core::ResolveAnswer& a) const {
    return Line{LogLevel::kInfo, "resolved", core::Name(a.operation->resolution),
                a.operation.get()};
  }
  Line operator()(const core::DeleteAnswer& a) const {
    return Line{LogLevel::kInfo, "deleted", {}, nullptr, &a.met};
  }
  Line operator()(const core::ReclaimAnswer&) const { return Line{}; }
};

// Whether nothing was known of the key before.
bool MadeAnOperation(const core::ReserveAnswer& answer) {
  return answer.outcome == core::ReserveOutcome::kAcquired && answer.operation != nullptr &&
         answer.operation->history.size() == 1;
}

}  // namespace

Activity::Activity(Log* log, Metrics* metrics, std::function<void()> on_engine_dead)
    : log_(log), metrics_(metrics), on_engine_dead_(std::move(on_engine_dead)) {}

Activity::~Activity() {
  for (const core::Reason reason :
       {core::Reason::kOverloaded, core::Reason::kStoreFull, core::Reason::kStoreUnavailable}) {
    TellUntold(reason, refusals_.TakeUntold(reason));
  }
}

bool Activity::IsTold(core::Reason reason) {
  if (!RefusalLines::IsBounded(reason)) return true;
  const std::optional<uint64_t> untold = refusals_.Admit(reason, keystore::ReadKernelTime().boot);
  if (untold) TellUntold(reason, *untold);
  return untold.has_value();
}

void Activity::TellUntold(core::Reason reason, uint64_t count) {
  if (count == 0) return;
  log_->Write(LogLevel::kInfo, "more_refused", {{"result", core::Name(reason)}, {"count", count}});
}

void Activity::OnAnswer(const keystore::Request& request, const core::Answer& answer) {
  Count(request, answer);
  const auto* reserved = std::get_if<core::ReserveAnswer>(&answer);
  if (reserved != nullptr && MadeAnOperation(*reserved)) {
    WarnOfSensitive(request, *reserved->operation);
  }
  const Line line = std::visit(Describe{}, answer);
  if (!log_->Enabled(line.level)) return;
  const auto* refusal = std::get_if<core::Refusal>(&answer);
  if (refusal != nullptr && !IsTold(refusal->reason)) return;
  const Origin origin = OriginOf(request, line);
  log_->Write(line.level, line.event,
              {{"verb", Name(VerbOf(request.command))},
               {"result", line.result},
               {"namespace", request.key.name_space},
               {"operation_ref", origin.operation_ref},
               {"provider_request_id", origin.provider_request_id},
               {"trace_id", origin.trace_id},
               {"actor", origin.actor},
               {"reason", origin.reason}});
}

void Activity::Count(const keystore::Request& request, const core::Answer& answer) {
  const Verb verb = VerbOf(request.command);
  CallOutcome outcome;
  if (const auto* refusal = std::get_if<core::Refusal>(&answer)) {
    outcome = CallOutcome(refusal->reason);
    metrics_->OnRefused(verb, refusal->reason);
    if (refusal->late_completion) metrics_->OnLateCompletion();
  } else {
    metrics_->OnAnswered(verb);
  }
  if (const auto* reserved = std::get_if<core::ReserveAnswer>(&answer)) {
    outcome = CallOutcome(reserved->outcome);
    metrics_->OnReserved(reserved->outcome);
    const bool replays = reserved->outcome == core::ReserveOutcome::kCompleted && reserved->reveal;
    if (replays) metrics_->OnResponseReplayed(reserved->operation->response.bytes.view().size());
  } else if (const auto* complete = std::get_if<core::CompleteAnswer>(&answer)) {
    const size_t bytes = complete->operation->response.bytes.view().size();
    if (!complete->already_complete) metrics_->OnResponseStored(bytes);
  }
  metrics_->OnOutcome(verb, outcome, request.policy == nullptr ? 0 : request.policy->tally.row);
}

void Activity::OnLapse(const core::Key& key, const core::Record& record) {
  metrics_->OnLapsed(record.state);
  log_->Write(LogLevel::kInfo, "lease_lapsed",
              {{"result", core::Name(record.state)},
               {"namespace", key.name_space},
               {"operation_ref", record.owner.operation_ref},
               {"provider_request_id", record.provider_request_id},
               {"trace_id", TraceIdOf(record.owner.traceparent)},
               {"worker", record.owner.worker},
               {"attempt", record.attempt}});
}

void Activity::OnUnreadable(const core::Key& key) {
  metrics_->OnUnreadable();
  log_->Write(LogLevel::kError, "record_unreadable", {{"namespace", key.name_space}});
}

void Activity::OnCommit(size_t commands, size_t writes, std::chrono::nanoseconds took) {
  metrics_->OnCommit(commands, writes, took);
}

void Activity::OnEngineDead() {
  // The key store notices it by a failed write, the timers by asking.
  if (engine_dead_.exchange(true)) return;
  log_->Write(LogLevel::kError, "engine_dead",
              {{"next_step", "the process exits; start it again to reopen the store"}});
  if (on_engine_dead_) on_engine_dead_();
}

void Activity::OnAnswered(Verb verb, uint32_t row) {
  metrics_->OnAnswered(verb);
  metrics_->OnOutcome(verb, CallOutcome(), row);
}

void Activity::OnRefused(Verb verb, const Failure& failure, std::string_view name_space,
                         uint32_t row, const keystore::TraceId& trace_id) {
  metrics_->OnRefused(verb, failure.reason);
  metrics_->OnOutcome(verb, CallOutcome(failure.reason), row);
  if (!log_->Enabled(LogLevel::kInfo) || !IsTold(failure.reason)) return;
  const bool presentable = !CheckNamespaceName(name_space, "namespace").has_value();
  log_->Write(LogLevel::kInfo, "refused",
              {{"verb", Name(verb)},
               {"result", core::Name(failure.reason)},
               {"field", failure.field},
               {"namespace", presentable ? name_space : std::string_view()},
               {"trace_id", View(trace_id)}});
}

void Activity::WarnOfSensitive(const keystore::Request& request, const core::Record& record) {
  const core::Key& key = request.key;
  if (request.policy->key_check == core::KeyCheck::kOff) return;
  // One that has to be refused was: it is looked for again only where it would be let through.
  if (request.policy->key_check == core::KeyCheck::kWarn) {
    WarnIfSensitive(key.name_space, "id.key", key.key);
  }
  WarnIfSensitive(key.name_space, "id.scope", key.scope);
  for (const auto& [name, value] : record.labels) {
    WarnIfSensitive(key.name_space, "labels", name);
    WarnIfSensitive(key.name_space, "labels", value);
  }
  WarnIfSensitive(key.name_space, "owner.operation_ref", record.owner.operation_ref);
}

void Activity::WarnIfSensitive(std::string_view name_space, std::string_view field,
                               std::string_view text) {
  const std::string_view looks_like = LooksSensitive(text);
  if (looks_like.empty()) return;
  metrics_->OnSensitive(field);
  log_->Write(LogLevel::kWarning, "looks_sensitive",
              {{"namespace", name_space}, {"field", field}, {"looks_like", looks_like}});
}

void Activity::OnUnauthenticated(Verb verb, const Authentication& who, std::string_view peer,
                                 const keystore::TraceId& trace_id) {
  metrics_->OnRefused(verb, core::Reason::kAccessDenied);
  metrics_->OnOutcome(verb, CallOutcome(core::Reason::kAccessDenied), 0);
  metrics_->OnUnauthenticated(who.fault);
  const bool is_token = who.token_fault != TokenFault::kNone;
  log_->Write(LogLevel::kInfo, "unauthenticated",
              {{"verb", Name(verb)},
               {"result", FaultName(who.fault)},
               {"token", is_token ? FaultName(who.token_fault) : std::string_view()},
               {"peer", peer},
               {"trace_id", View(trace_id)}});
}

void Activity::OnClockDoubt(bool in_doubt) {
  if (!in_doubt) return log_->Write(LogLevel::kInfo, "clock_trusted");
  log_->Write(LogLevel::kWarning, "clock_in_doubt",
              {{"next_step",
                "nothing expires and no new attempt is granted until the kernel's clock is "
                "synchronised; start with --trust_clock where it is right"}});
}

void Activity::OnClockMarkFailed(std::string_view why) {
  // Once: the next second would say the same.
  if (clock_mark_failed_.exchange(true)) return;
  log_->Write(LogLevel::kWarning, "clock_mark_failed", {{"error", why}});
}

}  // namespace idempotency::service
