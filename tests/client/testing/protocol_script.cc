#include "tests/client/testing/protocol_script.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

namespace idempotency::testing {
namespace {

using Words = std::vector<std::string>;

Words Split(const std::string& line) {
  std::istringstream in(line);
  Words words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

bool Has(const Words& words, const std::string& flag) {
  return std::find(words.begin(), words.end(), flag) != words.end();
}

std::optional<std::string> Find(const Words& words, const std::string& name) {
  for (const std::string& word : words) {
    if (word.starts_with(name + "=")) return word.substr(name.size() + 1);
  }
  return std::nullopt;
}

std::string Text(const Words& words, const std::string& name) {
  return Find(words, name).value_or("");
}

// 250ms, 30s, 5m, 24h, 30d, and negative ones.
Duration ToSpan(const std::string& text) {
  size_t digits = 0;
  const int64_t count = std::stoll(text, &digits);
  const std::string unit = text.substr(digits);
  if (unit == "ms") return Duration(count);
  if (unit == "s") return Duration(count * 1000);
  if (unit == "m") return Duration(count * 60'000);
  if (unit == "h") return Duration(count * 3'600'000);
  return Duration(count * 86'400'000);
}

std::optional<Duration> Span(const Words& words, const std::string& name) {
  const std::optional<std::string> text = Find(words, name);
  return text.has_value() ? std::optional(ToSpan(*text)) : std::nullopt;
}

std::string ToText(Duration span) {
  const int64_t ms = span.count();
  if (ms != 0 && ms % 86'400'000 == 0) return std::to_string(ms / 86'400'000) + "d";
  if (ms != 0 && ms % 3'600'000 == 0) return std::to_string(ms / 3'600'000) + "h";
  if (ms != 0 && ms % 60'000 == 0) return std::to_string(ms / 60'000) + "m";
  if (ms % 1000 == 0) return std::to_string(ms / 1000) + "s";
  return std::to_string(ms) + "ms";
}

std::string Retry(const std::optional<Duration>& retry_after) {
  return retry_after.has_value() ? " retry=" + ToText(*retry_after) : "";
}

std::string Show(const absl::Status& status) {
  const std::optional<Refusal> refusal = Refused(status);
  if (!refusal.has_value()) return "NOT REFUSED: " + status.ToString();
  std::string shown(Name(refusal->reason));
  shown += " " + std::string(absl::StatusCodeToString(status.code()));
  if (!refusal->field.empty()) shown += " field=" + refusal->field;
  return shown + Retry(refusal->retry_after);
}

std::optional<Fingerprint> FingerprintOf(const Words& words) {
  const std::optional<std::string> name = Find(words, "fp");
  if (!name.has_value()) return std::nullopt;
  return Fingerprint{.algorithm = Find(words, "algorithm").value_or("sha256/bytes-1"),
                     .digest = std::string(32, name->at(0))};
}

std::optional<CachedResponse> ResponseOf(const Words& words) {
  const std::optional<std::string> body = Find(words, "body");
  if (!body.has_value()) return std::nullopt;
  CachedResponse response{.status = CachedResponse::HttpStatus{200}, .body = *body};
  // A body of this many bytes.
  if (body->starts_with("*")) response.body = std::string(std::stoul(body->substr(1)), 'b');
  return response;
}

UnresolvedCause CauseOf(const std::string& name) {
  for (const UnresolvedCause cause :
       {UnresolvedCause::kTimeout, UnresolvedCause::kConnectionLost, UnresolvedCause::kServerError,
        UnresolvedCause::kOwnerCancelled, UnresolvedCause::kLeaseLapsed}) {
    if (Name(cause) == name) return cause;
  }
  return UnresolvedCause::kOther;
}

}  // namespace

// --- Namespaces ----------------------------------------------------------------------------------

NamespacePolicies ScriptPolicies() {
  NamespacePolicies policies;
  policies["plain"] = NamespacePolicy{};
  NamespacePolicy retry = NamespacePolicy::RetrySameKey(std::chrono::hours(1), 3);
  retry.initial_backoff = std::chrono::seconds(5);
  policies["retry"] = retry;
  policies["inbox"] = NamespacePolicy::WebhookInbox();
  policies["run"] = NamespacePolicy::ActiveRun();
  NamespacePolicy small;
  small.scope_optional = true;
  small.max_key_bytes = 8;
  small.max_response_bytes = 10;
  small.max_lease = std::chrono::seconds(60);
  small.max_hold = std::chrono::seconds(90);
  small.max_retention = std::chrono::hours(48);
  policies["small"] = small;
  return policies;
}

std::string ScriptConfig() {
  return R"(
namespaces:
  plain: {}
  retry:
    unknown_outcome: RETRY_SAME_KEY
    protection_window: 1h
    max_attempts: 3
    initial_backoff: 5s
  inbox:
    preset: WEBHOOK_INBOX
  run:
    preset: ACTIVE_RUN
  small:
    scope_optional: true
    max_key_bytes: 8
    max_response_bytes: 10
    max_lease_duration: 60s
    max_hold_duration: 90s
    max_retention: 48h
)";
}

// --- Running -------------------------------------------------------------------------------------

std::string ProtocolScript::Run(const std::string& text) {
  std::istringstream in(text);
  std::string out;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(">")) continue;
    out += line + "\n";
    if (line.starts_with("==")) {
      // A key of another story is another key: the story is the scope.
      story_ = line;
      tokens_.clear();
      start_.reset();
      passed_ = Duration(0);
    } else if (!line.empty() && !line.starts_with("#")) {
      const std::string answer = Execute(Split(line));
      if (!answer.empty()) out += "> " + answer + "\n";
    }
  }
  return out;
}

