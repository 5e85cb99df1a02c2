#include "client/ctl/on_call_text.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "client/ctl/duration_text.h"
#include "client/ctl/enum_text.h"
#include "client/ctl/format.h"
#include "client/ctl/printable.h"
#include "client/ctl/table.h"
#include "client/ctl/time_proto.h"

namespace idempotency::ctl {
namespace {

std::string CauseInWords(v1::UnresolvedCause cause) {
  switch (static_cast<int>(cause)) {
    case v1::UNRESOLVED_CAUSE_LEASE_LAPSED:
      return "its lease lapsed before its owner reported how the call ended";
    case v1::UNRESOLVED_CAUSE_UNSPECIFIED:
      return "nobody said why";
  }
  return "its owner reported " + EnumText(cause);
}

std::string StateInWords(const v1::Operation& operation, absl::Time now) {
  switch (static_cast<int>(operation.state())) {
    case v1::OPERATION_STATE_PENDING:
      return absl::StrCat(
          "PENDING: ",
          operation.owner().worker().empty() ? std::string("its owner")
                                             : Printable(operation.owner().worker()),
          " works on it; the lease ends ", AgeText(FromProto(operation.lease_expire_time()), now));
    case v1::OPERATION_STATE_COMPLETE:
      return absl::StrCat("COMPLETE, ", EnumText(operation.verdict()), ": duplicates are answered ",
                          operation.has_response() ? "with what is stored"
                                                   : "that it has ended; the answer is not here");
    case v1::OPERATION_STATE_UNRESOLVED:
      return absl::StrCat("UNRESOLVED for ", SpanText(now - FromProto(operation.update_time())),
                          ": ", CauseInWords(operation.unresolved_cause()),
                          operation.dispatched() ? ". The call may have happened"
                                                 : ". It was not said that the call was sent");
    case v1::OPERATION_STATE_EXPIRED:
      return "EXPIRED: it has ended, and its answer is no longer kept";
    case v1::OPERATION_STATE_FREED:
      return "FREED: nothing holds the key; the next reserve acquires";
  }
  return EnumText(operation.state());
}

std::string Timeline(const v1::Operation& operation) {
  Table table({"TIME", "AFTER", "EVENT", "ATTEMPT", "BY", "PROVIDER ID", "DETAIL"});
  absl::Time before = absl::InfinitePast();
  for (const v1::Event& event : operation.history()) {
    const absl::Time time = FromProto(event.time());
    const bool first = before == absl::InfinitePast();
    table.Add({TimeText(time), first ? "" : "+" + SpanText(time - before), EnumText(event.kind()),
               std::to_string(event.attempt()), event.actor(), event.provider_request_id(),
               event.detail()});
    before = time;
  }
  return table.empty() ? "" : "\nwhat happened\n" + table.ToString(2);
}

std::string Span(const google::protobuf::Duration& duration) {
  return DurationText(FromProto(duration));
}

std::string OnUnknown(const v1::Namespace& policy) {
  switch (static_cast<int>(policy.unknown_outcome())) {
    case v1::UNKNOWN_OUTCOME_POLICY_RERUN:
      return "a new attempt is granted at once: repeating the call must do no harm";
    case v1::UNKNOWN_OUTCOME_POLICY_RETRY_SAME_KEY:
      return absl::StrCat("a new attempt with the same key, ", policy.max_attempts(),
                          " at most, within ", Span(policy.protection_window()),
                          " of the first; then a person");
  }
  return "no new attempt: a person looks up what happened, and resolves it";
}

std::string Join(const google::protobuf::RepeatedPtrField<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + text;
  return all;
}

}  // namespace

std::string AllowedNext(const v1::Operation& operation, absl::Time now) {
  if (!operation.has_next_attempt_time()) return "a person: look up and resolve";
  const absl::Time next = FromProto(operation.next_attempt_time());
  std::string text = next <= now ? "reserve, now" : "reserve, in " + SpanText(next - now);
  if (operation.has_protection_expire_time()) {
    const absl::Duration left = FromProto(operation.protection_expire_time()) - now;
    text += left > absl::ZeroDuration() ? " (for " + SpanText(left) + ")" : " (too late)";
  }
  return text;
}

std::string FormatUnresolved(const std::vector<v1::Operation>& operations, absl::Time now) {
  Table table({"NAMESPACE", "SCOPE", "KEY", "FOR", "WHY", "ATTEMPT", "DISPATCHED", "NEXT", "WORKER",
               "REFERENCE"});
  for (const v1::Operation& operation : operations) {
    table.Add({operation.id().namespace_(), operation.id().scope(), operation.id().key(),
               SpanText(now - FromProto(operation.update_time())),
               EnumText(operation.unresolved_cause()), std::to_string(operation.attempt()),
               operation.dispatched() ? "yes" : "no", AllowedNext(operation, now),
               operation.owner().worker(), operation.owner().operation_ref()});
  }
  return table.ToString();
}

std::string Explain(const v1::InspectOperationResponse& response, absl::Time now) {
  const v1::Operation& operation = response.operation();
  std::string text = FormatId(operation.id()) + "\n" + StateInWords(operation, now) + ".\n";
  text += Timeline(operation);
  text += "\na reserve of the same request, now\n  " + EnumText(response.next_step());
  if (!response.detail().empty()) text += ": " + Printable(response.detail());
  text += "\n";
  if (operation.state() == v1::OPERATION_STATE_UNRESOLVED) {
    text += "\nwithout a person\n  " + AllowedNext(operation, now) + "\n";
  }
  return text;
}

std::string WatchLine(const v1::Operation& operation, absl::Time now) {
  std::string text = TimeText(now) + "  " + EnumText(operation.state());
  const auto add = [&text](std::string_view name, const std::string& value) {
    if (!value.empty()) absl::StrAppend(&text, "  ", std::string(name), " ", Printable(value));
  };
  add("attempt", std::to_string(operation.attempt()));
  if (operation.state() == v1::OPERATION_STATE_UNRESOLVED) {
    add("why", EnumText(operation.unresolved_cause()));
    add("next:", AllowedNext(operation, now));
  }
  if (operation.state() == v1::OPERATION_STATE_COMPLETE) {
    add("verdict", EnumText(operation.verdict()));
  }
  add("worker", operation.owner().worker());
  add("provider id", operation.provider_request_id());
  return text;
}

std::string FormatContract(const v1::Namespace& policy) {
  const v1::ProviderContract& provider = policy.provider();
  const std::string unknown = "(not said)";
  const auto said = [&unknown](const std::string& text) { return text.empty() ? unknown : text; };
  Table table({"RULE", "PROVIDER", "HERE"});
  table.Add({"API version", said(provider.api_version()), ""});
  table.Add({"endpoints", said(Join(provider.endpoints())), ""});
  table.Add({"keys are unique within", said(provider.account_scope()),
             policy.scope_optional() ? "scope, or the namespace where it is empty"
                                     : "scope, which is required"});
  table.Add({"key", said(provider.key_location()),
             absl::StrCat("at most ", policy.max_key_bytes(), " bytes")});
  table.Add({"same key, other request", said(provider.on_mismatch()),
             policy.fingerprint_optional() ? "FINGERPRINT_MISMATCH where both said what they send"
                                           : "FINGERPRINT_MISMATCH; a fingerprint is required"});
  table.Add({"same key, at the same time", said(provider.on_concurrent()),
             "IN_PROGRESS; waits up to " + Span(policy.max_wait_duration()) + " on request"});
  table.Add({"how long the key counts", said(provider.on_expiry()),
             absl::StrCat("the answer ", Span(policy.retention()), ", that it ended ",
                          Span(policy.expired_memory()), " more")});
  table.Add({"outcome unknown",
             policy.has_protection_window()
                 ? "recognises the key for " + Span(policy.protection_window())
                 : unknown,
             OnUnknown(policy)});
  std::string text = absl::StrCat(
      policy.name(), ", ",
      provider.name().empty() ? std::string("no provider named") : Printable(provider.name()), "\n",
      policy.description().empty() ? "" : Printable(policy.description()) + "\n", table.ToString());
  if (!provider.source().empty()) {
    absl::StrAppend(&text, "source ", Printable(provider.source()), ", verified ",
                    said(provider.verified_date()), "\n");
  }
  return text;
}

}  // namespace idempotency::ctl
