#include "client/src/testing/review_world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace idempotency::testing {
namespace {

// Real time: a duplicate that blocks in a way nobody sees is not waited for any longer.
constexpr absl::Duration kShowTimeout = absl::Seconds(2);

EffectResult ServerError() {
  return EffectResult::Answered(
      CachedResponse{.status = CachedResponse::HttpStatus{500}, .body = "server error"});
}

EffectResult TimedOut() {
  return EffectResult::Failed(absl::DeadlineExceededError("no answer in time"));
}

EffectResult Gone() { return EffectResult::Failed(absl::UnavailableError("the process has died")); }

bool HappensAfter(ProviderFault fault) {
  switch (fault) {
    case ProviderFault::kServerErrorBefore:
    case ProviderFault::kTimeoutBefore:
    case ProviderFault::kCrashBefore:
      return false;
    case ProviderFault::kNone:
    case ProviderFault::kServerErrorAfter:
    case ProviderFault::kTimeoutAfter:
    case ProviderFault::kCrashAfter:
      break;
  }
  return true;
}

}  // namespace

// --- The provider --------------------------------------------------------------------------------

CachedResponse ProviderBook::Apply(const std::string& key, const std::string& request) {
  const SystemTime now = environment_->WallNow();
  const auto known = entries_.find(key);
  const bool recognised = knows_keys_ && !key.empty() && known != entries_.end() &&
                          now < known->second.time + remembers_;
  if (recognised && known->second.request == request) return known->second.answer;
  if (recognised) {
    return CachedResponse{.status = CachedResponse::HttpStatus{422},
                          .body = "the key was used for another request"};
  }
  ++effects_;
  CachedResponse answer{.status = CachedResponse::HttpStatus{200},
                        .content_type = "text/plain",
                        .body = absl::StrCat("effect ", effects_, " of ", request)};
  entries_[key] = Entry{request, answer, now};
  return answer;
}

EffectResult ProviderBook::Do(const std::string& key, const std::string& request,
                              const std::function<void()>& die) {
  ProviderFault fault = ProviderFault::kNone;
  bool first = false;
  {
    absl::MutexLock lock(&mutex_);
    const size_t number = keys_.size();
    first = number == 0;
    if (number < faults_.size()) fault = faults_[number];
    keys_.push_back(key);
  }
  if (first && on_request) on_request();
  CachedResponse answer;
  if (HappensAfter(fault)) {
    absl::MutexLock lock(&mutex_);
    answer = Apply(key, request);
  }
  if (first && on_answer) on_answer();
  switch (fault) {
    case ProviderFault::kNone:
      return EffectResult::Answered(std::move(answer));
    case ProviderFault::kServerErrorBefore:
    case ProviderFault::kServerErrorAfter:
      return ServerError();
    case ProviderFault::kTimeoutBefore:
    case ProviderFault::kTimeoutAfter:
      return TimedOut();
    case ProviderFault::kCrashBefore:
    case ProviderFault::kCrashAfter:
      die();
      return Gone();
  }
  return Gone();
}

LookUp ProviderBook::Find(const std::string& key) {
  absl::MutexLock lock(&mutex_);
  const auto known = entries_.find(key);
  if (known == entries_.end()) {
    return LookUp{.found = LookUp::Found::kNotThere, .evidence = "the provider knows no such key"};
  }
  return LookUp{.found = LookUp::Found::kHappened,
                .response = known->second.answer,
                .evidence = "the provider has it"};
}

size_t ProviderBook::calls() const {
  absl::MutexLock lock(&mutex_);
  return keys_.size();
}

size_t ProviderBook::effects() const {
  absl::MutexLock lock(&mutex_);
  return effects_;
}

std::vector<std::string> ProviderBook::keys() const {
  absl::MutexLock lock(&mutex_);
  return keys_;
}

// --- A process -----------------------------------------------------------------------------------

void ReviewProcess::Die() {
  absl::MutexLock lock(&mutex_);
  dead_ = true;
}

void ReviewProcess::Cut(bool cut) {
  absl::MutexLock lock(&mutex_);
  cut_ = cut;
}

