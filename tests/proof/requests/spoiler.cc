#include "tests/proof/requests/spoiler.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <utility>

#include "idempotency/v1/admin_service.pb.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "tests/proof/requests/reflect.h"

namespace idempotency::proof {
namespace {

using google::protobuf::Message;

// --- Texts ---------------------------------------------------------------------------------------

std::string Letters(size_t bytes, Random* random) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
  std::string text = kMark;
  while (text.size() < bytes) text += kLetters[random->Below(kLetters.size())];
  text.resize(bytes);
  return text;
}

std::string LongerThan(size_t bytes, Random* random) {
  constexpr std::array<size_t, 4> kMore = {1, 2, 100, 3000};
  return Letters(bytes + kMore[random->Below(kMore.size())], random);
}

// As many characters as are allowed bytes, and more of those.
std::string LongerThanInBytes(size_t bytes) {
  std::string text = kMark;
  while (text.size() <= bytes) text += "\xc3\xa9";
  return text;
}

std::string Within(std::string text, std::string_view part, Random* random) {
  return text.insert(random->Below(text.size() + 1), part);
}

// Of about so many bytes.
std::string NotUtf8(size_t bytes, Random* random) {
  constexpr std::array<std::string_view, 6> kBad = {"\xff",         "\xc3",     "\xfc",
                                                    "\xed\xa0\x80", "\xc0\xaf", "\xf4\x90\x80\x80"};
  const size_t room = bytes > 6 ? bytes - 6 : 1;
  return Within(Letters(room, random), kBad[random->Below(kBad.size())], random);
}

std::string WithControlCharacter(Random* random) {
  constexpr std::array<std::string_view, 7> kControls = {"\t",   "\n",       "\r",      "\x01",
                                                         "\x7f", "\xc2\x80", "\xc2\x9f"};
  return Within(Letters(20, random), kControls[random->Below(kControls.size())], random);
}

std::string NotAName(Random* random) {
  const std::string good = Letters(10, random);
  const std::array<std::string, 8> bad = {"Payments",        "1" + good, "-" + good,
                                          "." + good,        good + " ", good + "/" + good,
                                          good + "\xc3\xa9", good + "\n"};
  return bad[random->Below(bad.size())];
}

// --- Durations -----------------------------------------------------------------------------------

using SetDurationOf = void (*)(Message*, std::string_view, Random*);

constexpr int32_t kNanosOfSecond = 1'000'000'000;
constexpr int64_t kMostSeconds = 315'576'000'000;

void SetNegative(Message* message, std::string_view path, Random* random) {
  if (random->OneIn(2)) return SetDuration(message, path, 0, -1);
  SetDuration(message, path, -1 - static_cast<int64_t>(random->Below(1'000'000)), 0);
}

void SetMalformed(Message* message, std::string_view path, Random* random) {
  switch (random->Below(5)) {
    case 0:
      return SetDuration(message, path, 5, -1);
    case 1:
      return SetDuration(message, path, -5, 1);
    case 2:
      return SetDuration(message, path, 5, kNanosOfSecond);
    case 3:
      return SetDuration(message, path, kMostSeconds + 1, 0);
    default:
      return SetDuration(message, path, std::numeric_limits<int64_t>::max(), 0);
  }
}

// --- The faults of a field -----------------------------------------------------------------------

class FaultList {
 public:
  explicit FaultList(std::vector<Fault>* faults) : faults_(*faults) {}

  void Add(const FieldRule& rule, const MethodInfo& info) {
    rule_ = rule;
    method_ = info.method;
    AddRule();
  }

 private:
  using Spoil = std::function<void(Message*, Random*)>;

