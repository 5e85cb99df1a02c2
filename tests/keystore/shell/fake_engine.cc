#include "tests/keystore/shell/fake_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "keystore/core/invariants.h"

namespace idempotency::keystore {
namespace {

bool IsOpen(const core::Stored& stored) {
  const auto* record = std::get_if<core::Record>(&stored);
  return record == nullptr || record->state == core::State::kPending ||
         record->state == core::State::kUnresolved;
}

bool Matches(const ScanFilter& filter, const core::Key& key, const core::Stored& stored) {
  if (!filter.name_space.empty() && key.name_space != filter.name_space) return false;
  if (filter.scope.has_value() && key.scope != *filter.scope) return false;
  if (key.key.compare(0, filter.key_prefix.size(), filter.key_prefix) != 0) return false;
  return !filter.open_only || IsOpen(stored);
}

// resume key := length(namespace) ":" length(scope) ":" namespace scope key
std::string ToResumeKey(const core::Key& key) {
  return std::to_string(key.name_space.size()) + ":" + std::to_string(key.scope.size()) + ":" +
         key.name_space + key.scope + key.key;
}

core::Key FromResumeKey(const std::string& text) {
  const size_t first = text.find(':');
  const size_t second = text.find(':', first + 1);
  size_t name_space = 0;
  size_t scope = 0;
  std::from_chars(text.data(), text.data() + first, name_space);
  std::from_chars(text.data() + first + 1, text.data() + second, scope);
  const std::string rest = text.substr(second + 1);
  return core::Key{rest.substr(0, name_space), rest.substr(name_space, scope),
                   rest.substr(name_space + scope)};
}

}  // namespace

FakeEngine::~FakeEngine() {
  absl::MutexLock lock(&mutex_);
  EXPECT_TRUE(held_.empty()) << held_.size() << " calls were never released";
}

void FakeEngine::Read(std::vector<core::Key> keys, ReadDone done) {
  Do(Call::kRead, [this, keys = std::move(keys), done = std::move(done)]() mutable {
    std::move(done)(ReadNow(keys));
  });
}

void FakeEngine::Commit(std::vector<GuardedWrite> writes, CommitDone done) {
  Do(Call::kCommit, [this, writes = std::move(writes), done = std::move(done)]() mutable {
    std::move(done)(CommitNow(writes));
  });
}

void FakeEngine::Scan(ScanFilter filter, size_t limit, std::string resume_key, ScanDone done) {
  Do(Call::kScan,
     [this, filter = std::move(filter), limit, resume = std::move(resume_key),
      done = std::move(done)]() mutable { std::move(done)(ScanNow(filter, limit, resume)); });
}

void FakeEngine::OnForeignChange(std::function<void(const core::Key&)> hint) {
  absl::MutexLock lock(&mutex_);
  hint_ = std::move(hint);
}

Pressure FakeEngine::pressure() const {
  std::function<void()> hook;
  {
    absl::MutexLock lock(&mutex_);
    hook = on_pressure_;
  }
  if (hook) hook();
  absl::MutexLock lock(&mutex_);
  return pressure_;
}

// --- Holding ---------------------------------------------------------------------------------

void FakeEngine::Do(Call call, Work work) {
  {
    absl::MutexLock lock(&mutex_);
    if (holds_.count(call) != 0) {
      held_.push_back(std::move(work));
      return;
    }
  }
  std::move(work)();
}

void FakeEngine::Hold(Call call) {
  absl::MutexLock lock(&mutex_);
  holds_.insert(call);
}

void FakeEngine::HoldNoMore() {
  absl::MutexLock lock(&mutex_);
  holds_.clear();
}

size_t FakeEngine::held() const {
  absl::MutexLock lock(&mutex_);
  return held_.size();
}

void FakeEngine::AwaitHeld(size_t count) const {
  absl::MutexLock lock(&mutex_);
  const auto enough = [this, count] {
    mutex_.AssertReaderHeld();
    return held_.size() >= count;
  };
  mutex_.Await(absl::Condition(&enough));
}

void FakeEngine::ReleaseOne() {
  Work work;
  {
    absl::MutexLock lock(&mutex_);
    ASSERT_FALSE(held_.empty()) << "nothing is held";
    work = std::move(held_.front());
    held_.pop_front();
  }
  std::move(work)();
}

void FakeEngine::ReleaseAll() {
  while (held() != 0) ReleaseOne();
}

void FakeEngine::ReleaseUntilStopped() {
  const auto ready = [this] {
    mutex_.AssertReaderHeld();
    return stopped_ || !held_.empty();
  };
  for (;;) {
    Work work;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&ready));
      if (held_.empty()) return;
      work = std::move(held_.front());
      held_.pop_front();
    }
    std::move(work)();
  }
}

