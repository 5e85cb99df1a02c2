#include "tests/proof/crash/load.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace idempotency::proof {
namespace {

constexpr int kClients = 8;
// Keys that everybody wants, in each round.
constexpr uint64_t kSharedKeys = 12;
// Facts from earlier rounds that each check looks at again.
constexpr size_t kOldFacts = 20;

struct Call {
  Call() { context.set_deadline(std::chrono::system_clock::time_point::max()); }
  grpc::ClientContext context;
};

template <typename Request>
Request ForKey(const std::string& key) {
  Request request;
  request.mutable_id()->set_namespace_("payments");
  request.mutable_id()->set_scope("acct_1");
  request.mutable_id()->set_key(key);
  return request;
}

std::string StateName(v1::OperationState state) { return v1::OperationState_Name(state); }

}  // namespace

// --- Grants, and progress ------------------------------------------------------------------------

bool Grants::Add(const std::string& key, const std::string& attempt, uint64_t token) {
  absl::MutexLock lock(&mutex_);
  const auto [owner, fresh] = tokens_.try_emplace(token, key + " " + attempt);
  if (!fresh && owner->second != key + " " + attempt) return false;
  if (key.rfind("shared", 0) != 0) return true;
  const auto [grant, first] = shared_.try_emplace(key, attempt, token);
  return first || grant->second == std::pair(attempt, token);
}

uint64_t Grants::TokenOf(const std::string& key) const {
  absl::MutexLock lock(&mutex_);
  const auto grant = shared_.find(key);
  return grant == shared_.end() ? 0 : grant->second.second;
}

std::vector<std::string> Grants::keys() const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::string> keys;
  for (const auto& [key, grant] : shared_) keys.push_back(key);
  return keys;
}

void Progress::Begins(int clients) {
  absl::MutexLock lock(&mutex_);
  running_ = clients;
}

void Progress::Acknowledged() {
  absl::MutexLock lock(&mutex_);
  ++acknowledged_;
}

void Progress::ClientEnds() {
  absl::MutexLock lock(&mutex_);
  --running_;
}

bool Progress::Await(uint64_t acknowledged) const {
  const auto over = [this, acknowledged] {
    mutex_.AssertHeld();
    return acknowledged_ >= acknowledged || running_ == 0;
  };
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&over));
  return acknowledged_ >= acknowledged;
}

uint64_t Progress::acknowledged() const {
  absl::MutexLock lock(&mutex_);
  return acknowledged_;
}

// --- One client ----------------------------------------------------------------------------------

void LoadClient::Run(std::shared_ptr<grpc::Channel> channel, uint64_t round, Progress* progress,
                     const std::atomic<bool>* deaf) {
  stub_ = v1::IdempotencyService::NewStub(std::move(channel));
  progress_ = progress;
  deaf_ = deaf;
  while (broken_.empty() && One(round)) {
  }
}

bool LoadClient::One(uint64_t round) {
  const uint64_t draw = random_.Below(10);
  if (draw == 0) {
    return ReserveShared("shared-" + std::to_string(round) + "-" +
                         std::to_string(random_.Below(kSharedKeys)));
  }
  // Half of the time a key of its own goes on, also one of an earlier round.
  if (draw < 5 && next_key_ > 0) {
    const std::string key = name_ + "-" + std::to_string(random_.Below(next_key_));
    touched_.insert(key);
    return GoOn(key, facts_[key]);
  }
  const std::string key = name_ + "-" + std::to_string(next_key_++);
  touched_.insert(key);
  return ReserveOwn(key, facts_[key]);
}

bool LoadClient::Break(const std::string& what) {
  broken_ = name_ + ": " + what;
  return false;
}

LoadClient::Heard LoadClient::Hear(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      if (*deaf_) return Heard::kNothing;
      progress_->Acknowledged();
      return Heard::kReply;
    // Nobody knows what has become of the call: the server has gone, or is about to.
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::CANCELLED:
      return Heard::kGone;
    // Refused for load or space, without effect.
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return Heard::kNothing;
    default:
      Break(status.error_message());
      return Heard::kGone;
  }
}

LoadClient::Heard LoadClient::Settle(const grpc::Status& status, Fact& fact) {
  const Heard heard = Hear(status);
  if (heard != Heard::kReply) return heard;
  fact.state = fact.perhaps;
  fact.body = fact.perhaps_body;
  fact.perhaps = v1::OPERATION_STATE_UNSPECIFIED;
  fact.perhaps_body.clear();
  return heard;
}