void ReviewProcess::LoseReplies(bool of_reserve, bool of_complete) {
  absl::MutexLock lock(&mutex_);
  lose_reserve_ = of_reserve;
  lose_complete_ = of_complete;
}

void ReviewProcess::AwaitShown() {
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(&shown_), kShowTimeout);
}

void ReviewProcess::Show() {
  absl::MutexLock lock(&mutex_);
  shown_ = true;
}

Duration ReviewProcess::lease() const {
  absl::MutexLock lock(&mutex_);
  return lease_;
}

absl::Status ReviewProcess::Reaches() const {
  absl::MutexLock lock(&mutex_);
  if (dead_) {
    return MakeRefused({.reason = ErrorReason::kAccessDenied}, absl::StatusCode::kPermissionDenied,
                       "the process has died");
  }
  return cut_ ? absl::UnavailableError("the service cannot be reached") : absl::OkStatus();
}

bool ReviewProcess::TakeLoss(bool ReviewProcess::*loss) {
  absl::MutexLock lock(&mutex_);
  return std::exchange(this->*loss, false);
}

absl::StatusOr<ReserveResponse> ReviewProcess::Reserve(const ReserveRequest& request,
                                                       const CallOptions& options) {
  if (request.wait_duration > Duration(0)) Show();
  absl::StatusOr<ReserveResponse> response = Pass(&Connection::Reserve, request, options);
  Show();
  if (response.ok() && response->lease.has_value()) {
    absl::MutexLock lock(&mutex_);
    lease_ = std::max(lease_, response->lease->remaining);
  }
  if (response.ok() && TakeLoss(&ReviewProcess::lose_reserve_))
    return absl::UnavailableError("reply lost");
  return response;
}

absl::StatusOr<RenewResponse> ReviewProcess::Renew(const RenewRequest& request,
                                                   const CallOptions& options) {
  return Pass(&Connection::Renew, request, options);
}

absl::StatusOr<CompleteResponse> ReviewProcess::Complete(const CompleteRequest& request,
                                                         const CallOptions& options) {
  absl::StatusOr<CompleteResponse> response = Pass(&Connection::Complete, request, options);
  if (response.ok() && TakeLoss(&ReviewProcess::lose_complete_))
    return absl::UnavailableError("reply lost");
  return response;
}

absl::StatusOr<ReleaseResponse> ReviewProcess::Release(const ReleaseRequest& request,
                                                       const CallOptions& options) {
  return Pass(&Connection::Release, request, options);
}

absl::StatusOr<MarkUnresolvedResponse> ReviewProcess::MarkUnresolved(
    const MarkUnresolvedRequest& request, const CallOptions& options) {
  return Pass(&Connection::MarkUnresolved, request, options);
}

absl::StatusOr<GetOperationResponse> ReviewProcess::GetOperation(const GetOperationRequest& request,
                                                                 const CallOptions& options) {
  return Pass(&Connection::GetOperation, request, options);
}

absl::StatusOr<Operation> ReviewProcess::Resolve(const ResolveRequest& request,
                                                 const CallOptions& options) {
  return Pass(&Connection::Resolve, request, options);
}

absl::StatusOr<ListOperationsResponse> ReviewProcess::ListOperations(
    const ListOperationsRequest& request, const CallOptions& options) {
  return Pass(&Connection::ListOperations, request, options);
}

void ReviewProcess::AsyncRenew(RenewRequest request, CallOptions options, RenewDone done) {
  if (absl::Status reaches = Reaches(); !reaches.ok()) return std::move(done)(std::move(reaches));
  service_->AsyncRenew(std::move(request), std::move(options), std::move(done));
}

EffectResult ReviewProcess::Do(const std::string& key, const std::string& request) {
  Show();
  {
    absl::MutexLock lock(&mutex_);
    if (dead_) return Gone();
  }
  return provider_->Do(key, request, [this] { Die(); });
}

LookUp ReviewProcess::Find(const std::string& key) {
  {
    absl::MutexLock lock(&mutex_);
    if (dead_) return LookUp{};
  }
  return provider_->Find(key);
}

}  // namespace idempotency::testing