void FakeEngine::Stop() {
  absl::MutexLock lock(&mutex_);
  stopped_ = true;
}

// --- Trouble ---------------------------------------------------------------------------------

void FakeEngine::NextWrites(std::vector<Fate> fates) {
  absl::MutexLock lock(&mutex_);
  fates_.assign(fates.begin(), fates.end());
}

void FakeEngine::ChooseFates(std::function<Fate()> choose) {
  absl::MutexLock lock(&mutex_);
  choose_ = std::move(choose);
}

void FakeEngine::BeforeNextCommit(std::function<void()> hook) {
  absl::MutexLock lock(&mutex_);
  before_commit_ = std::move(hook);
}

void FakeEngine::FailNextReads(size_t count) {
  absl::MutexLock lock(&mutex_);
  failing_reads_ = count;
}

void FakeEngine::FailNextScans(size_t count) {
  absl::MutexLock lock(&mutex_);
  failing_scans_ = count;
}

void FakeEngine::SetPressure(Pressure pressure) {
  absl::MutexLock lock(&mutex_);
  pressure_ = pressure;
}

void FakeEngine::OnPressure(std::function<void()> hook) {
  absl::MutexLock lock(&mutex_);
  on_pressure_ = std::move(hook);
}

void FakeEngine::TellForeignChange(const core::Key& key) {
  std::function<void(const core::Key&)> hint;
  {
    absl::MutexLock lock(&mutex_);
    hint = hint_;
  }
  if (hint) hint(key);
}

void FakeEngine::LimitReads(size_t keys) {
  absl::MutexLock lock(&mutex_);
  max_read_ = keys;
}

void FakeEngine::LimitVisits(size_t visits) {
  absl::MutexLock lock(&mutex_);
  max_visits_ = visits;
}

// --- What is stored --------------------------------------------------------------------------

void FakeEngine::Put(const core::Key& key, core::Stored stored) {
  absl::MutexLock lock(&mutex_);
  if (std::holds_alternative<core::Absent>(stored)) {
    entries_.erase(key);
    return;
  }
  if (const auto* record = std::get_if<core::Record>(&stored)) {
    token_floor_ = std::max(token_floor_, record->token + 1);
  }
  entries_[key] = Entry{std::move(stored), ++last_version_};
}

core::Stored FakeEngine::At(const core::Key& key) const {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(key);
  return found == entries_.end() ? core::Stored(core::Absent{}) : found->second.stored;
}

size_t FakeEngine::size() const {
  absl::MutexLock lock(&mutex_);
  return entries_.size();
}

std::vector<size_t> FakeEngine::reads() const {
  absl::MutexLock lock(&mutex_);
  return reads_;
}

std::vector<size_t> FakeEngine::commits() const {
  absl::MutexLock lock(&mutex_);
  return commits_;
}

size_t FakeEngine::scans() const {
  absl::MutexLock lock(&mutex_);
  return scans_;
}

// --- Taking effect ---------------------------------------------------------------------------

