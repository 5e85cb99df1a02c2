#include "service/config_rules.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "keystore/core/limits.h"
#include "service/duration_text.h"

namespace idempotency::service {
namespace {

using core::Duration;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

struct DurationRange {
  const char* field;
  Duration min;
  Duration max;
};

constexpr Duration kZero{0};
constexpr Duration kInstant{1};
constexpr DurationRange kDurationRanges[] = {
    {"default_lease_duration", kInstant, core::kMaxPolicyDuration},
    {"max_lease_duration", kInstant, core::kMaxPolicyDuration},
    {"max_hold_duration", kInstant, core::kMaxPolicyDuration},
    {"max_wait_duration", kZero, kMaxConfigWait},
    {"retention", kZero, core::kMaxPolicyDuration},
    {"max_retention", kZero, core::kMaxPolicyDuration},
    {"expired_memory", kZero, core::kMaxPolicyDuration},
    {"protection_window", kZero, core::kMaxPolicyDuration},
    {"initial_backoff", kZero, core::kMaxPolicyDuration},
    {"max_backoff", kZero, core::kMaxPolicyDuration},
    {"settle_duration", kZero, core::kMaxPolicyDuration},
};

struct NumberRange {
  const char* field;
  uint32_t min;
  uint32_t max;
};

constexpr NumberRange kNamespaceNumbers[] = {
    {"max_attempts", 0, kMaxConfigAttempts},
    {"max_key_bytes", 1, core::kMaxKeyBytes},
    {"max_response_bytes", 0, core::kMaxResponseBytes},
};

constexpr NumberRange kLimitNumbers[] = {
    {"max_waiters", 0, kMaxConfigWaiters},
    {"max_waiters_per_key", 0, kMaxConfigWaiters},
    {"max_queued_commands", 1, kMaxConfigQueuedCommands},
};

constexpr NumberRange kQuotaNumbers[] = {
    {"reserves_per_second", 0, kMaxConfigReservesPerSecond},
    {"reserve_burst", 1, kMaxConfigReservesPerSecond},
};

// Adds problems with one message's fields.
class FieldChecker {
 public:
  FieldChecker(const Message& message, Place place, const FieldLines& lines,
               ConfigProblems* problems)
      : message_(message), place_(std::move(place)), lines_(lines), problems_(problems) {}

  void Range(const DurationRange& range) {
    const FieldDescriptor* field = Field(range.field);
    if (!message_.GetReflection()->HasField(message_, field)) return;
    const auto& value = static_cast<const google::protobuf::Duration&>(
        message_.GetReflection()->GetMessage(message_, field));
    const Duration duration{value.seconds() * 1000 + value.nanos() / 1'000'000};
    const std::string written = FormatDuration(duration);
    const std::string least = FormatDuration(range.min);
    if (duration < kZero) {
      Add(range.field, absl::StrCat(written, " is negative: write at least ", least));
    } else if (duration < range.min) {
      Add(range.field, absl::StrCat(written, " is too short: write at least ", least));
    } else if (duration > range.max) {
      Add(range.field,
          absl::StrCat(written, " is too long: write at most ", FormatDuration(range.max)));
    }
  }

  void Range(const NumberRange& range) {
    const FieldDescriptor* field = Field(range.field);
    if (!message_.GetReflection()->HasField(message_, field)) return;
    const uint32_t number = message_.GetReflection()->GetUInt32(message_, field);
    if (number < range.min) {
      Add(range.field, absl::StrCat(number, " is too small: write at least ", range.min));
    } else if (number > range.max) {
      Add(range.field, absl::StrCat(number, " is too large: write at most ", range.max));
    }
  }

  // Of every text in the message itself.
  void TextLengths(size_t max_bytes) {
    std::vector<const FieldDescriptor*> fields;
    message_.GetReflection()->ListFields(message_, &fields);
    for (const FieldDescriptor* field : fields) {
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_STRING) continue;
      if (!field->is_repeated()) {
        TextLength(field->name(), message_.GetReflection()->GetString(message_, field), max_bytes);
        continue;
      }
      for (int i = 0; i < message_.GetReflection()->FieldSize(message_, field); ++i) {
        TextLength(absl::StrCat(field->name(), "[", i, "]"),
                   message_.GetReflection()->GetRepeatedString(message_, field, i), max_bytes);
      }
    }
  }

  void Add(const std::string& field, std::string sentence) {
    const std::string path = absl::StrCat(place_.path, ".", field);
    problems_->Add(LineOf(lines_, path, place_.line), path, std::move(sentence));
  }

 private:
  const FieldDescriptor* Field(const char* name) const {
    return message_.GetDescriptor()->FindFieldByName(name);
  }

  void TextLength(const std::string& field, const std::string& text, size_t max_bytes) {
    if (text.size() <= max_bytes) return;
    Add(field, absl::StrCat(text.size(), " bytes are too long: write at most ", max_bytes));
  }

  const Message& message_;
  const Place place_;
  const FieldLines& lines_;
  ConfigProblems* problems_;
};

// YYYY-MM-DD, with a month and a day that can be.
bool IsDate(std::string_view text) {
  constexpr std::string_view kShape = "0000-00-00";
  if (text.size() != kShape.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kShape[i] == '0' ? !digit : text[i] != '-') return false;
  }
  const auto number = [&](size_t at) { return (text[at] - '0') * 10 + (text[at + 1] - '0'); };
  return number(5) >= 1 && number(5) <= 12 && number(8) >= 1 && number(8) <= 31;
}

