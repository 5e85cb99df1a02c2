#include "client/src/provider_parser.h"

#include <charconv>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/src/json.h"

namespace idempotency::internal {
namespace {

template <typename Value>
struct Named {
  std::string_view name;
  Value value;
};

constexpr Named<KeyPlace> kPlaces[] = {{"none", KeyPlace::kNone},
                                       {"header", KeyPlace::kHeader},
                                       {"argument", KeyPlace::kArgument},
                                       {"body_field", KeyPlace::kBodyField}};
constexpr Named<Basis> kBases[] = {{"vendor", Basis::kVendor},
                                   {"second_hand", Basis::kSecondHand},
                                   {"memory", Basis::kMemory},
                                   {"judgement", Basis::kJudgement}};
constexpr Named<Disposition> kDispositions[] = {{"SUCCEEDED", Disposition::kSucceeded},
                                                {"FAILED", Disposition::kFailed},
                                                {"NOTHING_HAPPENED", Disposition::kNothingHappened},
                                                {"UNKNOWN", Disposition::kUnknown}};
constexpr Named<UnresolvedCause> kCauses[] = {{"TIMEOUT", UnresolvedCause::kTimeout},
                                              {"CONNECTION_LOST", UnresolvedCause::kConnectionLost},
                                              {"SERVER_ERROR", UnresolvedCause::kServerError},
                                              {"OTHER", UnresolvedCause::kOther}};

// Reads the members of one object. The first thing that is wrong is noted for all that share
// `problem`; what follows reads as empty. Members that nobody asked for are wrong, too.
class ObjectReader {
 public:
  ObjectReader(const JsonValue& object, std::string path, std::string* problem)
      : object_(object), path_(std::move(path)), problem_(problem) {
    if (object.kind != JsonValue::Kind::kObject) Fail("", "must be an object");
  }

  ~ObjectReader() {
    for (const JsonMember& member : object_.members) {
      if (known_.count(member.name) == 0) Fail(member.name, "is no field of a profile");
    }
  }

  ObjectReader(const ObjectReader&) = delete;
  ObjectReader& operator=(const ObjectReader&) = delete;

  std::string Text(const std::string& name, bool required = true) {
    const JsonValue* value = Get(name, JsonValue::Kind::kString, required);
    return value == nullptr ? "" : value->text;
  }

  bool Flag(const std::string& name, bool required = true) {
    const JsonValue* value = Get(name, JsonValue::Kind::kBool, required);
    return value != nullptr && value->boolean;
  }

  // Whole and not negative.
  std::optional<int64_t> Number(const std::string& name, bool required = true) {
    const JsonValue* value = Get(name, JsonValue::Kind::kNumber, required);
    if (value == nullptr) return std::nullopt;
    int64_t number = 0;
    const char* end = value->text.data() + value->text.size();
    const auto read = std::from_chars(value->text.data(), end, number);
    if (read.ec != std::errc() || read.ptr != end || number < 0) {
      Fail(name, "must be a whole number");
    }
    return number;
  }

  template <typename Value, size_t count>
  Value Word(const std::string& name, const Named<Value> (&words)[count]) {
    const std::string text = Text(name);
    for (const Named<Value>& word : words) {
      if (word.name == text) return word.value;
    }
    Fail(name, "is none of the words that may stand here");
    return words[0].value;
  }

  const std::vector<JsonValue>& List(const std::string& name, bool required = true) {
    static const auto* const none = new std::vector<JsonValue>();
    const JsonValue* value = Get(name, JsonValue::Kind::kArray, required);
    return value == nullptr ? *none : value->items;
  }

  std::vector<std::string> Texts(const std::string& name, bool required = true) {
    std::vector<std::string> texts;
    for (const JsonValue& item : List(name, required)) {
      if (item.kind != JsonValue::Kind::kString) Fail(name, "must hold texts");
      texts.push_back(item.text);
    }
    return texts;
  }

  const JsonValue& Object(const std::string& name) {
    static const auto* const none = new JsonValue{.kind = JsonValue::Kind::kObject};
    const JsonValue* value = Get(name, JsonValue::Kind::kObject, true);
    return value == nullptr ? *none : *value;
  }

  std::string PathOf(const std::string& name) const {
    return absl::StrCat(path_, path_.empty() || name.empty() ? "" : ".", name);
  }

  void Fail(const std::string& name, const char* what) {
    if (problem_->empty()) *problem_ = absl::StrCat(PathOf(name), " ", what);
  }

 private:
  const JsonValue* Get(const std::string& name, JsonValue::Kind kind, bool required) {
    known_.insert(name);
    const JsonValue* value = object_.Find(name);
    if (value == nullptr) {
      if (required) Fail(name, "is missing");
      return nullptr;
    }
    if (value->kind == kind) return value;
    Fail(name, "is of another type");
    return nullptr;
  }