std::string ProtocolScript::Execute(const Words& words) {
  if (words[0] == "advance") {
    const Duration span = ToSpan(words.at(1));
    service_.advance(span);
    passed_ += span;
    return {};
  }
  const std::string& place = words.at(1);
  const size_t slash = place.find('/');
  OperationId id{.name_space = place.substr(0, slash),
                 .scope = Find(words, "scope").value_or(story_),
                 .key = place.substr(slash + 1)};
  if (words[0] == "reserve") return Reserve(id, words);
  if (words[0] == "renew") return Renew(id, words);
  if (words[0] == "complete") return Complete(id, words);
  if (words[0] == "release") return Release(id, words);
  if (words[0] == "mark") return Mark(id, words);
  if (words[0] == "get") return Get(id, words);
  if (words[0] == "resolve") return Resolve(id, words);
  if (words[0] == "list") return List(id, words);
  return "what is " + words[0] + "?";
}

std::string ProtocolScript::Reserve(const OperationId& id, const Words& words) {
  ReserveRequest request{
      .id = id,
      .fingerprint = FingerprintOf(words),
      .attempt_id = "attempt-of-the-script-" + Text(words, "id"),
      .lease_duration = Span(words, "lease"),
      .wait_duration = Span(words, "wait").value_or(Duration(0)),
      .owner = {.worker = Text(words, "owner"), .operation_ref = Text(words, "job")},
      .operation_age = Span(words, "age"),
      .dispatch_later = Has(words, "later"),
      .start_over = Has(words, "over")};
  if (Text(words, "id") == "short") request.attempt_id = "short";
  if (const auto label = Find(words, "label")) request.labels = {{"label", *label}};
  const auto response = service_.connection->Reserve(request, {});
  if (!response.ok()) return testing::Show(response.status());
  std::string shown(Name(response->outcome));
  shown += " " + std::string(Name(response->next_step)) + Retry(response->retry_after);
  if (response->operation.has_value()) SeeTime(*response->operation);
  if (response->lease.has_value()) shown += Show(*response->lease);
  if (response->operation.has_value()) shown += Show(*response->operation);
  return shown;
}

