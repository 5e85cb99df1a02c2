#include "keystore/key_store.h"

#include <algorithm>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "keystore/handshake.h"
#include "keystore/key_hash.h"
#include "keystore/lane.h"
#include "keystore/lister.h"

namespace idempotency::keystore {
namespace {

constexpr size_t kLoadPage = 1000;

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
    const size_t lanes = std::max<size_t>(shared_.options.lanes, 1);
    for (size_t i = 0; i < lanes; ++i) lanes_.push_back(std::make_unique<Lane>(&shared_));
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

  // Why the command is not admitted, or kNone.
  core::Reason Admit(Request& request) {
    if (shared_.dead || shared_.draining) return core::Reason::kStoreUnavailable;
    if (shared_.queued >= AdmittedBelow(request.command, shared_.options.max_queued_commands)) {
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

  // The command as it enters a lane; null, and answered, where it is not admitted.
  PendingCommandPtr Accept(Request request, ReplyCallback done) {
    // Before it is looked whether a drain has begun, so that the drain waits for this one.
    ++shared_.outstanding;
    const core::Reason reason = Admit(request);
    if (reason != core::Reason::kNone) {
      const core::Answer refusal =
          core::Refusal{.reason = reason, .retry_after = core::kOverloadRetryAfter};
      shared_.observer->OnAnswer(request, refusal);
      std::move(done)(Reply{.answer = refusal, .server_time = shared_.Now().latest});
      shared_.NoteAnswered();
      return nullptr;
    }
    auto command = std::make_unique<PendingCommand>();
    command->id = shared_.next_id++;
    if (request.wait > core::Duration::zero()) {
      command->wait_until = core::Add(shared_.Now().latest, request.wait);
    }
    command->request = std::move(request);
    command->done = std::move(done);
    ++shared_.queued;
    return command;
  }

  std::vector<CancelHandle> Submit(std::vector<std::pair<Request, ReplyCallback>> requests) {
    std::vector<CancelHandle> handles;
    handles.reserve(requests.size());
    std::vector<std::vector<PendingCommandPtr>> by_lane(lanes_.size());
    for (auto& [request, done] : requests) {
      const size_t lane = LaneOf(request.key);
      PendingCommandPtr command = Accept(std::move(request), std::move(done));
      handles.push_back(CancelHandle{lane, command == nullptr ? 0 : command->id});
      if (command != nullptr) by_lane[lane].push_back(std::move(command));
    }
    for (size_t i = 0; i < lanes_.size(); ++i) {
      if (!by_lane[i].empty()) lanes_[i]->Submit(std::move(by_lane[i]));
    }
    return handles;
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
    {
      // Commands are answered by whichever thread runs their lane; the last one says so.
      absl::MutexLock lock(&shared_.idle_mutex);
      shared_.idle_mutex.Await(absl::Condition(
          +[](Shared* shared) { return shared->outstanding.load() == 0; }, &shared_));
    }
    // The runner that answered the last one may still be leaving.
    for (const auto& lane : lanes_) lane->AwaitIdle();
  }

  Shared shared_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  const std::shared_ptr<HintGate> hint_gate_ = std::make_shared<HintGate>();
};

KeyStore::KeyStore(Engine* engine, Clock* clock, Observer* observer, KeyStoreOptions options)
    : impl_(std::make_unique<Impl>(engine, clock, observer, std::move(options))) {}

KeyStore::~KeyStore() = default;

CancelHandle KeyStore::Submit(Request request, ReplyCallback done) {
  const size_t lane = impl_->LaneOf(request.key);
  PendingCommandPtr command = impl_->Accept(std::move(request), std::move(done));
  if (command == nullptr) return CancelHandle{lane, 0};
  const CancelHandle handle{lane, command->id};
  impl_->lanes_[lane]->Submit(std::move(command));
  return handle;
}

std::vector<CancelHandle> KeyStore::SubmitAll(
    std::vector<std::pair<Request, ReplyCallback>> requests) {
  return impl_->Submit(std::move(requests));
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

}  // namespace idempotency::keystore