bool LoadClient::ReserveOwn(const std::string& key, Fact& fact) {
  auto request = ForKey<v1::ReserveRequest>(key);
  request.mutable_fingerprint()->set_algorithm("sha256/bytes-1");
  request.mutable_fingerprint()->set_digest(std::string(32, 'f'));
  request.set_attempt_id("attempt-" + key + "-0123456789");
  request.mutable_lease_duration()->set_seconds(3600);
  v1::ReserveResponse response;
  Call call;
  fact.perhaps = v1::OPERATION_STATE_PENDING;
  const Heard heard = Settle(stub_->Reserve(&call.context, request, &response), fact);
  if (heard != Heard::kReply) return heard == Heard::kNothing;
  const bool repeated = response.outcome() == v1::RESERVE_OUTCOME_ALREADY_HELD;
  if (response.outcome() != v1::RESERVE_OUTCOME_ACQUIRED && !repeated) {
    return Break(key + " is not granted: " + response.ShortDebugString());
  }
  if (repeated && fact.token != 0 && fact.token != response.lease().fencing_token()) {
    return Break(key + " is held with another token");
  }
  fact.token = response.lease().fencing_token();
  return grants_->Add(key, request.attempt_id(), fact.token) || Break("a token was given twice");
}

bool LoadClient::ReserveShared(const std::string& key) {
  auto request = ForKey<v1::ReserveRequest>(key);
  request.mutable_fingerprint()->set_algorithm("sha256/bytes-1");
  request.mutable_fingerprint()->set_digest(std::string(32, 's'));
  request.set_attempt_id("attempt-" + name_ + "-" + key + "-0123456789");
  request.mutable_lease_duration()->set_seconds(3600);
  v1::ReserveResponse response;
  Call call;
  const Heard heard = Hear(stub_->Reserve(&call.context, request, &response));
  if (heard != Heard::kReply) return heard == Heard::kNothing;
  const bool granted = response.outcome() == v1::RESERVE_OUTCOME_ACQUIRED ||
                       response.outcome() == v1::RESERVE_OUTCOME_ALREADY_HELD;
  if (!granted) return true;
  return grants_->Add(key, request.attempt_id(), response.lease().fencing_token()) ||
         Break(key + " was granted twice");
}

bool LoadClient::GoOn(const std::string& key, Fact& fact) {
  // An answer that never came: the same message again, whichever it was.
  if (fact.token == 0) return ReserveOwn(key, fact);
  if (fact.perhaps == v1::OPERATION_STATE_COMPLETE) return Complete(key, fact);
  if (fact.perhaps == v1::OPERATION_STATE_UNRESOLVED) return Mark(key, fact);
  if (fact.perhaps == v1::OPERATION_STATE_FREED) return Release(key, fact);
  if (fact.state == v1::OPERATION_STATE_UNRESOLVED) return Complete(key, fact);
  if (fact.state != v1::OPERATION_STATE_PENDING) return true;
  switch (random_.Below(4)) {
    case 0:
      return Mark(key, fact);
    case 1:
      return Release(key, fact);
    default:
      return Complete(key, fact);
  }
}

bool LoadClient::Complete(const std::string& key, Fact& fact) {
  auto request = ForKey<v1::CompleteRequest>(key);
  request.set_fencing_token(fact.token);
  request.set_verdict(v1::VERDICT_SUCCEEDED);
  request.mutable_response()->set_body("answer to " + key + std::string(200, '.'));
  fact.perhaps = v1::OPERATION_STATE_COMPLETE;
  fact.perhaps_body = request.response().body();
  v1::CompleteResponse response;
  Call call;
  return Settle(stub_->Complete(&call.context, request, &response), fact) != Heard::kGone;
}

bool LoadClient::Mark(const std::string& key, Fact& fact) {
  auto request = ForKey<v1::MarkUnresolvedRequest>(key);
  request.set_fencing_token(fact.token);
  request.set_cause(v1::UNRESOLVED_CAUSE_TIMEOUT);
  fact.perhaps = v1::OPERATION_STATE_UNRESOLVED;
  v1::MarkUnresolvedResponse response;
  Call call;
  return Settle(stub_->MarkUnresolved(&call.context, request, &response), fact) != Heard::kGone;
}

bool LoadClient::Release(const std::string& key, Fact& fact) {
  auto request = ForKey<v1::ReleaseRequest>(key);
  request.set_fencing_token(fact.token);
  fact.perhaps = v1::OPERATION_STATE_FREED;
  v1::ReleaseResponse response;
  Call call;
  return Settle(stub_->Release(&call.context, request, &response), fact) != Heard::kGone;
}

// --- What is found afterwards --------------------------------------------------------------------

