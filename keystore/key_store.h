// The key store: brings commands, the pure step and an engine together.
//
// Every operation key belongs to one lane. Whoever submits to an idle lane runs it
// (combining): it drains the queue, reads all keys at once, steps the commands in order with
// an overlay for repeats of a key, commits one batch, leaves the lane to whoever comes next,
// gives the answers, and looks again, until the queue is empty. There is no thread per request
// and no lock across I/O. With an engine that completes on another thread, the lane goes on there.
//
//   KeyStore store(engine, clock, options);
//   CancelHandle handle = store.Submit({key, command, policy}, [](Reply reply) { ... });
//   ...
//   store.Cancel(handle);        // the caller is gone
//   store.Drain();               // at shutdown: waiters answered, accepted commands finished
//
// What is answered is durable, and nothing that is not durable is shown. A waiting command
// holds no thread; `RunTimers` ends waits and finds lapses (a Ticker calls it when due).
//
// Thread safety: all methods may be called from any thread. Callbacks run on a thread that has run
// a lane, several at a time and those of one batch in order; they may submit again, and must not
// block.
#ifndef IDEMPOTENCY_KEYSTORE_KEY_STORE_H_
#define IDEMPOTENCY_KEYSTORE_KEY_STORE_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "keystore/clock.h"
#include "keystore/core/command.h"
#include "keystore/core/limits.h"
#include "keystore/core/outcome.h"
#include "keystore/core/policy.h"
#include "keystore/core/record.h"
#include "keystore/core/transition.h"
#include "keystore/engine/engine.h"
#include "keystore/quota.h"
#include "keystore/unresolved.h"

namespace idempotency::keystore {

// The W3C trace id of a call, as 32 hexadecimal digits; zero bytes: none.
using TraceId = std::array<char, 32>;

struct Request {
  core::Key key;
  core::Command command;
  std::shared_ptr<const core::Policy> policy;
  // ReserveCommand and GetCommand: how long to wait while another attempt holds the lease,
  // already cut to the policy's maximum and the caller's deadline. Zero: not at all.
  core::Duration wait{0};
  // How long the caller will listen. ReserveCommand and GetCommand are not begun for one that does
  // not any more. Unset: for ever.
  std::optional<core::Duration> time_left = std::nullopt;
  // For the observer.
  TraceId trace_id = {};
};

struct Reply {
  core::Answer answer;
  // Read after the commit.
  core::Time server_time;
  // The command was cancelled before it had any effect, or nobody would have received the answer;
  // `answer` means nothing.
  bool cancelled = false;
  // The command has waited for a lease to end: how long it took says nothing of the service.
  bool has_waited = false;
  // Where it was refused with kQuotaExceeded: which quota is used up.
  std::optional<QuotaExcess> quota = std::nullopt;
};

using ReplyCallback = absl::AnyInvocable<void(Reply) &&>;

// What happened, for logs and metrics. Called on any thread that runs a lane or gives its answers,
// several at a time; must not block.
class Observer {
 public:
  virtual ~Observer() = default;
  // A command was answered; the request is as it was submitted.
  virtual void OnAnswer(const Request&, const core::Answer&) {}
  // A lease ended before its owner reported; `record` is what that made of the operation. Called
  // once for a lease, by whoever is first to see it: the timer, or a command on the operation.
  virtual void OnLapse(const core::Key&, const core::Record&) {}
  virtual void OnUnreadable(const core::Key&) {}
  // `took`: how long the engine took to make the writes durable.
  virtual void OnCommit(size_t /*commands*/, size_t /*writes*/, std::chrono::nanoseconds /*took*/) {
  }
  // The engine has died; the process should exit and open the store again.
  virtual void OnEngineDead() {}
};

struct KeyStoreOptions {
  size_t lanes = 1;
  size_t max_batch_commands = core::kMaxBatchCommands;
  size_t max_queued_commands = core::kMaxQueuedCommands;  // of all lanes together
  size_t max_waiters_per_key = core::kMaxWaitersPerKey;
  size_t max_waiters = core::kMaxWaiters;
  core::StepFunction step = &core::Step;  // tests plant wrong ones
  // Whether open records of a namespace that time has made absent may be given up. Unset: all.
  std::function<bool(std::string_view name_space)> may_reclaim;
  // Of what was done before, the store may know nothing, besides what the engine says of that
  // (Traits::lost_before). Unset: it has lost nothing.
  core::Time lost_before;
};

// Which records List returns; states are as observed now.
struct ListFilter {
  ScanFilter scan;
  std::string operation_ref;        // empty: any
  std::vector<core::State> states;  // empty: all but FREED
  core::Duration min_age{0};        // since the last update
};

struct ListEntry {
  core::Key key;
  core::RecordPtr record;  // as observed; null: stored bytes that cannot be read
};

struct ListPage {
  std::vector<ListEntry> entries;
  std::string next_page_token;  // opaque; empty: that was all
};

struct CancelHandle {
  size_t lane = 0;
  uint64_t id = 0;
};

class KeyStore {
 public:
  // All must outlive the key store; observer may be null.
  KeyStore(Engine* engine, Clock* clock, Observer* observer, KeyStoreOptions options = {});
  ~KeyStore();
  KeyStore(const KeyStore&) = delete;
  KeyStore& operator=(const KeyStore&) = delete;

