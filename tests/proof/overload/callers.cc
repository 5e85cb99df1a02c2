#include "tests/proof/overload/callers.h"

#include <algorithm>
#include <optional>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpc/support/time.h"
#include "tests/bench/clock.h"

namespace idempotency::proof {
namespace {

using bench::MonotonicNanos;
using bench::Nanos;

constexpr char kAttempt[] = "attempt-0123456789abcdef";
constexpr int64_t kTenth = 100 * bench::kNanosPerMilli;
// A holder that reports does not give up soon.
constexpr int64_t kFinishingNanos = 10 * bench::kNanosPerSecond;
// One granted in so many is finished; and of the others one in so many is looked for at the end.
constexpr uint64_t kFinishedOneIn = 8;
constexpr uint64_t kRememberedOneIn = 4;
constexpr size_t kMostFacts = 100'000;
constexpr size_t kMostComplaints = 5;
// Less than the shortest queue of a proof admits (20 of 32): the check is no overload.
constexpr int kCheckedAtOnce = 16;

gpr_timespec After(int64_t nanos) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(nanos, GPR_TIMESPAN));
}

void SetId(uint64_t seed, uint64_t number, v1::OperationId* id) {
  id->set_namespace_("payments");
  id->set_scope("acct_1");
  id->set_key("crowd-" + std::to_string(seed) + "-" + std::to_string(number));
}

void Fill(uint64_t seed, uint64_t number, v1::ReserveRequest* request) {
  SetId(seed, number, request->mutable_id());
  request->mutable_fingerprint()->set_algorithm("sha256/bytes-1");
  request->mutable_fingerprint()->set_digest(std::string(32, 'f'));
  request->set_attempt_id(kAttempt);
  request->mutable_lease_duration()->set_seconds(3600);
}

// The delay that a refusal asks for, in nanoseconds; unset: it says nothing of it.
std::optional<int64_t> RetryDelay(const grpc::Status& status) {
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return std::nullopt;
  for (const auto& detail : details.details()) {
    google::rpc::RetryInfo retry;
    if (!detail.UnpackTo(&retry)) continue;
    return retry.retry_delay().seconds() * bench::kNanosPerSecond + retry.retry_delay().nanos();
  }
  return std::nullopt;
}

template <typename Response>
using Reader = std::unique_ptr<grpc::ClientAsyncResponseReader<Response>>;

}  // namespace

struct Callers::Caller {
  size_t index = 0;
  v1::IdempotencyService::Stub* stub = nullptr;
  bool busy = false;     // a call is under way
  bool away = false;     // was told to come back later
  bool has_key = false;  // a key that it has not got yet
  uint64_t number = 0;
  uint64_t token = 0;
  std::optional<Became> finishing;  // what the call under way reports
  int64_t sent = 0;
  std::optional<grpc::ClientContext> context;
  grpc::Status status;
  v1::ReserveResponse reserved;
  v1::CompleteResponse completed;
  v1::ReleaseResponse released;
  v1::MarkUnresolvedResponse marked;
  Reader<v1::ReserveResponse> reserve;
  Reader<v1::CompleteResponse> complete;
  Reader<v1::ReleaseResponse> release;
  Reader<v1::MarkUnresolvedResponse> mark;
};

Callers::Callers(const std::vector<std::shared_ptr<grpc::Channel>>& channels, uint64_t seed,
                 size_t count)
    : seed_(seed) {
  for (const auto& channel : channels) stubs_.push_back(v1::IdempotencyService::NewStub(channel));
  for (size_t i = 0; i < count; ++i) {
    callers_.push_back(std::make_unique<Caller>());
    callers_.back()->index = i;
    callers_.back()->stub = stubs_[i % stubs_.size()].get();
  }
}

