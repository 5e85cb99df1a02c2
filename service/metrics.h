// What is counted. An exporter implements Metrics; CountingMetrics keeps the numbers in memory.
#ifndef IDEMPOTENCY_SERVICE_METRICS_H_
#define IDEMPOTENCY_SERVICE_METRICS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "keystore/core/outcome.h"
#include "keystore/core/record.h"
#include "service/verb.h"

namespace idempotency::service {

// Thread safety: called from any thread, also for every command; must not block.
class Metrics {
 public:
  virtual ~Metrics() = default;
  // A command was answered and not refused.
  virtual void OnAnswered(Verb verb) {}
  // Reserve also says with what.
  virtual void OnReserved(core::ReserveOutcome outcome) {}
  virtual void OnRefused(Verb verb, core::Reason reason) {}
  // A lease ended before its owner reported; `became` is what its end left.
  virtual void OnLapsed(core::State became) {}
  // A superseded owner reported a completion: the effect may have happened twice.
  virtual void OnLateCompletion() {}
  virtual void OnUnreadable() {}
  virtual void OnCommit(size_t commands, size_t writes) {}
};

// Thread safety: all methods may be called from any thread.
class CountingMetrics final : public Metrics {
 public:
  struct Snapshot {
    std::array<uint64_t, kVerbs> answered{};
    std::array<uint64_t, 9> reserved{};  // by number of the outcome
    std::array<uint64_t, 20> refused{};  // by number of the reason, over all verbs
    uint64_t lapsed = 0;
    uint64_t late_completions = 0;
    uint64_t unreadable = 0;
    uint64_t commits = 0;
    uint64_t committed_writes = 0;
  };

  void OnAnswered(Verb verb) override { Add(answered_[static_cast<size_t>(verb)]); }
  void OnReserved(core::ReserveOutcome outcome) override {
    Add(reserved_[static_cast<size_t>(outcome)]);
  }
  void OnRefused(Verb, core::Reason reason) override { Add(refused_[static_cast<size_t>(reason)]); }
  void OnLapsed(core::State) override { Add(lapsed_); }
  void OnLateCompletion() override { Add(late_completions_); }
  void OnUnreadable() override { Add(unreadable_); }
  void OnCommit(size_t, size_t writes) override {
    Add(commits_);
    Add(committed_writes_, writes);
  }

  // Each number is right by itself; together they may be of slightly different moments.
  Snapshot Read() const {
    Snapshot snapshot;
    for (size_t i = 0; i < answered_.size(); ++i) snapshot.answered[i] = answered_[i];
    for (size_t i = 0; i < reserved_.size(); ++i) snapshot.reserved[i] = reserved_[i];
    for (size_t i = 0; i < refused_.size(); ++i) snapshot.refused[i] = refused_[i];
    snapshot.lapsed = lapsed_;
    snapshot.late_completions = late_completions_;
    snapshot.unreadable = unreadable_;
    snapshot.commits = commits_;
    snapshot.committed_writes = committed_writes_;
    return snapshot;
  }

 private:
  using Counter = std::atomic<uint64_t>;
  static void Add(Counter& counter, uint64_t n = 1) {
    counter.fetch_add(n, std::memory_order_relaxed);
  }

  std::array<Counter, kVerbs> answered_{};
  std::array<Counter, 9> reserved_{};
  std::array<Counter, 20> refused_{};
  Counter lapsed_{0};
  Counter late_completions_{0};
  Counter unreadable_{0};
  Counter commits_{0};
  Counter committed_writes_{0};
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_METRICS_H_