void CheckProvider(const idempotency::v1::ProviderContract& provider, Place place,
                   const FieldLines& lines, ConfigProblems* problems) {
  FieldChecker checker(provider, std::move(place), lines, problems);
  checker.TextLengths(core::kMaxLongTextBytes);
  if (provider.endpoints_size() > kMaxConfigEndpoints) {
    checker.Add("endpoints", absl::StrCat(provider.endpoints_size(),
                                          " are too many: write at most ", kMaxConfigEndpoints));
  }
  if (!provider.verified_date().empty() && !IsDate(provider.verified_date())) {
    checker.Add("verified_date", absl::StrCat(Quoted(provider.verified_date()),
                                              " is not a date: write it as YYYY-MM-DD"));
  }
}

void CheckQuota(const config::v1::Quota& quota, Place place, const FieldLines& lines,
                ConfigProblems* problems) {
  FieldChecker checker(quota, std::move(place), lines, problems);
  for (const NumberRange& range : kQuotaNumbers) checker.Range(range);
}

// A burst says how a rate is meant, and is no limit by itself.
void FindLoneBurst(std::string_view quota, const core::Quota& values,
                   std::vector<Contradiction>* found) {
  if (values.reserve_burst == core::kUnlimited || values.reserves_per_second != core::kUnlimited) {
    return;
  }
  found->push_back({{quota},
                    absl::StrCat(std::string(quota),
                                 ".reserve_burst needs reserves_per_second: write how many there "
                                 "may be over time")});
}

std::string Longer(std::string_view longer, Duration a, std::string_view shorter, Duration b) {
  return absl::StrCat(std::string(longer), " ", FormatDuration(a), " is longer than ",
                      std::string(shorter), " ", FormatDuration(b),
                      ": shorten the first or lengthen the second");
}

}  // namespace

void CheckValues(const config::v1::Namespace& values, const Place& place, const FieldLines& lines,
                 ConfigProblems* problems) {
  FieldChecker checker(values, place, lines, problems);
  for (const DurationRange& range : kDurationRanges) checker.Range(range);
  for (const NumberRange& range : kNamespaceNumbers) checker.Range(range);
  if (values.description().size() > core::kMaxLongTextBytes) {
    checker.Add("description",
                absl::StrCat(values.description().size(), " bytes are too long: write at most ",
                             core::kMaxLongTextBytes));
  }
  const std::string provider = absl::StrCat(place.path, ".provider");
  CheckProvider(values.provider(), {provider, LineOf(lines, provider, place.line)}, lines,
                problems);
  const std::string quota = absl::StrCat(place.path, ".quota");
  CheckQuota(values.quota(), {quota, LineOf(lines, quota, place.line)}, lines, problems);
  const std::string scope_quota = absl::StrCat(place.path, ".scope_quota");
  CheckQuota(values.scope_quota(), {scope_quota, LineOf(lines, scope_quota, place.line)}, lines,
             problems);
}

void CheckLimits(const config::v1::Limits& limits, const FieldLines& lines,
                 ConfigProblems* problems) {
  FieldChecker checker(limits, {"limits", LineOf(lines, "limits")}, lines, problems);
  for (const NumberRange& range : kLimitNumbers) checker.Range(range);
  if (problems->Has("limits.max_waiters_per_key")) return;
  const uint32_t in_all =
      limits.has_max_waiters() ? limits.max_waiters() : uint32_t{core::kMaxWaiters};
  if (limits.max_waiters_per_key() > in_all) {
    checker.Add("max_waiters_per_key",
                absl::StrCat(limits.max_waiters_per_key(), " is more than max_waiters ", in_all,
                             ": lower the first or raise the second"));
  }
}

std::vector<Contradiction> FindContradictions(const core::Policy& policy) {
  std::vector<Contradiction> found;
  const auto check_longer = [&](std::string_view a, Duration a_value, std::string_view b,
                                Duration b_value) {
    if (a_value > b_value) found.push_back({{a, b}, Longer(a, a_value, b, b_value)});
  };
  FindLoneBurst("quota", policy.quota, &found);
  FindLoneBurst("scope_quota", policy.scope_quota, &found);
  const core::Terms& terms = policy.terms;
  check_longer("default_lease_duration", policy.default_lease, "max_lease_duration",
               policy.max_lease);
  check_longer("default_lease_duration", policy.default_lease, "max_hold_duration",
               policy.max_hold);
  check_longer("retention", terms.retention, "max_retention", policy.max_retention);
  check_longer("initial_backoff", terms.initial_backoff, "max_backoff", terms.max_backoff);
  if (terms.protection_window > kZero) {
    check_longer("initial_backoff", terms.initial_backoff, "protection_window",
                 terms.protection_window);
  }
  if (terms.unknown_outcome != core::UnknownOutcome::kRetrySameKey) return found;
  if (terms.protection_window == kZero) {
    found.push_back({{"unknown_outcome", "protection_window"},
                     "RETRY_SAME_KEY needs protection_window: write how long the provider "
                     "recognises a key, less a margin"});
  }
  if (terms.max_attempts == 0) {
    found.push_back({{"unknown_outcome", "max_attempts"},
                     "RETRY_SAME_KEY needs max_attempts: write how many attempts there may be in "
                     "all, at least 1"});
  }
  return found;
}

}  // namespace idempotency::service