Callers::~Callers() {
  Finish();
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

void Callers::SetDeadline(double milliseconds, bool silent) {
  deadline_nanos_ = Nanos(milliseconds / 1000);
  silent_ = silent;
}

void Callers::SetImpatience(double seconds) { longest_away_nanos_ = Nanos(seconds); }

Phase Callers::Work(size_t first, size_t count, double seconds) {
  first_ = first;
  end_ = std::min(first + count, callers_.size());
  phase_ = Phase{};
  phase_begin_ = MonotonicNanos();
  const int64_t end = phase_begin_ + Nanos(seconds);
  phase_.tenths.resize(static_cast<size_t>(Nanos(seconds) / kTenth));
  for (size_t i = first_; i < end_; ++i) {
    Caller& caller = *callers_[i];
    if (!caller.busy && !caller.away) Begin(caller);
  }
  while (MonotonicNanos() < end) Advance(end);
  return std::move(phase_);
}

void Callers::Finish() {
  first_ = end_ = 0;
  phase_begin_ = MonotonicNanos();
  while (in_flight_ > 0) Advance(MonotonicNanos() + kFinishingNanos);
}

bool Callers::Works(const Caller& caller) const {
  return caller.index >= first_ && caller.index < end_;
}

// --- Calling ------------------------------------------------------------------------------------

void Callers::Begin(Caller& caller) {
  if (!caller.has_key) caller.number = next_number_++;
  caller.has_key = true;
  caller.finishing.reset();
  SendReserve(caller);
}

void Callers::SendReserve(Caller& caller) {
  v1::ReserveRequest request;
  Fill(seed_, caller.number, &request);
  caller.context.emplace();
  caller.context->set_deadline(After(silent_ ? kFinishingNanos : deadline_nanos_));
  caller.reserved.Clear();
  caller.sent = MonotonicNanos();
  caller.busy = true;
  ++in_flight_;
  caller.reserve = caller.stub->AsyncReserve(&*caller.context, request, &queue_);
  caller.reserve->Finish(&caller.reserved, &caller.status, &caller);
}

void Callers::SendFinishing(Caller& caller) {
  caller.context.emplace();
  caller.context->set_deadline(After(kFinishingNanos));
  caller.busy = true;
  ++in_flight_;
  if (*caller.finishing == Became::kCompleted) {
    v1::CompleteRequest request;
    SetId(seed_, caller.number, request.mutable_id());
    request.set_fencing_token(caller.token);
    request.set_verdict(v1::VERDICT_SUCCEEDED);
    request.mutable_response()->set_body("{}");
    caller.complete = caller.stub->AsyncComplete(&*caller.context, request, &queue_);
    caller.complete->Finish(&caller.completed, &caller.status, &caller);
  } else if (*caller.finishing == Became::kReleased) {
    v1::ReleaseRequest request;
    SetId(seed_, caller.number, request.mutable_id());
    request.set_fencing_token(caller.token);
    caller.release = caller.stub->AsyncRelease(&*caller.context, request, &queue_);
    caller.release->Finish(&caller.released, &caller.status, &caller);
  } else {
    v1::MarkUnresolvedRequest request;
    SetId(seed_, caller.number, request.mutable_id());
    request.set_fencing_token(caller.token);
    request.set_cause(v1::UNRESOLVED_CAUSE_TIMEOUT);
    caller.mark = caller.stub->AsyncMarkUnresolved(&*caller.context, request, &queue_);
    caller.mark->Finish(&caller.marked, &caller.status, &caller);
  }
}

// --- Being answered -----------------------------------------------------------------------------

void Callers::Advance(int64_t until) {
  const int64_t wake = away_.empty() ? until : std::min(until, away_.top().first);
  void* tag = nullptr;
  bool ok = false;
  const auto got =
      queue_.AsyncNext(&tag, &ok, After(std::max<int64_t>(wake - MonotonicNanos(), 0)));
  const int64_t now = MonotonicNanos();
  if (got == grpc::CompletionQueue::GOT_EVENT) OnAnswer(*static_cast<Caller*>(tag), now);
  Wake(now);
}

void Callers::Wake(int64_t now) {
  while (!away_.empty() && away_.top().first <= now) {
    Caller& caller = *callers_[away_.top().second];
    away_.pop();
    caller.away = false;
    GoOn(caller);
  }
}

void Callers::GoOn(Caller& caller) {
  if (Works(caller)) Begin(caller);
}

Tenth& Callers::TenthAt(int64_t now) {
  static Tenth nowhere;
  const auto tenth = static_cast<size_t>((now - phase_begin_) / kTenth);
  return tenth < phase_.tenths.size() ? phase_.tenths[tenth] : nowhere;
}

void Callers::OnAnswer(Caller& caller, int64_t now) {
  caller.busy = false;
  --in_flight_;
  if (caller.finishing) {
    OnFinished(caller);
  } else {
    OnReserved(caller, now);
  }
}

void Callers::OnReserved(Caller& caller, int64_t now) {
  const auto code = caller.status.error_code();
  if (code == grpc::StatusCode::RESOURCE_EXHAUSTED) return OnRefused(caller, now);
  const int64_t took = now - caller.sent;
  Tenth& tenth = TenthAt(now);
  if (code == grpc::StatusCode::DEADLINE_EXCEEDED) {
    // It may hold the key or not: it goes on with the same one, as the same attempt.
    ++tenth.late;
    return GoOn(caller);
  }
  const bool granted = caller.reserved.outcome() == v1::RESERVE_OUTCOME_ACQUIRED ||
                       caller.reserved.outcome() == v1::RESERVE_OUTCOME_ALREADY_HELD;
  if (code != grpc::StatusCode::OK || !granted) Complain(caller, "a Reserve");
  caller.has_key = false;
  if (!granted) return GoOn(caller);
  if (took > deadline_nanos_) {
    ++tenth.late;
  } else {
    ++tenth.good;
    tenth.good_ms.push_back(static_cast<float>(took) / bench::kNanosPerMilli);
  }
  caller.token = caller.reserved.lease().fencing_token();
  ++granted_;
  if (granted_ % kFinishedOneIn == 0) {
    constexpr Became kWays[] = {Became::kCompleted, Became::kReleased, Became::kMarked};
    caller.finishing = kWays[granted_ / kFinishedOneIn % 3];
    return SendFinishing(caller);
  }
  if (granted_ % kRememberedOneIn == 1) Remember({caller.number, caller.token, Became::kHeld});
  GoOn(caller);
}

// The effect has happened, or was given up: nothing may refuse to hear of it.
void Callers::OnFinished(Caller& caller) {
  if (caller.status.ok()) {
    ++phase_.finished;
    Remember({caller.number, caller.token, *caller.finishing});
  } else {
    Complain(caller, "a finishing verb");
  }
  GoOn(caller);
}

void Callers::OnRefused(Caller& caller, int64_t now) {
  Tenth& tenth = TenthAt(now);
  ++tenth.refused;
  tenth.refused_ms.push_back(static_cast<float>(now - caller.sent) / bench::kNanosPerMilli);
  const std::optional<int64_t> delay = RetryDelay(caller.status);
  if (!delay) ++phase_.without_retry_info;
  phase_.longest_delay_seconds =
      std::max(phase_.longest_delay_seconds, bench::Seconds(delay.value_or(0)));
  caller.away = true;
  away_.emplace(now + std::min(delay.value_or(bench::kNanosPerSecond), longest_away_nanos_),
                caller.index);
}

void Callers::Complain(const Caller& caller, const std::string& what) {
  if (phase_.wrong.size() >= kMostComplaints) return;
  phase_.wrong.push_back(what + ": code " + std::to_string(caller.status.error_code()) + " " +
                         caller.status.error_message() + " " +
                         v1::ReserveOutcome_Name(caller.reserved.outcome()));
}

// --- What is there afterwards -------------------------------------------------------------------

void Callers::Remember(const Fact& fact) {
  if (facts_.size() < kMostFacts) facts_.push_back(fact);
}

std::string Callers::Check(const std::shared_ptr<grpc::Channel>& channel) const {
  const auto stub = v1::IdempotencyService::NewStub(channel);
  const auto is_there = [](const Fact& fact, const v1::Result& result) {
    switch (fact.became) {
      case Became::kHeld:
        return result.reserve().outcome() == v1::RESERVE_OUTCOME_ALREADY_HELD &&
               result.reserve().lease().fencing_token() == fact.token;
      case Became::kCompleted:
        return result.reserve().outcome() == v1::RESERVE_OUTCOME_COMPLETED;
      case Became::kMarked:
        return result.reserve().outcome() == v1::RESERVE_OUTCOME_UNRESOLVED;
      case Became::kReleased:
        return result.error().reason() == v1::ERROR_REASON_ATTEMPT_FINISHED;
    }
    return false;
  };
  for (size_t at = 0; at < facts_.size();) {
    const size_t from = at;
    v1::BatchRequest request;
    for (; at < facts_.size() && request.commands_size() < kCheckedAtOnce; ++at) {
      Fill(seed_, facts_[at].number, request.add_commands()->mutable_reserve());
    }
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(After(kFinishingNanos));
    v1::BatchResponse response;
    const grpc::Status status = stub->Batch(&context, request, &response);
    if (!status.ok()) return "cannot ask: " + status.error_message();
    for (size_t i = from; i < at; ++i) {
      const v1::Result& result = response.results(static_cast<int>(i - from));
      if (is_there(facts_[i], result)) continue;
      return "what was acknowledged of number " + std::to_string(facts_[i].number) +
             " is not there: " + result.ShortDebugString();
    }
  }
  return "";
}

}  // namespace idempotency::proof
