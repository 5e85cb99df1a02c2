#include "tests/keystore/core/core_text.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>

#include "keystore/core/names.h"

namespace idempotency::core {
namespace {

constexpr std::array<std::pair<std::string_view, int64_t>, 5> kUnits{
    {{"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1'000}, {"ms", 1}}};

std::optional<int64_t> UnitMs(std::string_view unit) {
  for (const auto& [name, span_ms] : kUnits) {
    if (unit == name) return span_ms;
  }
  return std::nullopt;
}

// Appends " name=value".
class Line {
 public:
  explicit Line(std::string_view first) : text_(first) {}
  Line& Word(std::string_view word) {
    if (word.empty()) return *this;
    if (!text_.empty()) text_ += ' ';
    text_ += word;
    return *this;
  }
  Line& Flag(std::string_view word, bool set) { return set ? Word(word) : *this; }
  Line& Field(std::string_view name, std::string_view value) {
    return Word(std::string(name) + "=" + std::string(value));
  }
  Line& Given(std::string_view name, std::string_view value) {
    return value.empty() ? *this : Field(name, value);
  }
  Line& Span(std::string_view name, const std::optional<Duration>& span) {
    return span.has_value() ? Field(name, Text(*span)) : *this;
  }
  Line& Moment(std::string_view name, Time time) {
    return IsSet(time) ? Field(name, Text(time)) : *this;
  }
  std::string str() const { return text_; }

 private:
  std::string text_;
};

uint64_t Fnv(std::string_view text, uint64_t hash) {
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1'099'511'628'211u;
  }
  return hash;
}

std::string ResponseText(const Response& response) {
  if (response.body_omitted) return "omitted";
  return response.bytes.present() ? "'" + std::string(response.bytes.view()) + "'" : "none";
}

void AddLease(Line& line, const Lease& lease) {
  line.Field("token", std::to_string(lease.token)).Field("attempt", std::to_string(lease.attempt));
  line.Moment("until", lease.expire_time);
  if (lease.progress.has_value()) line.Field("progress", *lease.progress);
}

std::string TextOf(const Refusal& refusal) {
  return Line("error")
      .Word(Name(refusal.reason))
      .Given("field", refusal.field)
      .Span("retry", refusal.retry_after)
      .Flag("late_completion", refusal.late_completion)
      .str();
}

void AddEnding(Line& line, const Record& record, bool reveal) {
  if (record.verdict == Verdict::kNone) return;
  line.Word(Name(record.verdict));
  if (record.state != State::kComplete) return;
  line.Field("body", reveal ? ResponseText(record.response) : "hidden");
}

std::string TextOf(const ReserveAnswer& answer) {
  Line line(Name(answer.outcome));
  line.Word(Name(answer.next_step));
  if (answer.lease.has_value()) AddLease(line, *answer.lease);
  line.Span("retry", answer.retry_after);
  if (answer.operation == nullptr) return line.str();
  switch (answer.outcome) {
    case ReserveOutcome::kCompleted:
    case ReserveOutcome::kExpired:
      AddEnding(line, *answer.operation, answer.reveal);
      break;
    case ReserveOutcome::kUnresolved:
      line.Field("cause", Name(answer.operation->unknown->cause));
      break;
    case ReserveOutcome::kFingerprintMismatch:
      line.Field("state", Name(answer.operation->state));
      break;
    case ReserveOutcome::kAcquired:
    case ReserveOutcome::kAlreadyHeld:
    case ReserveOutcome::kInProgress:
    case ReserveOutcome::kTooOld:
      break;
  }
  return line.str();
}

std::string TextOf(const RenewAnswer& answer) {
  Line line("renewed");
  AddLease(line, answer.lease);
  return line.str();
}

std::string TextOf(const CompleteAnswer& answer) {
  Line line(answer.already_complete ? "already" : "");
  line.Word(Name(answer.operation->state));
  if (answer.operation->verdict != Verdict::kNone) line.Word(Name(answer.operation->verdict));
  return line.str();
}

std::string TextOf(const ReleaseAnswer& answer) { return std::string(Name(answer.state)); }

std::string TextOf(const MarkUnresolvedAnswer& answer) {
  return Line(Name(answer.operation->state))
      .Word(Name(answer.next_step))
      .Span("retry", answer.retry_after)
      .str();
}

std::string TextOf(const GetAnswer& answer) {
  Line line(Name(answer.operation->state));
  line.Word(Name(answer.next_step)).Span("retry", answer.retry_after);
  AddEnding(line, *answer.operation, answer.reveal);
  return line.str();
}

std::string TextOf(const InspectAnswer& answer) {
  Line line(Name(answer.operation->state));
  line.Word(Name(answer.next_step)).Span("retry", answer.retry_after);
  AddEnding(line, *answer.operation, true);
  return line.str();
}

std::string TextOf(const ResolveAnswer& answer) {
  Line line(Name(answer.operation->state));
  AddEnding(line, *answer.operation, true);
  return line.str();
}

std::string TextOf(const DeleteAnswer&) { return "deleted"; }
std::string TextOf(const ReclaimAnswer&) { return "reclaimed"; }

std::string TextOf(const ReserveCommand& c) {
  Line line("reserve");
  line.Field("id", std::to_string(c.attempt_id.low)).Field("fp", Text(c.fingerprint));
  line.Field("lease", Text(c.lease)).Span("age", c.operation_age);
  line.Flag("dispatch_later", c.dispatch_later).Flag("start_over", c.start_over);
  if (c.refuse_new != Reason::kNone) line.Field("refuse", Name(c.refuse_new));
  return line.str();
}
std::string TextOf(const RenewCommand& c) {
  Line line("renew");
  line.Field("token", std::to_string(c.token)).Field("lease", Text(c.lease));
  return line.Flag("dispatched", c.dispatched).Given("progress", c.progress.value_or("")).str();
}
std::string TextOf(const CompleteCommand& c) {
  Line line("complete");
  line.Field("token", std::to_string(c.token)).Word(Name(c.verdict));
  line.Field("body", ResponseText(c.response)).Given("pid", c.provider_request_id);
  return line.Span("retention", c.retention).str();
}
std::string TextOf(const ReleaseCommand& c) {
  return Line("release").Field("token", std::to_string(c.token)).Given("detail", c.detail).str();
}
std::string TextOf(const MarkUnresolvedCommand& c) {
  Line line("mark");
  line.Field("token", std::to_string(c.token)).Field("cause", Name(c.cause));
  line.Given("pid", c.provider_request_id).Field("retry_after", Text(c.retry_after));
  return line.Flag("reconcile_first", c.reconcile_first).str();
}
std::string TextOf(const GetCommand& c) {
  return Line("get").Field("fp", Text(c.fingerprint)).str();
}
std::string TextOf(const InspectCommand&) { return "inspect"; }
std::string TextOf(const ResolveCommand& c) {
  Line line("resolve");
  line.Word(Name(c.resolution)).Word(Name(c.verdict)).Field("body", ResponseText(c.response));
  return line.Given("etag", c.etag).str();
}
std::string TextOf(const DeleteCommand& c) {
  return Line("delete").Flag("force", c.force).Given("etag", c.etag).str();
}
std::string TextOf(const ReclaimCommand&) { return "reclaim"; }

void AddUnknown(Line& line, const Unknown& unknown) {
  line.Field("cause", Name(unknown.cause)).Moment("since", unknown.since);
  line.Moment("next", unknown.next_attempt_time);
  line.Flag("reconcile_first", unknown.reconcile_first);
}

}  // namespace

std::string Text(Duration span) {
  if (span == Duration::zero()) return "0";
  std::string text = span < Duration::zero() ? "-" : "";
  int64_t left_ms = std::abs(span.count());
  for (const auto& [name, span_ms] : kUnits) {
    if (left_ms < span_ms) continue;
    text += std::to_string(left_ms / span_ms);
    text += name;
    left_ms %= span_ms;
  }
  return text;
}

std::string Text(Time time) { return IsSet(time) ? Text(time - kStart) : "unset"; }

std::optional<Duration> ParseDuration(std::string_view text) {
  if (text == "0") return Duration::zero();
  Duration sum{0};
  if (text.empty()) return std::nullopt;
  while (!text.empty()) {
    const bool minus = text.front() == '-';
    if (minus || text.front() == '+') text.remove_prefix(1);
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    size_t unit_size = 0;
    while (unit_size < text.size() && std::isalpha(static_cast<unsigned char>(text[unit_size]))) {
      ++unit_size;
    }
    const std::optional<int64_t> unit_ms = UnitMs(text.substr(0, unit_size));
    if (!unit_ms.has_value()) return std::nullopt;
    text.remove_prefix(unit_size);
    sum += Duration{(minus ? -number : number) * *unit_ms};
  }
  return sum;
}

Digest DigestOf(std::string_view text) {
  return Digest{Fnv(text, 14'695'981'039'346'656'037u), Fnv(text, 7'809'847'782'465'536'322u)};
}

Fingerprint FingerprintOf(std::string_view text) {
  if (text == "none") return Fingerprint{};
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return Fingerprint{"sha256", std::string(text)};
  return Fingerprint{std::string(text.substr(0, slash)), std::string(text.substr(slash + 1))};
}

std::string Text(const Fingerprint& fingerprint) {
  return fingerprint.given() ? fingerprint.algorithm + "/" + fingerprint.digest : "none";
}

Digest ContentOf(const CompleteCommand& c) {
  return DigestOf("complete " + std::string(Name(c.verdict)) + ResponseText(c.response) +
                  c.provider_request_id);
}
Digest ContentOf(const ReleaseCommand& c) { return DigestOf("release " + c.detail); }
Digest ContentOf(const MarkUnresolvedCommand& c) {
  return DigestOf("mark " + std::string(Name(c.cause)) + c.detail + c.provider_request_id +
                  Text(c.retry_after) + (c.reconcile_first ? "reconcile first" : ""));
}
Digest ContentOf(const ResolveCommand& c) {
  return DigestOf("resolve " + std::string(Name(c.resolution)) + std::string(Name(c.verdict)) +
                  ResponseText(c.response) + c.provider_request_id);
}

std::string Text(const Answer& answer) {
  return std::visit([](const auto& value) { return TextOf(value); }, answer);
}

std::string Text(const Command& command) {
  return std::visit([](const auto& value) { return TextOf(value); }, command);
}

std::string Text(const Now& now) {
  Line line("at");
  line.Word(Text(now.earliest) + (now.latest == now.earliest ? "" : ".." + Text(now.latest)));
  if (now.wall != now.latest) line.Moment("wall", now.wall);
  return line.Flag("in_doubt", now.in_doubt).str();
}

std::string Text(const Record& record) {
  Line line(Name(record.state));
  AddEnding(line, record, true);
  line.Field("token", std::to_string(record.token));
  line.Field("attempt", std::to_string(record.attempt));
  if (record.state == State::kPending) {
    line.Moment("until", record.lease_expire_time).Flag("not_started", !record.started);
  }
  if (record.unknown.has_value()) AddUnknown(line, *record.unknown);
  line.Flag("dispatched", record.dispatched);
  if (record.progress.has_value()) line.Field("progress", *record.progress);
  line.Given("pid", record.provider_request_id);
  if (record.resolution != Resolution::kNone) line.Field("resolution", Name(record.resolution));
  line.Moment("expires", record.response_expire_time).Moment("forgotten", record.forget_time);
  return line.str();
}

std::string Text(const std::optional<Record>& record) {
  return record.has_value() ? Text(*record) : "absent";
}

std::string HistoryText(const Record& record) {
  Line line("");
  for (const Event& event : record.history) {
    std::string text(Name(event.kind));
    text += "#" + std::to_string(event.attempt) + "@" + Text(event.time);
    if (!event.actor.empty()) text += "/" + event.actor;
    if (!event.detail.empty()) text += "/'" + event.detail + "'";
    if (!event.provider_request_id.empty()) text += "/" + event.provider_request_id;
    line.Word(text);
  }
  return line.str();
}

}  // namespace idempotency::core
