#include "tests/keystore/engine/late_engine.h"

#include <utility>
#include <variant>

namespace idempotency::keystore {
namespace {

// The memory engine answers before it returns.
ReadEntry ReadNow(Engine& memory, const core::Key& key) {
  ReadEntry entry;
  memory.Read({key}, [&entry](absl::StatusOr<ReadResult> result) {
    if (result.ok()) entry = std::move(result->entries.front());
  });
  return entry;
}

WriteOutcome CommitNow(Engine& memory, GuardedWrite write) {
  WriteOutcome outcome = WriteOutcome::kUnknown;
  memory.Commit({std::move(write)},
                [&outcome](std::vector<WriteOutcome> outcomes) { outcome = outcomes.front(); });
  return outcome;
}

}  // namespace

LateEngine::LateEngine(LateScript script)
    : script_(script), random_(script.seed), thread_([this] { Run(); }) {}

LateEngine::~LateEngine() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
    held_ = false;
  }
  thread_.join();
}

void LateEngine::Read(std::vector<core::Key> keys, ReadDone done) {
  Enqueue([this, keys = std::move(keys), done = std::move(done)]() mutable {
    memory_.Read(std::move(keys), [this, &done](absl::StatusOr<ReadResult> result) {
      AnswerLater([done = std::move(done), result = std::move(result)]() mutable {
        std::move(done)(std::move(result));
      });
    });
  });
}

void LateEngine::Commit(std::vector<GuardedWrite> writes, CommitDone done) {
  Enqueue([this, writes = std::move(writes), done = std::move(done)]() mutable {
    AnswerLater([done = std::move(done), outcomes = Apply(std::move(writes))]() mutable {
      std::move(done)(std::move(outcomes));
    });
  });
}

void LateEngine::Scan(ScanFilter filter, size_t limit, std::string resume_key, ScanDone done) {
  Enqueue([this, filter = std::move(filter), limit, resume_key = std::move(resume_key),
           done = std::move(done)]() mutable {
    memory_.Scan(std::move(filter), limit, std::move(resume_key),
                 [this, &done](absl::StatusOr<ScanResult> result) {
                   AnswerLater([done = std::move(done), result = std::move(result)]() mutable {
                     std::move(done)(std::move(result));
                   });
                 });
  });
}

void LateEngine::OnForeignChange(std::function<void(const core::Key&)> hint) {
  hint_ = std::move(hint);
}

Traits LateEngine::traits() const {
  // As small a batch as etcd's transactions allow.
  return Traits{.exclusive = false, .max_batch_writes = 64, .clock_skew = script_.clock_skew};
}

void LateEngine::Hold() {
  absl::MutexLock lock(&mutex_);
  held_ = true;
}

void LateEngine::Resume() {
  absl::MutexLock lock(&mutex_);
  held_ = false;
}

size_t LateEngine::lost_races() const {
  absl::MutexLock lock(&mutex_);
  return lost_races_;
}

size_t LateEngine::unknowns() const {
  absl::MutexLock lock(&mutex_);
  return unknowns_;
}

void LateEngine::Enqueue(Task request) {
  absl::MutexLock lock(&mutex_);
  requests_.push_back(std::move(request));
}

void LateEngine::AnswerLater(Task answer) {
  absl::MutexLock lock(&mutex_);
  answers_.push_back(std::move(answer));
}

bool LateEngine::HasWork() const {
  const bool idle = requests_.empty() && answers_.empty();
  return closing_ || (!idle && !held_);
}

void LateEngine::Run() {
  for (;;) {
    Task task;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &LateEngine::HasWork));
      if (requests_.empty() && answers_.empty()) return;
      task = TakeTask();
    }
    std::move(task)();
  }
}

LateEngine::Task LateEngine::TakeTask() {
  if (answers_.empty() || (!requests_.empty() && random_() % 2 == 0)) {
    Task request = std::move(requests_.front());
    requests_.pop_front();
    return request;
  }
  std::swap(answers_[random_() % answers_.size()], answers_.back());
  Task answer = std::move(answers_.back());
  answers_.pop_back();
  return answer;
}

bool LateEngine::Draw(int percent) {
  absl::MutexLock lock(&mutex_);
  return random_() % 100 < static_cast<uint64_t>(percent);
}

std::vector<WriteOutcome> LateEngine::Apply(std::vector<GuardedWrite> writes) {
  std::vector<WriteOutcome> outcomes;
  outcomes.reserve(writes.size());
  for (GuardedWrite& write : writes) outcomes.push_back(ApplyOne(std::move(write)));
  return outcomes;
}

WriteOutcome LateEngine::ApplyOne(GuardedWrite write) {
  if (Draw(script_.lost_race_percent)) {
    WriteAsAnotherReplica(write.key);
    absl::MutexLock lock(&mutex_);
    ++lost_races_;
    return WriteOutcome::kLostRace;
  }
  if (Draw(script_.unknown_percent)) {
    if (Draw(50)) CommitNow(memory_, std::move(write));
    absl::MutexLock lock(&mutex_);
    ++unknowns_;
    return WriteOutcome::kUnknown;
  }
  return CommitNow(memory_, std::move(write));
}

// The same record under a new version. Of a key that is absent it is as if the other replica
// had created and erased it.
void LateEngine::WriteAsAnotherReplica(const core::Key& key) {
  const ReadEntry entry = ReadNow(memory_, key);
  if (const auto* record = std::get_if<core::Record>(&entry.stored)) {
    CommitNow(memory_, {.key = key,
                        .expected = entry.version,
                        .record = std::make_shared<const core::Record>(*record)});
  }
  if (hint_) hint_(key);
}

}  // namespace idempotency::keystore