  void Spoils(const char* name, Spoil spoil, const char* blamed = nullptr) {
    faults_.push_back({method_, std::string(rule_.path) + ": " + name, rule_.path,
                       blamed != nullptr ? blamed : rule_.path, std::move(spoil)});
  }
  template <typename Make>
  void Text(const char* name, Make make) {
    const std::string path = rule_.path;
    Spoils(name, [path, make](Message* message, Random* random) {
      SetText(message, path, make(random));
    });
  }
  void Number(const char* name, std::function<void(Message*, const std::string&, Random*)> set) {
    const std::string path = rule_.path;
    Spoils(name, [path, set](Message* message, Random* random) { set(message, path, random); });
  }
  void Missing() {
    const std::string path = rule_.path;
    Spoils("missing", [path](Message* message, Random*) { Clear(message, path); });
  }

  void AddRule() {
    switch (rule_.rule) {
      case Rule::kRequired:
        return Missing();
      case Rule::kName:
        Text("no name", NotAName);
        return AddText();
      case Rule::kIdText:
        Text("a control character", WithControlCharacter);
        return AddText();
      case Rule::kText:
        return AddText();
      case Rule::kBytes:
        return AddLengths();
      case Rule::kPageToken:
        Text("junk", [](Random* random) { return Letters(8, random) + " !"; });
        return Text("not UTF-8", [](Random* random) { return NotUtf8(20, random); });
      case Rule::kLabels:
        return AddLabels();
      default:
        return AddNumber();
    }
  }

  void AddLengths() {
    const size_t least = rule_.least, most = rule_.most;
    Text("too long", [most](Random* random) { return LongerThan(most, random); });
    if (least > 0) Missing();
    if (least > 1) {
      Text("too short",
           [least](Random* random) { return Letters(1 + random->Below(least - 1), random); });
      Text("one byte too short", [least](Random* random) { return Letters(least - 1, random); });
    }
  }

  void AddText() {
    const size_t most = rule_.most;
    AddLengths();
    if (rule_.rule != Rule::kName) {
      Text("too many bytes", [most](Random*) { return LongerThanInBytes(most); });
    }
    Text("not UTF-8", [most](Random* random) {
      return NotUtf8(std::min<size_t>(most, 20 + random->Below(40)), random);
    });
  }

  void AddNumber() {
    const auto verdict = [](int number) {
      return [number](Message* message, const std::string& path, Random*) {
        SetEnum(message, path, number);
      };
    };
    const auto state = [](int number) {
      return [number](Message* message, Random*) {
        Clear(message, "states");
        SetEnum(message, "states", number);
      };
    };
    switch (rule_.rule) {
      case Rule::kToken:
        return Number("zero", [](Message* message, const std::string& path, Random*) {
          SetUInt64(message, path, 0);
        });
      case Rule::kVerdict:
        Number("unspecified", verdict(0));
        Number("ABANDONED", verdict(3));
        Number("unknown", verdict(4));
        Number("far off", verdict(std::numeric_limits<int>::max()));
        return Number("negative", verdict(-1));
      case Rule::kStates:
        Spoils("unspecified", state(0), "states[0]");
        Spoils("unknown", state(6), "states[0]");
        return Spoils("negative", state(-1), "states[0]");
      case Rule::kNotNegativeNumber:
        return Number("negative", [](Message* message, const std::string& path, Random* random) {
          SetInt32(message, path, -1 - static_cast<int32_t>(random->Below(1'000'000)));
        });
      default:
        return AddDuration();
    }
  }

  void AddDuration() {
    Number("malformed", SetMalformed);
    if (rule_.rule == Rule::kDuration) return;
    Number("negative", SetNegative);
    if (rule_.rule != Rule::kLease) return;
    Number("zero", [](Message* message, const std::string& path, Random*) {
      SetDuration(message, path, 0, 0);
    });
    Number("too long", [](Message* message, const std::string& path, Random* random) {
      constexpr int64_t kMonthSeconds = 30 * 86'400;  // sentinels.cc
      SetDuration(message, path, kMonthSeconds + static_cast<int64_t>(random->Below(1000)), 1);
    });
  }