std::string LoadClient::CheckOne(v1::IdempotencyAdminService::Stub& admin, const std::string& key,
                                 Fact& fact) {
  v1::InspectOperationResponse found;
  Call call;
  const grpc::Status status =
      admin.InspectOperation(&call.context, ForKey<v1::InspectOperationRequest>(key), &found);
  if (status.error_code() == grpc::StatusCode::NOT_FOUND) {
    return fact.state == v1::OPERATION_STATE_UNSPECIFIED ? "" : key + " is gone";
  }
  if (!status.ok()) return key + ": " + status.error_message();
  const v1::OperationState state = found.operation().state();
  const std::string& body = found.operation().response().body();
  const bool as_told = state == fact.state && body == fact.body;
  const bool as_asked = state == fact.perhaps && body == fact.perhaps_body;
  if (!as_told && !as_asked) {
    return key + " is " + StateName(state) + " where " + StateName(fact.state) +
           " was acknowledged and " + StateName(fact.perhaps) + " asked";
  }
  if (fact.token != 0 && found.fencing_token() != fact.token) return key + " has another token";
  // What a lost reply would have said; the token is learnt by asking again.
  if (as_asked && !as_told) {
    fact.state = state;
    fact.body = body;
  }
  return {};
}

std::string LoadClient::Check(v1::IdempotencyAdminService::Stub& admin, bool everything) {
  if (!broken_.empty()) return broken_;
  // What was freed long ago is rightly forgotten.
  const auto look_again = [this](const std::string& key, const Fact& fact) {
    const bool freed =
        fact.state == v1::OPERATION_STATE_FREED || fact.perhaps == v1::OPERATION_STATE_FREED;
    if (!freed) touched_.insert(key);
  };
  if (everything) {
    for (const auto& [key, fact] : facts_) look_again(key, fact);
  }
  for (size_t i = 0; i < kOldFacts && next_key_ > 0; ++i) {
    const std::string key = name_ + "-" + std::to_string(random_.Below(next_key_));
    look_again(key, facts_[key]);
  }
  for (const std::string& key : touched_) {
    std::string wrong = CheckOne(admin, key, facts_[key]);
    if (!wrong.empty()) return wrong;
  }
  touched_.clear();
  return {};
}

// --- All of them ---------------------------------------------------------------------------------

Load::Load(uint64_t seed) {
  for (int i = 0; i < kClients; ++i) {
    clients_.push_back(std::make_unique<LoadClient>(seed * kClients + static_cast<uint64_t>(i),
                                                    "c" + std::to_string(i), &grants_));
  }
}

std::string Load::Run(const Daemon& daemon, uint64_t acknowledged, const std::function<void()>& end,
                      Hearing hearing) {
  const uint64_t enough = progress_.acknowledged() + acknowledged;
  ++round_;
  std::atomic<bool> deaf{false};
  progress_.Begins(kClients);
  std::vector<std::thread> threads;
  for (const auto& client : clients_) {
    threads.emplace_back([&, this] {
      client->Run(daemon.Connect(), round_, &progress_, &deaf);
      progress_.ClientEnds();
    });
  }
  const bool reached = progress_.Await(enough);
  deaf = hearing == Hearing::kUntilEnd;
  end();
  for (std::thread& thread : threads) thread.join();
  for (const auto& client : clients_) {
    if (!client->broken().empty()) return client->broken();
  }
  return reached ? "" : "the server went away by itself";
}

std::string Load::CheckShared(v1::IdempotencyAdminService::Stub& admin) {
  for (uint64_t i = 0; i < kSharedKeys; ++i) {
    const std::string key = "shared-" + std::to_string(round_) + "-" + std::to_string(i);
    v1::InspectOperationResponse found;
    Call call;
    const grpc::Status status =
        admin.InspectOperation(&call.context, ForKey<v1::InspectOperationRequest>(key), &found);
    const uint64_t token = grants_.TokenOf(key);
    if (status.error_code() == grpc::StatusCode::NOT_FOUND && token == 0) continue;
    if (!status.ok()) return key + ": " + status.error_message();
    if (token != 0 && found.fencing_token() != token) return key + " has another token";
    const auto& history = found.operation().history();
    const auto grants = std::count_if(history.begin(), history.end(), [](const v1::Event& event) {
      return event.kind() == v1::EVENT_KIND_ACQUIRED;
    });
    if (grants != 1) return key + " was granted " + std::to_string(grants) + " times";
  }
  return {};
}

std::string Load::Check(const Daemon& daemon, bool everything) {
  const auto admin = v1::IdempotencyAdminService::NewStub(daemon.Connect());
  for (const auto& client : clients_) {
    std::string wrong = client->Check(*admin, everything);
    if (!wrong.empty()) return wrong;
  }
  return CheckShared(*admin);
}

size_t Load::facts() const {
  size_t facts = 0;
  for (const auto& client : clients_) facts += client->facts();
  return facts;
}

}  // namespace idempotency::proof
