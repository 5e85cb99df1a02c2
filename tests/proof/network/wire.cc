#include "tests/proof/network/wire.h"

#include <chrono>
#include <string_view>
#include <utility>

#include "keystore/core/names.h"
#include "keystore/core/outcome.h"
#include "keystore/core/record.h"
#include "tests/keystore/core/core_text.h"

namespace idempotency::proof::network {
namespace {

// What a message says first tells what it is about; what follows differs from call to call.
constexpr size_t kMaxWhy = 60;

using core::Duration;
using core::Time;

Duration ToSpan(const google::protobuf::Duration& span) {
  return std::chrono::seconds(span.seconds()) + Duration{span.nanos() / 1'000'000};
}

Time ToTime(const google::protobuf::Timestamp& time) {
  return Time{std::chrono::seconds(time.seconds()) + Duration{time.nanos() / 1'000'000}};
}

core::Fingerprint ToFingerprint(const v1::Fingerprint& fingerprint) {
  return {fingerprint.algorithm(), fingerprint.digest()};
}

core::Response ToResponse(bool present, const v1::CachedResponse& response) {
  return present ? core::Response{.bytes = core::Blob(response.body())} : core::Response{};
}

template <typename Enum>
std::string NameOf(int number) {
  return std::string(core::Name(static_cast<Enum>(number)));
}

// Words, with a space between them.
class Line {
 public:
  Line& Word(std::string_view word) {
    if (!word.empty() && !text_.empty()) text_ += ' ';
    text_ += word;
    return *this;
  }
  Line& Field(std::string_view name, std::string_view value) {
    return Word(std::string(name) + "=" + std::string(value));
  }
  std::string str() const { return text_; }