  // Labels are a field of Reserve alone.
  void AddLabels() {
    const auto labels = [this](const char* name,
                               std::function<void(v1::ReserveRequest*, Random*)> spoil) {
      Spoils(name, [spoil](Message* message, Random* random) {
        auto* const reserve = static_cast<v1::ReserveRequest*>(message);
        reserve->clear_labels();
        spoil(reserve, random);
      });
    };
    labels("too many", [](v1::ReserveRequest* reserve, Random* random) {
      while (reserve->labels().size() <= kMaxLabels) {
        (*reserve->mutable_labels())[Letters(12, random)] = "v";
      }
    });
    labels("too large", [](v1::ReserveRequest* reserve, Random* random) {
      (*reserve->mutable_labels())[Letters(10, random)] = Letters(kMaxLabelBytes - 9, random);
    });
    labels("a name is empty", [](v1::ReserveRequest* reserve, Random* random) {
      (*reserve->mutable_labels())[""] = Letters(10, random);
      (*reserve->mutable_labels())["other"] = "v";
    });
    labels("a name is not UTF-8", [](v1::ReserveRequest* reserve, Random* random) {
      (*reserve->mutable_labels())[NotUtf8(12, random)] = "v";
    });
    labels("a value is not UTF-8", [](v1::ReserveRequest* reserve, Random* random) {
      (*reserve->mutable_labels())["name"] = NotUtf8(12, random);
    });
  }

  std::vector<Fault>& faults_;
  FieldRule rule_{};
  Method method_ = kReserve;
};

std::vector<Fault> AllFaults() {
  std::vector<Fault> faults;
  FaultList list(&faults);
  for (const FieldRule& rule : FieldRules()) {
    for (const MethodInfo& info : Methods()) {
      if ((rule.methods & info.method) != 0) list.Add(rule, info);
    }
  }
  return faults;
}

bool IsWithin(std::string_view path, std::string_view outer) {
  return path == outer || (path.size() > outer.size() && path.substr(0, outer.size()) == outer &&
                           path[outer.size()] == '.');
}

// Whether one would undo or hide the other.
bool Interfere(const Fault& a, const Fault& b) {
  const auto is_choice = [](const Fault& fault) {
    return fault.path == "resolution" || IsWithin(fault.path, "completed");
  };
  return IsWithin(a.path, b.path) || IsWithin(b.path, a.path) || (is_choice(a) && is_choice(b));
}

}  // namespace

Spoiler::Spoiler(uint64_t seed, const std::vector<Sentinel>* sentinels)
    : random_(seed), sentinels_(*sentinels), faults_(AllFaults()) {}

std::string Spoiler::Text(size_t bytes) { return Letters(bytes, &random_); }

// --- Valid requests ------------------------------------------------------------------------------

void Spoiler::FillId(Message* request) {
  if (Find(request, "id").field == nullptr) return;
  const bool has_token = Find(request, "fencing_token").field != nullptr;
  if (random_.OneIn(3)) {
    const Sentinel& sentinel = random_.Any(sentinels_);
    const Place id = Find(request, "id");
    id.message->GetReflection()->MutableMessage(id.message, id.field)->CopyFrom(sentinel.id);
    if (has_token) SetUInt64(request, "fencing_token", sentinel.token);
    return;
  }
  SetText(request, "id.namespace", "payments");
  SetText(request, "id.scope", Text(5 + random_.Below(30)));
  SetText(request, "id.key", Text(5 + random_.Below(200)));
  if (has_token) SetUInt64(request, "fencing_token", 1 + random_.Below(100));
}

