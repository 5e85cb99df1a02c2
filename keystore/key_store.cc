#include "keystore/key_store.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "keystore/handshake.h"
#include "keystore/key_hash.h"
#include "keystore/lane.h"
#include "keystore/lister.h"
#include "keystore/pushback.h"

namespace idempotency::keystore {
namespace {

constexpr size_t kLoadPage = 1000;
// Which part of the queue a tenant may take above what is admitted.
constexpr size_t kPlacesOfItsOwn = 64;

Observer* NoObserver() {
  static Observer* const kNone = new Observer;
  return kNone;
}

// How much of the queue a command may find taken and still be admitted: finishing verbs
// always, then Renew, Release, reads and last Reserve, so that load keeps new work out before
// it hurts work that has begun.
size_t AdmittedBelow(const core::Command& command, size_t max_queued) {
  if (IsFinishing(command)) return SIZE_MAX;
  // Taken from the whole, so that also a very short queue has room for every verb.
  const size_t eighth = max_queued / 8;
  if (std::holds_alternative<core::RenewCommand>(command)) return max_queued;
  if (std::holds_alternative<core::ReleaseCommand>(command)) return max_queued - eighth;
  if (std::holds_alternative<core::ReserveCommand>(command)) return max_queued - 3 * eighth;
  return max_queued - 2 * eighth;
}

// The policy, knowing what the store has lost.
std::shared_ptr<const core::Policy> WithLoss(const std::shared_ptr<const core::Policy>& policy,
                                             core::Time lost_before) {
  if (!core::IsSet(lost_before) || policy->lost_before == lost_before) return policy;
  core::Policy informed = *policy;
  informed.lost_before = lost_before;
  return std::make_shared<const core::Policy>(std::move(informed));
}

// Where the engine's hints go: nowhere, once the key store is gone, which waits for those that
// are being seen to.
struct HintGate {
  absl::Mutex mutex;
  bool open ABSL_GUARDED_BY(mutex) = true;
  int inside ABSL_GUARDED_BY(mutex) = 0;

  bool Enter() {
    absl::MutexLock lock(&mutex);
    if (open) ++inside;
    return open;
  }
  void Leave() {
    absl::MutexLock lock(&mutex);
    --inside;
  }
  void Close() {
    absl::MutexLock lock(&mutex);
    open = false;
    mutex.Await(absl::Condition(
        +[](int* count) { return *count == 0; }, &inside));
  }
};

}  // namespace

class KeyStore::Impl {
 public:
  Impl(Engine* engine, Clock* clock, Observer* observer, KeyStoreOptions options) {
    shared_.engine = engine;
    shared_.clock = clock;
    shared_.observer = observer == nullptr ? NoObserver() : observer;
    shared_.options = std::move(options);
    shared_.traits = engine->traits();
    shared_.traits.lost_before = std::max(shared_.traits.lost_before, shared_.options.lost_before);
    const size_t lanes = std::max<size_t>(shared_.options.lanes, 1);
    for (size_t i = 0; i < lanes; ++i) lanes_.push_back(std::make_unique<Lane>(&shared_));
    shared_.tenants.AskBytesOf(
        [engine](std::string_view name_space, std::optional<std::string_view> scope) {
          return engine->StoredBytes(name_space, scope);
        });
    shared_.end_all_waits = [this] {
      for (const auto& lane : lanes_) lane->EndWaits();
    };
    engine->OnForeignChange([this, gate = hint_gate_](const core::Key& key) {
      if (!gate->Enter()) return;
      lanes_[LaneOf(key)]->Wake(key);
      gate->Leave();
    });
  }

  ~Impl() {
    Drain();
    hint_gate_->Close();
  }

  size_t LaneOf(const core::Key& key) const {
    return lanes_.size() == 1 ? 0 : KeyHash()(key) % lanes_.size();
  }

  // Its caller has stopped listening before it came here, and has nothing to report.
  static bool IsTooLate(const Request& request) {
    return request.time_left && *request.time_left <= core::Duration::zero() &&
           MayBeDropped(request.command);
  }

  // A queue that somebody else has filled has a few places left for whoever has hardly anything in
  // it: otherwise the one who sends most would keep all others out.
  bool HasPlaceOfItsOwn(const core::Key& key, size_t lane, size_t queued) const {
    const size_t most = shared_.options.max_queued_commands;
    return queued < 2 * most && lanes_[lane]->QueuedOf(TenantOf(key)) < most / kPlacesOfItsOwn;
  }