  const JsonValue& object_;
  const std::string path_;
  std::string* const problem_;
  std::set<std::string> known_;
};

std::optional<Duration> Seconds(std::optional<int64_t> seconds) {
  if (!seconds) return std::nullopt;
  return std::chrono::seconds(*seconds);
}

// "2xx", "409" or "400-499".
bool ReadStatuses(std::string_view text, AnswerRule* rule) {
  const auto number = [](std::string_view digits, int* out) {
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), *out);
    return digits.size() == 3 && read.ec == std::errc() &&
           read.ptr == digits.data() + digits.size() && *out >= 100 && *out <= 599;
  };
  if (text.size() == 3 && text.substr(1) == "xx" && text[0] >= '1' && text[0] <= '5') {
    rule->status_first = (text[0] - '0') * 100;
    rule->status_last = rule->status_first + 99;
    return true;
  }
  if (text.size() == 7 && text[3] == '-') {
    return number(text.substr(0, 3), &rule->status_first) &&
           number(text.substr(4), &rule->status_last);
  }
  rule->status_last = 0;
  const bool one = number(text, &rule->status_first);
  rule->status_last = rule->status_first;
  return one;
}

AnswerRule ReadAnswer(const JsonValue& value, std::string path, std::string* problem) {
  ObjectReader reader(value, std::move(path), problem);
  AnswerRule rule;
  const std::string statuses = reader.Text("status", false);
  if (!statuses.empty() && !ReadStatuses(statuses, &rule)) {
    reader.Fail("status", "is no status such as 409, 2xx or 400-499");
  }
  rule.codes = reader.Texts("codes", false);
  rule.code_missing = reader.Flag("code_missing", false);
  rule.header = reader.Text("header", false);
  rule.header_value = reader.Text("header_value", false);
  rule.means.disposition = reader.Word("means", kDispositions);
  if (rule.means.disposition == Disposition::kUnknown) {
    rule.means.cause = reader.Word("cause", kCauses);
    rule.means.reconcile_first = reader.Flag("reconcile_first", false);
  }
  rule.why = reader.Text("why");
  return rule;
}

ProviderStatement ReadStatement(const JsonValue& value, std::string path, std::string* problem) {
  ObjectReader reader(value, std::move(path), problem);
  ProviderStatement statement;
  statement.about = reader.Text("about");
  statement.says = reader.Text("says");
  statement.basis = reader.Word("basis", kBases);
  const bool read = statement.basis == Basis::kVendor || statement.basis == Basis::kSecondHand;
  statement.source = reader.Text("source", read);
  statement.date = reader.Text("date");
  statement.verified = reader.Flag("verified");
  if (statement.verified != (statement.basis == Basis::kVendor)) {
    reader.Fail("verified", "must be true for what the vendor says, and for nothing else");
  }
  return statement;
}

void ReadKey(const JsonValue& value, ProviderProfile* profile, std::string* problem) {
  ObjectReader reader(value, "key", problem);
  profile->key_place = reader.Word("place", kPlaces);
  profile->key_field = reader.Text("field", profile->key_place != KeyPlace::kNone);
  if (const auto bytes = reader.Number("max_bytes", false)) {
    profile->key_max_bytes = static_cast<size_t>(*bytes);
  }
  profile->scope = reader.Text("scope");
  profile->endpoints = reader.Texts("endpoints");
}

void ReadMemory(const JsonValue& value, ProviderProfile* profile, std::string* problem) {
  ObjectReader reader(value, "memory", problem);
  profile->retention = Seconds(reader.Number("retention_seconds", false));
  profile->protection_window = Seconds(reader.Number("protection_window_seconds", false));
  profile->on_expiry = reader.Text("on_expiry");
}

void ReadRepeats(const JsonValue& value, ProviderProfile* profile, std::string* problem) {
  ObjectReader reader(value, "repeats", problem);
  profile->replay = reader.Text("replay");
  profile->replay_header = reader.Text("header", false);
  profile->replay_value = reader.Text("header_value", false);
  profile->on_mismatch = reader.Text("on_mismatch");
  profile->on_concurrent = reader.Text("on_concurrent");
  profile->look_up = reader.Text("look_up");
}

ProviderProfile ReadProfile(const JsonValue& value, std::string* problem) {
  ObjectReader reader(value, "", problem);
  ProviderProfile profile;
  const std::optional<int64_t> format = reader.Number("format");
  if (format && *format != 1) reader.Fail("format", "is not 1, the only one known");
  profile.name = reader.Text("name");
  profile.provider = reader.Text("provider");
  profile.api_version = reader.Text("api_version");
  ReadKey(reader.Object("key"), &profile, problem);
  ReadMemory(reader.Object("memory"), &profile, problem);
  ReadRepeats(reader.Object("repeats"), &profile, problem);
  profile.provider_code = reader.Text("provider_code", false);
  profile.reconcile_first = reader.Flag("reconcile_first", false);
  size_t index = 0;
  for (const JsonValue& answer : reader.List("answers")) {
    profile.answers.push_back(ReadAnswer(answer, absl::StrCat("answers[", index++, "]"), problem));
  }
  index = 0;
  for (const JsonValue& statement : reader.List("statements")) {
    profile.statements.push_back(
        ReadStatement(statement, absl::StrCat("statements[", index++, "]"), problem));
  }
  return profile;
}

}  // namespace

absl::StatusOr<ProviderProfile> ParseProviderProfile(std::string_view json_text) {
  const absl::StatusOr<JsonValue> value = ParseJson(json_text);
  if (!value.ok()) return value.status();
  std::string problem;
  ProviderProfile profile = ReadProfile(*value, &problem);
  if (!problem.empty()) return absl::InvalidArgumentError(problem);
  return profile;
}

}  // namespace idempotency::internal