void Spoiler::FillRest(Message* request) {
  for (const char* path : {"actor", "reason"}) {
    if (Find(request, path).field != nullptr) SetText(request, path, Text(5 + random_.Below(100)));
  }
  if (auto* reserve = dynamic_cast<v1::ReserveRequest*>(request)) {
    *reserve->mutable_fingerprint() = SentinelFingerprint();
    reserve->set_attempt_id(Text(16 + random_.Below(49)));
    if (random_.OneIn(2)) reserve->mutable_owner()->set_worker(Text(random_.Below(256)));
    if (random_.OneIn(2)) (*reserve->mutable_labels())["region"] = Text(20);
    if (random_.OneIn(2)) reserve->mutable_lease_duration()->set_seconds(5);
    reserve->set_start_over(random_.OneIn(2));
  } else if (auto* renew = dynamic_cast<v1::RenewRequest*>(request)) {
    if (random_.OneIn(2)) renew->set_progress(Text(random_.Below(4097)));
    renew->set_dispatched(random_.OneIn(2));
  } else if (auto* complete = dynamic_cast<v1::CompleteRequest*>(request)) {
    complete->set_verdict(v1::VERDICT_SUCCEEDED);
    complete->mutable_response()->set_body(Text(random_.Below(2000)));
  } else if (auto* get = dynamic_cast<v1::GetOperationRequest*>(request)) {
    *get->mutable_fingerprint() = SentinelFingerprint();
  } else if (auto* resolve = dynamic_cast<v1::ResolveOperationRequest*>(request)) {
    resolve->mutable_completed()->set_verdict(v1::VERDICT_FAILED);
  } else if (auto* erase = dynamic_cast<v1::DeleteOperationRequest*>(request)) {
    erase->set_force(random_.OneIn(2));
  } else if (auto* list = dynamic_cast<v1::ListOperationsRequest*>(request)) {
    list->set_namespace_("payments");
    if (random_.OneIn(2)) list->add_states(v1::OPERATION_STATE_UNRESOLVED);
  } else if (auto* name = dynamic_cast<v1::GetNamespaceRequest*>(request)) {
    name->set_name("payments");
  }
}

std::unique_ptr<Message> Spoiler::Valid(const MethodInfo& method) {
  std::unique_ptr<Message> request(method.request->New());
  FillId(request.get());
  FillRest(request.get());
  return request;
}

// --- Faults --------------------------------------------------------------------------------------

BadRequest Spoiler::Spoil(const Fault& fault) {
  const MethodInfo& method = InfoOf(fault.method);
  BadRequest bad{fault.name, &method, Valid(method), {"INVALID_FIELD", {fault.blamed}}};
  fault.spoil(bad.request.get(), &random_);
  return bad;
}

std::vector<BadRequest> Spoiler::OneFault() {
  std::vector<BadRequest> bad;
  for (const Fault& fault : faults_) bad.push_back(Spoil(fault));
  return bad;
}

BadRequest Spoiler::TwoFaults() {
  while (true) {
    const Fault& first = random_.Any(faults_);
    const Fault& second = random_.Any(faults_);
    if (first.method != second.method || Interfere(first, second)) continue;
    BadRequest bad = Spoil(first);
    second.spoil(bad.request.get(), &random_);
    bad.name += " and " + second.name;
    bad.expected.fields.push_back(second.blamed);
    return bad;
  }
}

// --- What ends an attempt ------------------------------------------------------------------------

namespace {

void SpoilTrimmings(v1::CompleteRequest* request, Random* random) {
  request->set_verdict(random->OneIn(2) ? v1::VERDICT_SUCCEEDED : v1::VERDICT_FAILED);
  request->set_provider_request_id(LongerThan(255, random));
  v1::CachedResponse* const response = request->mutable_response();
  response->set_status_message(NotUtf8(30, random));
  response->set_content_type(LongerThan(255, random));
  response->set_body(Letters(random->OneIn(20) ? 1'200'000 : 100, random));
  for (uint64_t i = random->Below(100); i > 0; --i) {
    v1::MetadataEntry* const entry = response->add_metadata();
    entry->set_name(random->OneIn(4) ? "set-cookie" : Letters(8, random));
    entry->set_value(Letters(200, random));
  }
}

void SpoilTrimmings(v1::MarkUnresolvedRequest* request, Random* random) {
  request->set_cause(static_cast<v1::UnresolvedCause>(random->OneIn(2) ? 99 : 6));
  request->set_provider_request_id(NotUtf8(40, random));
}

}  // namespace