  // `done` is called exactly once, perhaps before Submit returns. Commands on one key are
  // applied in the order submitted. Refuses with kOverloaded where the queue is full (a
  // finishing verb is never refused for that) or longer than the caller will listen, and with
  // kStoreUnavailable once the engine is dead.
  CancelHandle Submit(Request request, ReplyCallback done);

  // Submits all in order, entering each lane once, so that they share batches.
  std::vector<CancelHandle> SubmitAll(std::vector<std::pair<Request, ReplyCallback>> requests);

  // As above. `queued` is told the handles when all are in their places, before any of them is
  // run by this thread: whoever has more to submit can have another thread see to that now.
  void SubmitAll(std::vector<std::pair<Request, ReplyCallback>> requests,
                 absl::FunctionRef<void(const std::vector<CancelHandle>&)> queued);

  // The caller is gone: a waiter is answered `cancelled` at once; a Reserve or Get that has
  // not entered a batch is dropped; anything else goes on.
  void Cancel(CancelHandle handle);

  // One page. `page_token` empty: the first. INVALID_ARGUMENT for a token that is not of this
  // filter; UNAVAILABLE where the engine cannot answer. May run for a while: not on a lane.
  void List(ListFilter filter, size_t page_size, std::string page_token,
            absl::AnyInvocable<void(absl::StatusOr<ListPage>) &&> done);

  // Ends waits whose time has come, wakes waiters of lapsed leases, reports lapses. May run
  // commands of others, as Submit does.
  void RunTimers();
  // When RunTimers should be called next; nullopt: nothing is due. `on_earlier` (set once,
  // before the first Submit) is called when an earlier time comes up.
  std::optional<core::Time> NextTimer() const;
  void OnEarlierTimer(std::function<void()> on_earlier);

  // Loads what is open from the engine, so that lapses are reported after a restart, too.
  // Pages through the open records; call once, before serving.
  absl::Status LoadOpen();

  // Gives back the space of open records that time has made absent (freed by a lapse, or
  // unresolved under RERUN): a part of them with every batch until there are no more. Cheap
  // where there are none.
  void Sweep();

  // Answers every waiter with what holds now, lets accepted commands finish and refuses new
  // ones with kStoreUnavailable. Returns when all are answered.
  void Drain();

  size_t waiters() const;
  size_t queued() const;
  // How many operations are PENDING, as far as the timers know.
  size_t pending() const;
  std::vector<UnresolvedCount> unresolved() const;
  // Operations that quotas count as open; without a scope, of all the namespace.
  uint64_t open_operations(std::string_view name_space,
                           std::optional<std::string_view> scope) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_KEY_STORE_H_
