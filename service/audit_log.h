// Who did what to the service, and who was not allowed to: a line of JSON for each administrative
// act and each denial, on a sink of its own.
//
//   {"time":"2026-01-31T12:00:00.000Z","audit":"act","id":"1769860800000-1",
//    "action":"resolve_operation","who":"spiffe://example.org/sa/on-call","peer":"ipv4:10.0.0.7:41",
//    "namespace":"payments","scope":"acct-1","key":"o-17","actor":"alice","reason":"seen there",
//    "result":"begins"}
//   {"time":...,"audit":"act_ended","id":"1769860800000-1","action":"resolve_operation",...,
//    "result":"OK"}
//   {"time":...,"audit":"denial","action":"reserve","who":"token:ci",...,"result":"ACCESS_DENIED"}
//   {"time":...,"audit":"denials_counted","action":"reserve","who":"token:ci",...,"count":4711}
//
// The first line of an act is on the sink before the act is carried out: written, and, where the
// sink is a file, synced, since the act itself is durable, too. An act whose first line cannot be
// written is not carried out. Its second line says how it ended; where that is missing, the process
// ended or the sink failed in between, and the operation's history says what holds. Denials and
// second lines are written and not synced, and are lost where the sink does not take them, which is
// counted. Denials are sampled (denial_sampler.h).
//
// Texts that look like credentials or personal data are withheld; bodies, progress and credentials
// never come here.
//
// Thread safety: all methods may be called from any thread; none but BeginAndWait, Reopen and Flush
// blocks.
#ifndef IDEMPOTENCY_SERVICE_AUDIT_LOG_H_
#define IDEMPOTENCY_SERVICE_AUDIT_LOG_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "keystore/core/time.h"
#include "service/denial_sampler.h"
#include "service/log.h"
#include "service/metrics.h"
#include "service/worker.h"

namespace idempotency::service {

// Acts that were begun and not yet carried out; more are refused.
inline constexpr size_t kMaxAuditedActs = 1024;
// Other lines that wait to be written; more are dropped, and counted.
inline constexpr size_t kMaxQueuedAuditLines = 4096;

// What is told of an act or a denial. Empty texts are left out. Good for the call it is given to.
struct AuditEntry {
  std::string_view action;  // the method, as "resolve_operation", or what the process does
  std::string_view who;     // a principal's name; empty: nobody who is known
  std::string_view peer;
  std::string_view name_space;
  std::string_view scope;
  std::string_view key;
  std::string_view actor;  // whom the caller names, and why
  std::string_view reason;
  // Of acts of the process: what was asked for; of an end: what has come of it.
  std::string_view detail;
  std::string_view trace_id;
};

class AuditLog {
 public:
  static constexpr char kStderr[] = "stderr";

  struct Options {
    // A file, which is made (0640) and only ever appended to, or kStderr.
    std::string path = kStderr;
    // The wall clock.
    std::function<core::Time()> now;
    // Must outlive it.
    Metrics* metrics = nullptr;
  };

  // Names an act from its first line to its second.
  struct Act {
    std::string id;
    std::string action;
    std::string who;
  };

  // UNAVAILABLE where the file cannot be opened.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(Options options);
  // Writes what is queued.
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  // Calls `then` when the first line of the act is written, with the act, which may be carried out
  // now; or with nothing, where it cannot be written. Mostly on a thread of the audit's own.
  using Then = absl::AnyInvocable<void(std::optional<Act>) &&>;
  void Begin(const AuditEntry& entry, Then then) ABSL_LOCKS_EXCLUDED(mutex_);
  // As above, and waits for it.
  std::optional<Act> BeginAndWait(const AuditEntry& entry) ABSL_LOCKS_EXCLUDED(mutex_);
  // `result`: "OK", or the reason why not. `detail`: what else has come of it; withheld as what a
  // caller has chosen.
  void End(const Act& act, std::string_view result, std::string_view detail = {})
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Deny(const AuditEntry& entry, std::string_view result) ABSL_LOCKS_EXCLUDED(mutex_);

  // Tells how many denials were not told one by one, when their minute is over. About once a
  // second.
  void TellUntold() ABSL_LOCKS_EXCLUDED(mutex_);
  // Opens the file anew, which somebody may have moved away. Where that fails, what was open goes
  // on.
  absl::Status Reopen() ABSL_LOCKS_EXCLUDED(sink_mutex_);
  // Returns when all that was queued before is written, or lost.
  void Flush() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Sink;
  struct Line {
    AuditLine kind = AuditLine::kDenial;
    std::string text;
    Act act;    // of the first line of one
    Then then;  // likewise
  };

  AuditLog(Options options, std::unique_ptr<Sink> sink);

  std::string TextOf(std::string_view kind, std::string_view id, const AuditEntry& entry,
                     std::string_view result, uint64_t count = 0) const;
  void Queue(Line line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void QueueUntold(bool anyhow) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);
  void Write(std::vector<Line> lines) ABSL_LOCKS_EXCLUDED(mutex_, sink_mutex_);
  void Carry(Line line, bool written);
  bool HasWork() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_ || !queue_.empty(); }
  bool IsWritten() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return queue_.empty() && !writing_; }

  const Options options_;
  // Tells this process's acts from those of others on the same file.
  const std::string run_;

  absl::Mutex sink_mutex_;
  std::unique_ptr<Sink> sink_ ABSL_GUARDED_BY(sink_mutex_);

  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t acts_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t acts_open_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Line> queue_ ABSL_GUARDED_BY(mutex_);
  DenialSampler denials_ ABSL_GUARDED_BY(mutex_);

  // Carries acts out, so that what they do holds up no line.
  std::unique_ptr<Worker> carrier_;
  std::thread thread_;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_AUDIT_LOG_H_