std::string ProtocolScript::Renew(const OperationId& id, const Words& words) {
  RenewRequest request{.id = id,
                       .fencing_token = TokenOf(words.at(2)),
                       .lease_duration = Span(words, "lease"),
                       .progress = Find(words, "progress"),
                       .dispatched = Has(words, "dispatched")};
  if (const auto owner = Find(words, "owner")) request.owner = Owner{.worker = *owner};
  const auto response = service_.connection->Renew(request, {});
  if (!response.ok()) return testing::Show(response.status());
  return "OK" + Show(response->lease);
}

std::string ProtocolScript::Complete(const OperationId& id, const Words& words) {
  CompleteRequest request{.id = id,
                          .fencing_token = TokenOf(words.at(2)),
                          .verdict = Has(words, "failed") ? Verdict::kFailed : Verdict::kSucceeded,
                          .response = ResponseOf(words),
                          .provider_request_id = Text(words, "ref"),
                          .retention = Span(words, "retention")};
  if (Has(words, "no_verdict")) request.verdict = Verdict::kUnspecified;
  const auto response = service_.connection->Complete(request, {});
  if (!response.ok()) return testing::Show(response.status());
  return (response->already_complete ? "OK again" : "OK") + Show(response->operation);
}

std::string ProtocolScript::Release(const OperationId& id, const Words& words) {
  const auto response = service_.connection->Release(
      {.id = id, .fencing_token = TokenOf(words.at(2)), .detail = Text(words, "detail")}, {});
  if (!response.ok()) return testing::Show(response.status());
  return "OK " + std::string(Name(response->state));
}

std::string ProtocolScript::Mark(const OperationId& id, const Words& words) {
  const MarkUnresolvedRequest request{.id = id,
                                      .fencing_token = TokenOf(words.at(2)),
                                      .cause = CauseOf(Text(words, "cause")),
                                      .provider_request_id = Text(words, "ref"),
                                      .retry_after = Span(words, "retry"),
                                      .reconcile_first = Has(words, "reconcile")};
  const auto response = service_.connection->MarkUnresolved(request, {});
  if (!response.ok()) return testing::Show(response.status());
  return "OK " + std::string(Name(response->next_step)) + Retry(response->retry_after) +
         Show(response->operation);
}

std::string ProtocolScript::Get(const OperationId& id, const Words& words) {
  const auto response =
      service_.connection->GetOperation({.id = id, .fingerprint = FingerprintOf(words)}, {});
  if (!response.ok()) return testing::Show(response.status());
  return "OK " + std::string(Name(response->next_step)) + Retry(response->retry_after) +
         Show(response->operation);
}

std::string ProtocolScript::Resolve(const OperationId& id, const Words& words) {
  const std::string& how = words.at(2);
  ResolveRequest request{.id = id,
                         .resolution = ResolveRequest::Resolution::kCompleted,
                         .response = ResponseOf(words),
                         .actor = Find(words, "actor").value_or("somebody"),
                         .reason = "the script says so",
                         .provider_request_id = Text(words, "ref")};
  if (how == "failed") request.verdict = Verdict::kFailed;
  if (how == "not_executed") request.resolution = ResolveRequest::Resolution::kNotExecuted;
  if (how == "abandoned") request.resolution = ResolveRequest::Resolution::kAbandoned;
  const std::vector<std::string>& seen = etags_[story_ + id.key];
  if (Text(words, "etag") == "seen") request.etag = seen.back();
  if (Text(words, "etag") == "stale") request.etag = seen.front();
  const auto response = service_.connection->Resolve(request, {});
  if (!response.ok()) return testing::Show(response.status());
  return "OK" + Show(*response);
}