  // Whether its turn would come too late, as fast as the queue moves.
  bool IsTooFarBack(const core::Key& key, size_t lane, size_t queued, core::Duration left) const {
    const Lane& of = *lanes_[lane];
    const size_t in_lane = queued / lanes_.size();
    // Looking at whose turn is when takes a lock: only where it matters.
    return of.TimeFor(in_lane) >= left && of.TimeFor(of.AheadOf(TenantOf(key), in_lane)) >= left;
  }

  // Why the command is not admitted, or kNone.
  core::Reason Admit(Request& request, size_t lane) {
    if (shared_.dead || shared_.draining) return core::Reason::kStoreUnavailable;
    const size_t queued = shared_.queued;
    if (queued >= AdmittedBelow(request.command, shared_.options.max_queued_commands) &&
        !HasPlaceOfItsOwn(request.key, lane, queued)) {
      return core::Reason::kOverloaded;
    }
    // It would be dropped when its turn comes: whoever learns that now can try later.
    if (request.time_left && MayBeDropped(request.command) &&
        IsTooFarBack(request.key, lane, queued, *request.time_left)) {
      return core::Reason::kOverloaded;
    }
    auto* reserve = std::get_if<core::ReserveCommand>(&request.command);
    if (reserve == nullptr) return core::Reason::kNone;
    const Pressure pressure = shared_.engine->pressure();
    if (!pressure.alive) return core::Reason::kStoreUnavailable;
    if (pressure.stalled) return core::Reason::kOverloaded;
    if (pressure.full && reserve->refuse_new == core::Reason::kNone) {
      reserve->refuse_new = core::Reason::kStoreFull;
    }
    return core::Reason::kNone;
  }

  // The command as it enters the lane; null, and answered, where it is not admitted.
  // `now` is read where it is needed, once for all that come together.
  PendingCommandPtr Accept(Request request, size_t lane, ReplyCallback done,
                           std::optional<core::Time>* now) {
    // Before it is looked whether a drain has begun, so that the drain waits for this one.
    shared_.outstanding.Enter();
    if (IsTooLate(request)) {
      std::move(done)(Reply{.answer = core::Refusal{.reason = core::Reason::kOverloaded},
                            .server_time = shared_.Now().latest,
                            .cancelled = true});
      shared_.outstanding.Leave();
      return nullptr;
    }
    const core::Reason reason = Admit(request, lane);
    if (reason != core::Reason::kNone) {
      Refuse(request, reason, std::move(done));
      return nullptr;
    }
    pushback_.OnServed();
    auto command = std::make_unique<PendingCommand>();
    if (request.wait > core::Duration::zero() || request.time_left) {
      if (!*now) *now = shared_.Now().latest;
      if (request.wait > core::Duration::zero()) {
        command->wait_until = core::Add(**now, request.wait);
      }
      if (request.time_left) command->caller_leaves = core::Add(**now, *request.time_left);
    }
    command->tenant = TenantOf(request.key);
    command->request = std::move(request);
    command->request.policy = WithLoss(command->request.policy, shared_.traits.lost_before);
    command->done = std::move(done);
    ++shared_.queued;
    return command;
  }

  void Refuse(const Request& request, core::Reason reason, ReplyCallback done) {
    const core::Time now = shared_.Now().latest;
    const core::Answer refusal = core::Refusal{.reason = reason,
                                               .retry_after = reason == core::Reason::kOverloaded
                                                                  ? pushback_.OnRefused(now)
                                                                  : core::kOverloadRetryAfter};
    shared_.observer->OnAnswer(request, refusal);
    std::move(done)(Reply{.answer = refusal, .server_time = now});
    shared_.outstanding.Leave();
  }

  void SubmitAll(std::vector<std::pair<Request, ReplyCallback>> requests,
                 absl::FunctionRef<void(const std::vector<CancelHandle>&)> queued) {
    std::vector<CancelHandle> handles;
    handles.reserve(requests.size());
    std::vector<std::vector<PendingCommandPtr>> by_lane(lanes_.size());
    std::optional<core::Time> now;
    for (auto& [request, done] : requests) {
      const size_t lane = LaneOf(request.key);
      PendingCommandPtr command = Accept(std::move(request), lane, std::move(done), &now);
      CancelHandle& handle = handles.emplace_back(CancelHandle{lane, 0});
      if (command == nullptr) continue;
      by_lane[lane].push_back(std::move(command));
      // For the time being, its place among those of its lane.
      handle.id = by_lane[lane].size();
    }
    std::vector<uint64_t> first_ids(lanes_.size());
    std::vector<Lane*> to_run;
    for (size_t i = 0; i < lanes_.size(); ++i) {
      if (by_lane[i].empty()) continue;
      if (lanes_[i]->Queue(std::move(by_lane[i]), &first_ids[i])) to_run.push_back(lanes_[i].get());
    }
    for (CancelHandle& handle : handles) {
      if (handle.id != 0) handle.id += first_ids[handle.lane] - 1;
    }
    queued(handles);
    for (Lane* const lane : to_run) lane->Run();
  }