absl::StatusOr<ReadResult> FakeEngine::ReadNow(const std::vector<core::Key>& keys) {
  EXPECT_EQ(std::set<core::Key>(keys.begin(), keys.end()).size(), keys.size())
      << "the keys of a read must be distinct";
  absl::MutexLock lock(&mutex_);
  reads_.push_back(keys.size());
  if (failing_reads_ != 0) {
    --failing_reads_;
    return absl::UnavailableError("scripted");
  }
  ReadResult result{.entries = {}, .token_floor = token_floor_};
  for (const core::Key& key : keys) {
    if (result.entries.size() >= max_read_) {
      result.entries.push_back(ReadEntry{.put_off = true});
      continue;
    }
    const auto found = entries_.find(key);
    result.entries.push_back(found == entries_.end()
                                 ? ReadEntry{}
                                 : ReadEntry{found->second.stored, found->second.version});
  }
  return result;
}

std::vector<WriteOutcome> FakeEngine::CommitNow(const std::vector<GuardedWrite>& writes) {
  std::function<void()> hook;
  {
    absl::MutexLock lock(&mutex_);
    std::swap(hook, before_commit_);
  }
  if (hook) hook();
  EXPECT_LE(writes.size(), traits_.max_batch_writes);
  absl::MutexLock lock(&mutex_);
  commits_.push_back(writes.size());
  std::vector<WriteOutcome> outcomes;
  std::set<core::Key> keys;
  for (const GuardedWrite& write : writes) {
    EXPECT_TRUE(keys.insert(write.key).second) << "each key at most once in a commit";
    outcomes.push_back(Write(write));
  }
  return outcomes;
}

WriteOutcome FakeEngine::Write(const GuardedWrite& write) {
  const auto found = entries_.find(write.key);
  const Version stored = found == entries_.end() ? 0 : found->second.version;
  if (stored != write.expected) {
    EXPECT_FALSE(traits_.exclusive) << "the only writer lost a race with itself";
    return WriteOutcome::kLostRace;
  }
  switch (NextFate()) {
    case Fate::kCommit:
      Store(write);
      return WriteOutcome::kCommitted;
    case Fate::kLoseRace:
      return WriteOutcome::kLostRace;
    case Fate::kUnknownWritten:
      Store(write);
      return WriteOutcome::kUnknown;
    case Fate::kUnknownNotWritten:
      return WriteOutcome::kUnknown;
  }
  return WriteOutcome::kUnknown;
}

void FakeEngine::Store(const GuardedWrite& write) {
  if (write.record == nullptr) {
    EXPECT_NE(entries_.erase(write.key), 0u) << "nothing is stored under the key to erase";
    return;
  }
  EXPECT_EQ(core::BrokenRule(*write.record), "");
  auto& [token, attempt_id] = newest_[write.key];
  EXPECT_GE(write.record->token, token) << "a token fell: " << write.key.key;
  if (write.record->token == token) {
    EXPECT_EQ(write.record->attempt_id, attempt_id) << "two attempts have token " << token;
  }
  token = write.record->token;
  attempt_id = write.record->attempt_id;
  token_floor_ = std::max(token_floor_, write.record->token + 1);
  entries_[write.key] = Entry{*write.record, ++last_version_};
}

FakeEngine::Fate FakeEngine::NextFate() {
  if (fates_.empty()) return choose_ ? choose_() : Fate::kCommit;
  const Fate fate = fates_.front();
  fates_.pop_front();
  return fate;
}

absl::StatusOr<ScanResult> FakeEngine::ScanNow(const ScanFilter& filter, size_t limit,
                                               const std::string& resume_key) {
  EXPECT_GT(limit, 0u);
  absl::MutexLock lock(&mutex_);
  ++scans_;
  if (failing_scans_ != 0) {
    --failing_scans_;
    return absl::UnavailableError("scripted");
  }
  ScanResult result;
  auto at = resume_key.empty() ? entries_.begin() : entries_.upper_bound(FromResumeKey(resume_key));
  for (size_t visits = 0; at != entries_.end(); ++at, ++visits) {
    if (result.entries.size() == limit || visits == max_visits_) {
      result.resume_key = ToResumeKey(std::prev(at)->first);
      break;
    }
    if (Matches(filter, at->first, at->second.stored)) {
      result.entries.push_back(ScanEntry{at->first, at->second.stored});
    }
  }
  return result;
}

}  // namespace idempotency::keystore