 private:
  std::string text_;
};

// --- Requests
// -------------------------------------------------------------------------------------

core::Command Model(const v1::ReserveRequest& r) {
  core::ReserveCommand c;
  c.fingerprint = ToFingerprint(r.fingerprint());
  c.attempt_id = core::DigestOf(r.attempt_id());
  c.lease = ModelSpan(ToSpan(r.lease_duration()));
  c.owner.worker = r.owner().worker();
  if (r.has_operation_age()) c.operation_age = ToSpan(r.operation_age());
  c.dispatch_later = r.dispatch_later();
  c.start_over = r.start_over();
  return c;
}

core::Command Model(const v1::RenewRequest& r) {
  core::RenewCommand c;
  c.token = r.fencing_token();
  c.lease = ModelSpan(ToSpan(r.lease_duration()));
  if (r.has_progress()) c.progress = r.progress();
  c.dispatched = r.dispatched();
  return c;
}

core::Command Model(const v1::CompleteRequest& r) {
  core::CompleteCommand c;
  c.token = r.fencing_token();
  c.verdict = static_cast<core::Verdict>(r.verdict());
  c.response = ToResponse(r.has_response(), r.response());
  c.provider_request_id = r.provider_request_id();
  if (r.has_retention()) c.retention = ModelSpan(ToSpan(r.retention()));
  c.content = ContentOf(c);
  return c;
}

core::Command Model(const v1::ReleaseRequest& r) {
  core::ReleaseCommand c;
  c.token = r.fencing_token();
  c.detail = r.detail();
  // All that it says is that nothing happened.
  c.content = core::DigestOf("release");
  return c;
}

core::Command Model(const v1::MarkUnresolvedRequest& r) {
  core::MarkUnresolvedCommand c;
  c.token = r.fencing_token();
  c.cause = static_cast<core::UnresolvedCause>(r.cause());
  c.detail = r.detail();
  c.provider_request_id = r.provider_request_id();
  if (r.has_retry_after()) c.retry_after = ToSpan(r.retry_after());
  c.reconcile_first = r.reconcile_first();
  c.content = ContentOf(c);
  return c;
}

core::Command Model(const v1::GetOperationRequest& r) {
  return core::GetCommand{ToFingerprint(r.fingerprint())};
}
core::Command Model(const v1::InspectOperationRequest&) { return core::InspectCommand{}; }

core::Command Model(const v1::ResolveOperationRequest& r) {
  core::ResolveCommand c;
  c.resolution = core::Resolution::kAbandoned;
  if (r.has_not_executed()) c.resolution = core::Resolution::kNotExecuted;
  if (r.has_completed()) {
    c.resolution = core::Resolution::kCompleted;
    c.verdict = static_cast<core::Verdict>(r.completed().verdict());
    c.response = ToResponse(r.completed().has_response(), r.completed().response());
  }
  c.actor = r.actor();
  c.reason = r.reason();
  c.provider_request_id = r.provider_request_id();
  c.content = ContentOf(c);
  return c;
}

core::Command Model(const v1::DeleteOperationRequest& r) {
  core::DeleteCommand c;
  c.force = r.force();
  c.actor = r.actor();
  c.reason = r.reason();
  return c;
}

v1::ReserveRequest* In(v1::Command& c, const v1::ReserveRequest&) { return c.mutable_reserve(); }
v1::RenewRequest* In(v1::Command& c, const v1::RenewRequest&) { return c.mutable_renew(); }
v1::CompleteRequest* In(v1::Command& c, const v1::CompleteRequest&) { return c.mutable_complete(); }
v1::ReleaseRequest* In(v1::Command& c, const v1::ReleaseRequest&) { return c.mutable_release(); }
v1::MarkUnresolvedRequest* In(v1::Command& c, const v1::MarkUnresolvedRequest&) {
  return c.mutable_mark_unresolved();
}
v1::GetOperationRequest* In(v1::Command& c, const v1::GetOperationRequest&) {
  return c.mutable_get_operation();
}
template <typename Admin>
Admin* In(v1::Command&, const Admin&) {
  return nullptr;
}

// --- Answers
// ----------------------------------------------------------------------------------------

void AddLease(const v1::Lease& lease, Line& line, Told& told) {
  told.token = lease.fencing_token();
  line.Field("token", std::to_string(lease.fencing_token()));
  line.Field("attempt", std::to_string(lease.attempt()));
  if (lease.has_progress()) line.Field("progress", lease.progress());
}

// What the answers of a verb show of how it ended: none where it has not.
void AddEnding(const v1::Operation& operation, Line& line) {
  if (operation.verdict() == v1::VERDICT_UNSPECIFIED) return;
  line.Word(NameOf<core::Verdict>(operation.verdict()));
  if (operation.response().has_body()) line.Field("body", "'" + operation.response().body() + "'");
}

std::string HistoryOf(const v1::Operation& operation) {
  Line line;
  for (const v1::Event& event : operation.history()) {
    std::string text = NameOf<core::EventKind>(event.kind());
    text += "#" + std::to_string(event.attempt());
    if (!event.actor().empty()) text += "/" + event.actor();
    if (!event.detail().empty()) text += "/'" + event.detail() + "'";
    if (!event.provider_request_id().empty()) text += "/" + event.provider_request_id();
    line.Word(text);
  }
  return line.str();
}

void AddShown(const v1::Operation& operation, uint64_t newest_token, Told& told) {
  Line line;
  if (newest_token != 0) line.Field("token", std::to_string(newest_token));
  line.Field("attempt", std::to_string(operation.attempt()));
  if (operation.unresolved_cause() != v1::UNRESOLVED_CAUSE_UNSPECIFIED) {
    line.Field("cause", NameOf<core::UnresolvedCause>(operation.unresolved_cause()));
  }
  if (operation.dispatched()) line.Word("dispatched");
  if (!operation.provider_request_id().empty()) {
    line.Field("pid", operation.provider_request_id());
  }
  told.shown = line.str();
  if (newest_token != 0) told.token = newest_token;
  if (operation.has_update_time()) told.not_before = ToTime(operation.update_time());
  if (operation.has_lease_expire_time()) told.lease_end = ToTime(operation.lease_expire_time());
  if (operation.has_response_expire_time()) {
    told.answer_end = ToTime(operation.response_expire_time());
  }
}

std::string StateOf(const v1::Operation& operation) {
  return NameOf<core::State>(operation.state());
}

Outcome HearReason(std::string_view reason) {
  Outcome outcome;
  // Without effect, for want of room or time; anything may be asked again.
  for (const core::Reason refused :
       {core::Reason::kOverloaded, core::Reason::kStoreFull, core::Reason::kQuotaExceeded}) {
    if (reason == core::Name(refused)) outcome.ended = Ended::kNoEffect;
  }
  outcome.why = std::string(reason);
  if (outcome.ended == Ended::kNoEffect) return outcome;
  if (reason == core::Name(core::Reason::kStoreUnavailable)) return outcome;
  outcome.ended = Ended::kAnswered;
  outcome.told.answer = "error " + std::string(reason);
  return outcome;
}

Outcome HearWithoutReason(int code, const std::string& message) {
  const std::string why = "code " + std::to_string(code) + ": " + message.substr(0, kMaxWhy);
  switch (static_cast<grpc::StatusCode>(code)) {
    // What a connection that ended leaves behind, or a call that was given up.
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::UNKNOWN:
      return {.why = why};
    default:
      return {.wrong = "a call ended with code " + std::to_string(code) + ": " + message};
  }
}

}  // namespace

core::Command ToModel(const Request& request) {
  return std::visit([](const auto& one) { return Model(one); }, request);
}

core::Duration SpanOf(const Request& request) {
  if (const auto* r = std::get_if<v1::ReserveRequest>(&request)) return ToSpan(r->lease_duration());
  if (const auto* r = std::get_if<v1::RenewRequest>(&request)) return ToSpan(r->lease_duration());
  if (const auto* r = std::get_if<v1::CompleteRequest>(&request)) return ToSpan(r->retention());
  return Duration{0};
}

bool Waits(const Request& request) {
  if (const auto* r = std::get_if<v1::ReserveRequest>(&request)) return r->has_wait_duration();
  if (const auto* r = std::get_if<v1::GetOperationRequest>(&request)) return r->has_wait_duration();
  return false;
}

v1::Command ToCommand(const Request& request, uint64_t tag) {
  v1::Command command;
  command.set_tag(tag);
  std::visit(
      [&command](const auto& one) {
        auto* const place = In(command, one);
        if (place != nullptr) *place = one;
      },
      request);
  return command;
}

Told Tell(const v1::ReserveResponse& response) {
  Told told;
  Line line;
  line.Word(NameOf<core::ReserveOutcome>(response.outcome()));
  line.Word(NameOf<core::NextStep>(response.next_step()));
  if (response.has_lease()) AddLease(response.lease(), line, told);
  const v1::Operation& operation = response.operation();
  switch (response.outcome()) {
    case v1::RESERVE_OUTCOME_COMPLETED:
    case v1::RESERVE_OUTCOME_EXPIRED:
      AddEnding(operation, line);
      break;
    case v1::RESERVE_OUTCOME_UNRESOLVED:
      line.Field("cause", NameOf<core::UnresolvedCause>(operation.unresolved_cause()));
      break;
    case v1::RESERVE_OUTCOME_FINGERPRINT_MISMATCH:
      line.Field("state", StateOf(operation));
      break;
    default:
      break;
  }
  // A mismatch shows nothing of what it met.
  if (response.outcome() != v1::RESERVE_OUTCOME_FINGERPRINT_MISMATCH && response.has_operation()) {
    AddShown(operation, 0, told);
  }
  told.answer = line.str();
  told.not_after = ToTime(response.server_time());
  return told;
}

Told Tell(const v1::RenewResponse& response) {
  Told told;
  Line line;
  line.Word("renewed");
  AddLease(response.lease(), line, told);
  told.answer = line.str();
  told.lease_end = ToTime(response.lease().expire_time());
  told.not_after = ToTime(response.server_time());
  return told;
}

Told Tell(const v1::CompleteResponse& response) {
  Told told;
  Line line;
  if (response.already_complete()) line.Word("already");
  line.Word(StateOf(response.operation()));
  AddEnding(response.operation(), line);
  AddShown(response.operation(), 0, told);
  told.answer = line.str();
  return told;
}

Told Tell(const v1::ReleaseResponse& response) {
  Told told;
  told.answer = NameOf<core::State>(response.state());
  return told;
}

Told Tell(const v1::MarkUnresolvedResponse& response) {
  Told told;
  Line line;
  line.Word(StateOf(response.operation()));
  line.Word(NameOf<core::NextStep>(response.next_step()));
  AddShown(response.operation(), 0, told);
  told.answer = line.str();
  return told;
}

Told Tell(const v1::GetOperationResponse& response) {
  Told told;
  Line line;
  line.Word(StateOf(response.operation()));
  line.Word(NameOf<core::NextStep>(response.next_step()));
  AddEnding(response.operation(), line);
  AddShown(response.operation(), 0, told);
  told.answer = line.str();
  told.history = HistoryOf(response.operation());
  told.not_after = ToTime(response.server_time());
  return told;
}

Told Tell(const v1::InspectOperationResponse& response) {
  Told told;
  Line line;
  line.Word(StateOf(response.operation()));
  line.Word(NameOf<core::NextStep>(response.next_step()));
  AddEnding(response.operation(), line);
  AddShown(response.operation(), response.fencing_token(), told);
  told.answer = line.str();
  told.history = HistoryOf(response.operation());
  told.not_after = ToTime(response.server_time());
  return told;
}

Told Tell(const v1::ResolveOperationResponse& response) {
  Told told;
  Line line;
  line.Word(StateOf(response.operation()));
  AddEnding(response.operation(), line);
  AddShown(response.operation(), 0, told);
  told.answer = line.str();
  return told;
}

Told Tell(const v1::DeleteOperationResponse&) {
  Told told;
  told.answer = "deleted";
  return told;
}

Outcome Hear(const v1::Result& result) {
  const auto answered = [](Told told) { return Outcome{Ended::kAnswered, std::move(told), ""}; };
  switch (result.result_case()) {
    case v1::Result::kReserve:
      return answered(Tell(result.reserve()));
    case v1::Result::kRenew:
      return answered(Tell(result.renew()));
    case v1::Result::kComplete:
      return answered(Tell(result.complete()));
    case v1::Result::kRelease:
      return answered(Tell(result.release()));
    case v1::Result::kMarkUnresolved:
      return answered(Tell(result.mark_unresolved()));
    case v1::Result::kGetOperation:
      return answered(Tell(result.get_operation()));
    case v1::Result::kError:
      break;
    case v1::Result::RESULT_NOT_SET:
      return {.wrong = "a result without a result"};
  }
  const v1::Error& error = result.error();
  if (error.reason() == v1::ERROR_REASON_UNSPECIFIED) {
    return HearWithoutReason(error.code(), error.message());
  }
  return HearReason(core::Name(static_cast<core::Reason>(error.reason())));
}

Outcome HearFailure(const grpc::Status& status, const grpc::ClientContext& context) {
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto reason = trailers.find("idempotency-reason");
  if (reason == trailers.end()) {
    return HearWithoutReason(status.error_code(), status.error_message());
  }
  return HearReason(std::string_view(reason->second.data(), reason->second.size()));
}

}  // namespace idempotency::proof::network