BadRequest Spoiler::FinishingVerb() {
  constexpr std::array<Method, 3> kVerbs = {kComplete, kRelease, kMarkUnresolved};
  const MethodInfo& method = InfoOf(kVerbs[random_.Below(kVerbs.size())]);
  BadRequest bad{"a finishing verb with all trimmings wrong", &method, nullptr, {}};
  std::unique_ptr<Message>& request = bad.request;
  request.reset(method.request->New());
  if (auto* complete = dynamic_cast<v1::CompleteRequest*>(request.get())) {
    SpoilTrimmings(complete, &random_);
    random_.OneIn(2) ? SetNegative(complete, "retention", &random_)
                     : SetMalformed(complete, "retention", &random_);
  } else if (auto* mark = dynamic_cast<v1::MarkUnresolvedRequest*>(request.get())) {
    SpoilTrimmings(mark, &random_);
    SetMalformed(mark, "retry_after", &random_);
  }
  if (method.method != kComplete) {
    SetText(request.get(), "detail",
            random_.OneIn(2) ? LongerThan(1024, &random_) : NotUtf8(50, &random_));
  }
  const Sentinel& sentinel = random_.Any(sentinels_);
  Message* const id = Find(request.get(), "id.key").message;
  id->CopyFrom(sentinel.id);
  const uint64_t more = random_.OneIn(4) ? uint64_t{1} << 60 : 1 + random_.Below(1000);
  SetUInt64(request.get(), "fencing_token", sentinel.token + 1'000'000 + more);
  bad.expected.reason = "UNKNOWN_FENCING_TOKEN";
  if (random_.OneIn(3)) {
    SetText(request.get(), "id.key", Text(30));
    bad.expected.reason = "OPERATION_NOT_FOUND";
  }
  return bad;
}

// --- Refused for what is recorded or configured --------------------------------------------------

BadRequest Spoiler::On(const Sentinel& sentinel, Method method, const char* reason,
                       uint64_t token) {
  const MethodInfo& info = InfoOf(method);
  BadRequest bad{
      std::string(reason) + " on " + sentinel.id.key(), &info, Valid(info), {reason, {}}};
  Find(bad.request.get(), "id.key").message->CopyFrom(sentinel.id);
  if (token != 0) SetUInt64(bad.request.get(), "fencing_token", token);
  // Never the repeat of what ended an attempt.
  if (Find(bad.request.get(), "detail").field != nullptr) {
    SetText(bad.request.get(), "detail", Text(30));
  }
  return bad;
}

void Spoiler::AddOwners(std::vector<BadRequest>* bad) {
  struct Row {
    Kind kind;
    Method method;
    const char* reason;
  };
  constexpr Row kRows[] = {
      {Kind::kComplete, kRenew, "ALREADY_COMPLETE"},
      {Kind::kComplete, kComplete, "ALREADY_COMPLETE"},
      {Kind::kComplete, kRelease, "ALREADY_COMPLETE"},
      {Kind::kComplete, kMarkUnresolved, "ALREADY_COMPLETE"},
      {Kind::kUnresolved, kRenew, "LEASE_LAPSED"},
      {Kind::kUnresolved, kRelease, "OUTCOME_UNKNOWN"},
      {Kind::kFreed, kRenew, "LEASE_LAPSED"},
      {Kind::kFreed, kRelease, "STALE_FENCING_TOKEN"},
      {Kind::kFreed, kMarkUnresolved, "STALE_FENCING_TOKEN"},
  };
  for (const Sentinel& sentinel : sentinels_) {
    for (const Row& row : kRows) {
      if (row.kind == sentinel.kind) {
        bad->push_back(On(sentinel, row.method, row.reason, sentinel.token));
      }
    }
    for (const Method method : {kRenew, kComplete, kRelease, kMarkUnresolved}) {
      bad->push_back(On(sentinel, method, "UNKNOWN_FENCING_TOKEN", sentinel.token + 1'000'000));
    }
    if (sentinel.kind == Kind::kSuperseded) {
      bad->push_back(On(sentinel, kRenew, "STALE_FENCING_TOKEN", sentinel.older_token));
      bad->push_back(On(sentinel, kMarkUnresolved, "STALE_FENCING_TOKEN", sentinel.older_token));
    }
  }
}

