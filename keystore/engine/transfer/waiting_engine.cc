#include "keystore/engine/transfer/waiting_engine.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/synchronization/notification.h"

namespace idempotency::keystore {
namespace {

// What `ask` is answered, once it is.
template <typename Answer, typename Ask>
Answer WaitFor(Ask ask) {
  std::optional<Answer> answer;
  absl::Notification answered;
  ask([&](Answer given) {
    answer = std::move(given);
    answered.Notify();
  });
  answered.WaitForNotification();
  return *std::move(answer);
}

}  // namespace

absl::StatusOr<ReadResult> WaitingEngine::ReadOnce(std::vector<core::Key> keys) const {
  return WaitFor<absl::StatusOr<ReadResult>>(
      [&](auto done) { engine_.Read(std::move(keys), std::move(done)); });
}

absl::StatusOr<ReadResult> WaitingEngine::Read(const std::vector<core::Key>& keys) const {
  ReadResult all;
  all.entries.resize(keys.size(), ReadEntry{.put_off = true});
  std::vector<size_t> places;
  do {
    places.clear();
    std::vector<core::Key> asked;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (!all.entries[i].put_off) continue;
      places.push_back(i);
      asked.push_back(keys[i]);
    }
    absl::StatusOr<ReadResult> some = ReadOnce(std::move(asked));
    if (!some.ok()) return some.status();
    all.token_floor = std::max(all.token_floor, some->token_floor);
    for (size_t i = 0; i < places.size(); ++i) {
      all.entries[places[i]] = std::move(some->entries[i]);
    }
  } while (std::any_of(all.entries.begin(), all.entries.end(),
                       [](const ReadEntry& entry) { return entry.put_off; }));
  return all;
}

std::vector<WriteOutcome> WaitingEngine::Commit(std::vector<GuardedWrite> writes) const {
  return WaitFor<std::vector<WriteOutcome>>(
      [&](auto done) { engine_.Commit(std::move(writes), std::move(done)); });
}

absl::StatusOr<ScanResult> WaitingEngine::Scan(size_t limit, const std::string& resume_key) const {
  return WaitFor<absl::StatusOr<ScanResult>>(
      [&](auto done) { engine_.Scan(ScanFilter{}, limit, resume_key, std::move(done)); });
}

}  // namespace idempotency::keystore