  absl::Status LoadOpen() {
    std::string resume;
    do {
      absl::Notification done;
      absl::StatusOr<ScanResult> page;
      shared_.engine->Scan(ScanFilter{.open_only = true}, kLoadPage, resume,
                           [&](absl::StatusOr<ScanResult> result) {
                             page = std::move(result);
                             done.Notify();
                           });
      done.WaitForNotification();
      if (!page.ok()) return page.status();
      for (const ScanEntry& entry : page->entries) {
        const auto* record = std::get_if<core::Record>(&entry.stored);
        if (record != nullptr) lanes_[LaneOf(entry.key)]->NoteOpen(entry.key, *record);
      }
      resume = std::move(page->resume_key);
    } while (!resume.empty());
    return absl::OkStatus();
  }

  void Drain() {
    shared_.draining = true;
    shared_.end_all_waits();
    shared_.outstanding.AwaitNone();
    // The runner that answered the last one may still be leaving.
    for (const auto& lane : lanes_) lane->AwaitIdle();
  }

  Shared shared_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  Pushback pushback_;
  const std::shared_ptr<HintGate> hint_gate_ = std::make_shared<HintGate>();
};

KeyStore::KeyStore(Engine* engine, Clock* clock, Observer* observer, KeyStoreOptions options)
    : impl_(std::make_unique<Impl>(engine, clock, observer, std::move(options))) {}

KeyStore::~KeyStore() = default;

CancelHandle KeyStore::Submit(Request request, ReplyCallback done) {
  const size_t lane = impl_->LaneOf(request.key);
  std::optional<core::Time> now;
  PendingCommandPtr command = impl_->Accept(std::move(request), lane, std::move(done), &now);
  if (command == nullptr) return CancelHandle{lane, 0};
  return CancelHandle{lane, impl_->lanes_[lane]->Submit(std::move(command))};
}

std::vector<CancelHandle> KeyStore::SubmitAll(
    std::vector<std::pair<Request, ReplyCallback>> requests) {
  std::vector<CancelHandle> handles;
  impl_->SubmitAll(std::move(requests),
                   [&handles](const std::vector<CancelHandle>& all) { handles = all; });
  return handles;
}

void KeyStore::SubmitAll(std::vector<std::pair<Request, ReplyCallback>> requests,
                         absl::FunctionRef<void(const std::vector<CancelHandle>&)> queued) {
  impl_->SubmitAll(std::move(requests), queued);
}

void KeyStore::Cancel(CancelHandle handle) {
  if (handle.id != 0) impl_->lanes_[handle.lane]->Cancel(handle.id);
}

void KeyStore::List(ListFilter filter, size_t page_size, std::string page_token,
                    absl::AnyInvocable<void(absl::StatusOr<ListPage>) &&> done) {
  StartList(impl_->shared_.engine, impl_->shared_.Now(), std::move(filter), page_size,
            std::move(page_token), std::move(done));
}

void KeyStore::RunTimers() {
  const core::Time now = impl_->shared_.Now().latest;
  for (const auto& lane : impl_->lanes_) {
    if (lane->next_timer() <= now) lane->RunTimers();
  }
}

std::optional<core::Time> KeyStore::NextTimer() const {
  core::Time next = core::kMaxTime;
  for (const auto& lane : impl_->lanes_) next = std::min(next, lane->next_timer());
  return next == core::kMaxTime ? std::nullopt : std::optional(next);
}

void KeyStore::OnEarlierTimer(std::function<void()> on_earlier) {
  impl_->shared_.on_earlier_timer = std::move(on_earlier);
}

absl::Status KeyStore::LoadOpen() { return impl_->LoadOpen(); }

void KeyStore::Sweep() {
  for (const auto& lane : impl_->lanes_) lane->Sweep();
}

void KeyStore::Drain() { impl_->Drain(); }

size_t KeyStore::waiters() const { return impl_->shared_.waiters; }

size_t KeyStore::queued() const { return impl_->shared_.queued; }

size_t KeyStore::pending() const {
  size_t pending = 0;
  for (const auto& lane : impl_->lanes_) pending += lane->pending();
  return pending;
}

uint64_t KeyStore::open_operations(std::string_view name_space,
                                   std::optional<std::string_view> scope) const {
  return impl_->shared_.tenants.OpenIn(name_space, scope);
}

std::vector<UnresolvedCount> KeyStore::unresolved() const {
  return impl_->shared_.unresolved.Count();
}

}  // namespace idempotency::keystore