void Spoiler::AddOperators(std::vector<BadRequest>* bad) {
  const auto resolve = [&](Kind kind, const char* reason) {
    bad->push_back(On(Of(kind), kResolveOperation, reason, 0));
    return static_cast<v1::ResolveOperationRequest*>(bad->back().request.get());
  };
  const auto erase = [&](Kind kind, const char* reason, bool force) {
    bad->push_back(On(Of(kind), kDeleteOperation, reason, 0));
    auto* const request = static_cast<v1::DeleteOperationRequest*>(bad->back().request.get());
    request->set_force(force);
    return request;
  };
  resolve(Kind::kPending, "LEASE_LIVE");
  resolve(Kind::kSuperseded, "LEASE_LIVE")->mutable_abandoned();
  resolve(Kind::kComplete, "WRONG_STATE");
  resolve(Kind::kFreed, "WRONG_STATE");
  resolve(Kind::kUnresolved, "NOT_SETTLED")->mutable_not_executed();
  resolve(Kind::kUnresolved, "ETAG_MISMATCH")->set_etag(Text(20));
  erase(Kind::kPending, "LEASE_LIVE", true);
  erase(Kind::kUnresolved, "WRONG_STATE", false);
  erase(Kind::kUnresolved, "ETAG_MISMATCH", true)->set_etag(Text(10));
  erase(Kind::kComplete, "ETAG_MISMATCH", false)->set_etag(Text(300));
}

void Spoiler::AddKeys(std::vector<BadRequest>* bad) {
  const auto reserve = [&](const char* name, Expected expected) {
    const MethodInfo& info = InfoOf(kReserve);
    bad->push_back(BadRequest{name, &info, Valid(info), std::move(expected)});
    auto* const request = static_cast<v1::ReserveRequest*>(bad->back().request.get());
    request->mutable_id()->set_namespace_("payments");
    request->mutable_id()->set_key(Text(20));
    return request;
  };
  const Expected key{"INVALID_FIELD", {"id.key"}};
  reserve("an e-mail address", key)->mutable_id()->set_key(Text(8) + "@example.com");
  reserve("a card number", key)->mutable_id()->set_key("4242424242424242");
  auto* long_key = reserve("longer than its namespace allows", key);
  long_key->mutable_id()->set_namespace_("strict");
  long_key->mutable_id()->set_key(Text(21 + random_.Below(200)));
  reserve("a namespace that nobody configured", {"NAMESPACE_NOT_FOUND", {}})
      ->mutable_id()
      ->set_namespace_(Text(20));
  const Sentinel& freed = Of(Kind::kFreed);
  auto* ended = reserve("an attempt that has ended", {"ATTEMPT_FINISHED", {}});
  *ended->mutable_id() = freed.id;
  ended->set_attempt_id(SentinelAttempt(freed));

  const MethodInfo& get = InfoOf(kGetNamespace);
  bad->push_back(BadRequest{
      "a namespace that nobody configured", &get, Valid(get), {"NAMESPACE_NOT_FOUND", {}}});
  SetText(bad->back().request.get(), "name", Text(20));
  for (const MethodInfo& info : Methods()) {
    const bool reads_absent = info.method != kReserve && info.method != kDeleteOperation;
    if (!reads_absent || Find(Valid(info).get(), "id").field == nullptr) continue;
    bad->push_back(
        BadRequest{"nothing is recorded", &info, Valid(info), {"OPERATION_NOT_FOUND", {}}});
    SetText(bad->back().request.get(), "id.key", Text(30));
  }
}

const Sentinel& Spoiler::Of(Kind kind) const {
  return *std::find_if(sentinels_.begin(), sentinels_.end(),
                       [kind](const Sentinel& sentinel) { return sentinel.kind == kind; });
}

std::vector<BadRequest> Spoiler::WrongState() {
  std::vector<BadRequest> bad;
  AddOwners(&bad);
  AddOperators(&bad);
  AddKeys(&bad);
  return bad;
}

}  // namespace idempotency::proof
