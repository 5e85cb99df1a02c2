#include "tests/client/conformance/scenario.h"

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include "client/src/convert.h"
#include "client/src/status.h"
#include "gtest/gtest.h"
#include "idempotency/keys.h"
#include "idempotency/policies.h"
#include "tests/client/conformance/trace.h"

namespace idempotency::testing {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

// Long enough for a busy machine; nothing waits that long unless something is wrong.
const CallOptions kPatiently{.timeout = 60s};
constexpr int kMaxAwaitCalls = 100'000;

// What an effect throws where its step says so.
class Thrown : public std::runtime_error {
 public:
  Thrown() : std::runtime_error("as the script says") {}
};

Json Failed(const absl::Status& error) { return {{"error", ShowError(error)}}; }

template <typename Response>
Json ShowNext(const absl::StatusOr<Response>& response) {
  if (!response.ok()) return Failed(response.status());
  return {{"operation", ShowOperation(response->operation)},
          {"next_step", ShowName(response->next_step)},
          {"retry_after", response->retry_after.has_value()}};
}

RunOptions OptionsOf(const Json& step) {
  RunOptions options{
      .classify = ClassifierOf(step),
      .reconciler = TextOf(step, "reconciler"),
      .renew = FlagOf(step, "renew", true),
      .retry = RetryPolicy::UpTo(SpanOr(step, "retry_total_ms", 10'000)),
      .settle_retry = RetryPolicy::UpTo(SpanOr(step, "settle_total_ms", 10'000)),
      .backoff = BackoffPolicy{.initial = 1ms, .maximum = 10ms},
      .allow_unprotected = FlagOf(step, "allow_unprotected"),
  };
  return options;
}

}  // namespace

Scenario::Scenario(const Served& served, size_t number, const Json& data, Emit emit)
    : served_(served), number_(number), data_(data), emit_(std::move(emit)) {}

void Scenario::Play() {
  const Json& steps = data_.at("steps");
  for (size_t number = 0; number < steps.size(); ++number) {
    const Json& step = steps.at(number);
    if (step.at("do") == "join") {
      Background& begun = background_.at(step.at("background"));
      EmitLine(begun.number, *begun.step, begun.seen.get());
    } else if (step.contains("background")) {
      background_[step.at("background")] =
          Background{.number = number,
                     .step = &step,
                     .seen = std::async(std::launch::async,
                                        [&step, number, this] { return Do(number, step); })};
    } else {
      EmitLine(number, step, Do(number, step));
    }
  }
}

void Scenario::EmitLine(size_t number, const Json& step, Json seen) {
  for (const char* name : {"lease", "attempt"}) {
    if (seen.contains(name)) NumberToken(&seen[name]);
  }
  seen["scenario"] = data_.at("name");
  seen["step"] = number;
  seen["do"] = step.at("do");
  emit_(std::move(seen));
}

void Scenario::NumberToken(Json* shown) {
  if (!shown->is_object() || !shown->at("token").is_number()) return;
  const uint64_t token = shown->at("token");
  auto found = std::find(shown_tokens_.begin(), shown_tokens_.end(), token);
  if (found == shown_tokens_.end()) found = shown_tokens_.insert(found, token);
  (*shown)["token"] = found - shown_tokens_.begin() + 1;
}

Json Scenario::Do(size_t number, const Json& step) {
  const std::string what = step.at("do");
  if (what == "reserve") return Reserve(step);
  if (what == "renew") return Renew(step);
  if (what == "complete") return Complete(step);
  if (what == "release") return Release(step);
  if (what == "mark_unresolved") return MarkUnresolved(step);
  if (what == "get") return Get(step);
  if (what == "resolve") return Resolve(step);
  if (what == "list") return List(step);
  if (what == "batch") return Batch(step);
  if (what == "await") return Await(step);
  return Run(number, step);
}

// --- What steps name -----------------------------------------------------------------------------

OperationId Scenario::IdOf(const Json& step) const {
  std::string key = TextOf(step, "key", data_.at("name"));
  // Scenarios share a server, unless they have one of their own.
  if (!key.empty() && !data_.contains("server")) key += "/" + std::to_string(number_);
  return {TextOf(step, "namespace", TextOf(data_, "namespace", "careful")),
          TextOf(step, "scope", "acct_1"), key};
}

const std::shared_ptr<Connection>& Scenario::ConnectionOf(const Json& step) const {
  return served_.ConnectionOf(TextOf(step, "by", "all"));
}

uint64_t Scenario::TokenOf(const Json& step) {
  if (!step.contains("lease")) return step.at("token");
  absl::MutexLock lock(&mutex_);
  return leases_.at(step.at("lease"));
}

void Scenario::Save(const std::string& name, uint64_t token) {
  absl::MutexLock lock(&mutex_);
  leases_[name] = token;
}

std::string Scenario::AttemptOf(const Json& step) {
  if (step.contains("attempt_id")) return step.at("attempt_id");
  absl::MutexLock lock(&mutex_);
  std::string& id = attempts_[step.at("attempt")];
  if (id.empty()) id = RandomKey();
  return id;
}

// --- Single calls --------------------------------------------------------------------------------

ReserveRequest Scenario::ReserveOf(const Json& step) {
  ReserveRequest request{.id = IdOf(step),
                         .fingerprint = FingerprintOf(step),
                         .attempt_id = AttemptOf(step),
                         .lease_duration = SpanOf(step, "lease_ms"),
                         .wait_duration = SpanOr(step, "wait_ms", 0),
                         .owner = {.operation_ref = TextOf(step, "operation_ref")},
                         .operation_age = SpanOf(step, "operation_age_ms"),
                         .dispatch_later = FlagOf(step, "dispatch_later"),
                         .start_over = FlagOf(step, "start_over")};
  const Json labels = step.value("labels", Json::object());
  for (const auto& [name, value] : labels.items()) {
    request.labels.emplace_back(name, value.get<std::string>());
  }
  return request;
}

Json Scenario::Reserve(const Json& step) {
  const auto response = ConnectionOf(step)->Reserve(ReserveOf(step), kPatiently);
  if (!response.ok()) return Failed(response.status());
  if (step.contains("save") && response->lease.has_value()) {
    Save(step.at("save"), response->lease->fencing_token);
  }
  return {{"outcome", ShowName(response->outcome)},
          {"next_step", ShowName(response->next_step)},
          {"retry_after", response->retry_after.has_value()},
          {"lease", ShowLease(step, response->lease)},
          {"operation", ShowOperation(response->operation)}};
}

Json Scenario::Renew(const Json& step) {
  RenewRequest request{.id = IdOf(step),
                       .fencing_token = TokenOf(step),
                       .lease_duration = SpanOf(step, "lease_ms"),
                       .dispatched = FlagOf(step, "dispatched")};
  if (step.contains("progress_hex")) request.progress = FromHex(step.at("progress_hex"));
  const auto response = ConnectionOf(step)->Renew(request, kPatiently);
  if (!response.ok()) return Failed(response.status());
  return {{"lease", ShowLease(step, response->lease)}};
}

Json Scenario::Complete(const Json& step) {
  const auto response = ConnectionOf(step)->Complete(
      CompleteRequest{.id = IdOf(step),
                      .fencing_token = TokenOf(step),
                      .verdict = VerdictOf(step),
                      .response = ResponseOf(step, "response"),
                      .provider_request_id = TextOf(step, "provider_request_id")},
      kPatiently);
  if (!response.ok()) return Failed(response.status());
  return {{"operation", ShowOperation(response->operation)},
          {"already_complete", response->already_complete}};
}

Json Scenario::Release(const Json& step) {
  const auto response = ConnectionOf(step)->Release(
      {.id = IdOf(step), .fencing_token = TokenOf(step), .detail = TextOf(step, "detail")},
      kPatiently);
  if (!response.ok()) return Failed(response.status());
  return {{"state", ShowName(response->state)}};
}

Json Scenario::MarkUnresolved(const Json& step) {
  return ShowNext(ConnectionOf(step)->MarkUnresolved(
      MarkUnresolvedRequest{.id = IdOf(step),
                            .fencing_token = TokenOf(step),
                            .cause = CauseOf(step.at("cause")),
                            .detail = TextOf(step, "detail"),
                            .provider_request_id = TextOf(step, "provider_request_id"),
                            .retry_after = SpanOf(step, "retry_after_ms"),
                            .reconcile_first = FlagOf(step, "reconcile_first")},
      kPatiently));
}

Json Scenario::Get(const Json& step) {
  return ShowNext(ConnectionOf(step)->GetOperation({.id = IdOf(step),
                                                    .wait_duration = SpanOr(step, "wait_ms", 0),
                                                    .fingerprint = FingerprintOf(step)},
                                                   kPatiently));
}

Json Scenario::Resolve(const Json& step) {
  const std::string resolution = step.at("resolution");
  const auto resolved = ConnectionOf(step)->Resolve(
      ResolveRequest{
          .id = IdOf(step),
          .resolution = resolution == "completed"      ? ResolveRequest::Resolution::kCompleted
                        : resolution == "not_executed" ? ResolveRequest::Resolution::kNotExecuted
                                                       : ResolveRequest::Resolution::kAbandoned,
          .verdict = VerdictOf(step),
          .response = ResponseOf(step, "response"),
          .actor = TextOf(step, "actor"),
          .reason = TextOf(step, "reason"),
          .provider_request_id = TextOf(step, "provider_request_id"),
          .etag = TextOf(step, "etag")},
      kPatiently);
  if (!resolved.ok()) return Failed(resolved.status());
  return {{"operation", ShowOperation(*resolved)}};
}

Json Scenario::List(const Json& step) {
  const OperationId id = IdOf(step);
  ListOperationsRequest request{.name_space = id.name_space, .key_prefix = id.key};
  for (const Json& state : step.value("states", Json::array())) {
    request.states.push_back(StateOf(state));
  }
  auto listed = ConnectionOf(step)->ListOperations(request, kPatiently);
  if (!listed.ok()) return Failed(listed.status());
  std::sort(listed->operations.begin(), listed->operations.end(),
            [](const Operation& a, const Operation& b) { return a.id.key < b.id.key; });
  Json operations = Json::array();
  for (const Operation& operation : listed->operations) {
    operations.push_back(ShowOperation(operation));
  }
  return {{"operations", std::move(operations)}};
}

Json Scenario::Batch(const Json& step) {
  v1::BatchRequest request;
  for (const Json& command : step.at("commands")) {
    *request.add_commands()->mutable_reserve() = internal::ToProto(ReserveOf(command));
  }
  Json results = Json::array();
  const v1::BatchResponse batched = served_.Batch(TextOf(step, "by", "all"), request);
  for (const v1::Result& result : batched.results()) {
    if (result.has_error()) {
      results.push_back(Failed(internal::ToStatus(result.error())));
    } else {
      const ReserveResponse response = internal::FromProto(result.reserve());
      results.push_back(
          {{"outcome", ShowName(response.outcome)}, {"next_step", ShowName(response.next_step)}});
    }
  }
  return {{"results", std::move(results)}};
}

Json Scenario::Await(const Json& step) {
  // GetOperation itself waits while an operation is pending.
  const GetOperationRequest request{.id = IdOf(step), .wait_duration = 100ms};
  for (int left = kMaxAwaitCalls; left > 0; --left) {
    const auto response = ConnectionOf(step)->GetOperation(request, kPatiently);
    if (response.ok() && response->operation.state == StateOf(step.at("state"))) {
      return {{"state", step.at("state")}};
    }
  }
  ADD_FAILURE() << data_.at("name") << ": never " << step.at("state");
  return {};
}

// --- Runs ----------------------------------------------------------------------------------------

RunRequest Scenario::RequestOf(const Json& step) const {
  RunRequest request{.id = IdOf(step),
                     .fingerprint = FingerprintOf(step),
                     .lease_duration = SpanOf(step, "lease_ms"),
                     .wait = SpanOr(step, "wait_ms", 20'000),
                     .call_timeout = SpanOf(step, "call_timeout_ms"),
                     .dispatch_later = FlagOf(step, "dispatch_later"),
                     .start_over = FlagOf(step, "start_over")};
  if (const auto age = SpanOf(step, "operation_age_ms")) {
    request.first_sent = SystemEnvironment()->WallNow() - *age;
  }
  return request;
}

EffectResult Scenario::Effect(size_t number, const Json& effect, Attempt& attempt) {
  if (effect.contains("save_progress_hex")) {
    EXPECT_TRUE(attempt.SaveProgress(FromHex(effect.at("save_progress_hex"))).ok());
  }
  const Json during = effect.value("during", Json::array());
  for (const Json& step : during) EmitLine(number, step, Do(number, step));
  if (FlagOf(effect, "dispatch")) {
    if (const absl::Status told = attempt.Dispatch(); !told.ok()) return EffectResult::Failed(told);
  }
  if (FlagOf(effect, "throw")) std::rethrow_exception(std::make_exception_ptr(Thrown()));
  return EffectOf(effect);
}

Json Scenario::Run(size_t number, const Json& step) {
  const auto connection =
      std::make_shared<FaultyConnection>(ConnectionOf(step), step.value("faults", Json::array()));
  Json seen = {{"called", 0}, {"looked_up", 0}, {"attempt", nullptr}, {"result", nullptr}};
  RunOptions options = OptionsOf(step);
  if (step.contains("look_up")) {
    options.look_up = [&](const Operation&) {
      seen["looked_up"] = seen["looked_up"].get<int>() + 1;
      return LookUpOf(step.at("look_up"));
    };
  }
  const EffectFunction effect = [&](Attempt& attempt) {
    const uint64_t token = attempt.fencing_token();
    seen["called"] = seen["called"].get<int>() + 1;
    seen["attempt"] = {{"number", attempt.number()},
                       {"token", token == 0 ? Json() : Json(token)},
                       {"provider_key", attempt.provider_key()},
                       {"progress_hex", ShowHex(attempt.progress())}};
    Save("run", token);
    return Effect(number, step.at("effect"), attempt);
  };
  bool raised = false;
  try {
    seen["result"] = ShowResult(Client(connection).Run(RequestOf(step), effect, options));
  } catch (const Thrown&) {
    raised = true;
  }
  seen["raised"] = raised;
  seen["calls"] = connection->calls();
  return seen;
}

}  // namespace idempotency::testing