// Page after page; where a page ends, and that there is none, is the connection's business.
std::string ProtocolScript::List(const OperationId& id, const Words& words) {
  ListOperationsRequest request{.name_space = id.name_space,
                                .scope = id.scope,
                                .key_prefix = id.key,
                                .operation_ref = Text(words, "job"),
                                .min_age = Span(words, "age").value_or(Duration(0)),
                                .page_size = 2};
  for (const OperationState state :
       {OperationState::kPending, OperationState::kComplete, OperationState::kUnresolved,
        OperationState::kExpired, OperationState::kFreed}) {
    if (Has(words, std::string(Name(state)))) request.states.push_back(state);
  }
  std::string shown = "OK";
  do {
    const auto page = service_.connection->ListOperations(request, {});
    if (!page.ok()) return testing::Show(page.status());
    for (const Operation& one : page->operations) shown += "\n> " + one.id.key + Show(one);
    request.page_token = page->next_page_token;
  } while (!request.page_token.empty());
  return shown;
}

// --- Showing -------------------------------------------------------------------------------------

uint64_t ProtocolScript::TokenOf(const std::string& name) const {
  if (name == "none") return 0;
  if (name == "huge") return (uint64_t{1} << 53) - 1;
  return tokens_.at(std::stoul(name.substr(1)) - 1);
}

std::string ProtocolScript::NameOf(uint64_t token) {
  const auto found = std::find(tokens_.begin(), tokens_.end(), token);
  if (found != tokens_.end()) return "t" + std::to_string(found - tokens_.begin() + 1);
  const bool rises = tokens_.empty() || token > tokens_.back();
  tokens_.push_back(token);
  return "t" + std::to_string(tokens_.size()) + (rises ? "" : " NOT RISING");
}

std::string ProtocolScript::Show(const Lease& lease) {
  std::string shown = " | lease " + NameOf(lease.fencing_token) + " attempt " +
                      std::to_string(lease.attempt) + " left " + ToText(lease.remaining) +
                      Show("end", lease.expire_time);
  if (lease.progress.has_value()) shown += " progress=" + *lease.progress;
  return shown;
}

std::string ProtocolScript::Show(const char* name, const std::optional<SystemTime>& time) {
  if (!time.has_value()) return {};
  const std::string since = start_.has_value() ? ToText(*time - *start_) : "?";
  return std::string(" ") + name + "=" + since;
}

// The first attempt of a story tells when it began.
void ProtocolScript::SeeTime(const Operation& operation) {
  if (!start_.has_value() && operation.create_time.has_value()) {
    start_ = *operation.create_time - passed_;
  }
}

std::string ProtocolScript::Show(const Operation& operation) {
  SeeTime(operation);
  if (!operation.etag.empty()) {
    std::vector<std::string>& seen = etags_[story_ + operation.id.key];
    if (seen.empty() || seen.back() != operation.etag) seen.push_back(operation.etag);
  }
  std::string shown = " | " + std::string(Name(operation.state));
  if (operation.attempt > 0) shown += " attempt " + std::to_string(operation.attempt);
  if (operation.dispatched) shown += " dispatched";
  if (!operation.fingerprint.digest.empty()) shown += " digest shown";
  if (!operation.owner.worker.empty()) shown += " owner=" + operation.owner.worker;
  for (const auto& [name, value] : operation.labels) shown += " " + name + "=" + value;
  if (operation.verdict != Verdict::kUnspecified) {
    shown += " " + std::string(Name(operation.verdict));
  }
  if (operation.unresolved_cause != UnresolvedCause::kUnspecified) {
    shown += " " + std::string(Name(operation.unresolved_cause));
  }
  if (!operation.provider_request_id.empty()) shown += " ref=" + operation.provider_request_id;
  if (operation.response.has_value()) {
    shown += " body=" + operation.response->body.value_or("none");
    if (operation.response->body_omitted) shown += " omitted";
    shown += " of " + std::to_string(operation.response->body_size);
  }
  shown += Show("create", operation.create_time) + Show("update", operation.update_time) +
           Show("lease_end", operation.lease_expire_time) +
           Show("complete", operation.complete_time) + Show("next", operation.next_attempt_time) +
           Show("protection", operation.protection_expire_time);
  return shown;
}

}  // namespace idempotency::testing
