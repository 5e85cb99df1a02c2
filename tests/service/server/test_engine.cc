#include "tests/service/server/test_engine.h"

#include <string>

#include "keystore/engine/memory_engine.h"

namespace idempotency::testing {

using keystore::GuardedWrite;
using keystore::ReadResult;
using keystore::WriteOutcome;

class TestEngine final : public keystore::Engine {
 public:
  explicit TestEngine(EngineControls* controls) : controls_(controls) {
    absl::MutexLock lock(&controls_->mutex_);
    controls_->engine_ = &memory_;
  }

  void Read(std::vector<core::Key> keys, ReadDone done) override {
    std::vector<bool> spoilt;
    {
      absl::MutexLock lock(&controls_->mutex_);
      for (const core::Key& key : keys) spoilt.push_back(controls_->spoilt_.contains(key));
    }
    memory_.Read(std::move(keys), [spoilt = std::move(spoilt), done = std::move(done)](
                                      absl::StatusOr<ReadResult> result) mutable {
      for (size_t i = 0; result.ok() && i < spoilt.size(); ++i) {
        if (spoilt[i]) result->entries[i].stored = core::Unreadable{};
      }
      std::move(done)(std::move(result));
    });
  }

  void Commit(std::vector<GuardedWrite> writes, CommitDone done) override {
    if (controls_->dead_) {
      return std::move(done)(std::vector<WriteOutcome>(writes.size(), WriteOutcome::kUnknown));
    }
    {
      absl::MutexLock lock(&controls_->mutex_);
      controls_->mutex_.Await(absl::Condition(
          +[](bool* blocking) { return !*blocking; }, &controls_->blocking_));
      for (const GuardedWrite& write : writes) controls_->spoilt_.erase(write.key);
      if (controls_->holding_) {
        controls_->held_.push_back({std::move(writes), std::move(done)});
        return;
      }
    }
    memory_.Commit(std::move(writes), std::move(done));
  }

  void Scan(keystore::ScanFilter filter, size_t limit, std::string resume_key,
            ScanDone done) override {
    memory_.Scan(std::move(filter), limit, std::move(resume_key), std::move(done));
  }
  void OnForeignChange(std::function<void(const core::Key&)>) override {}
  keystore::Traits traits() const override { return memory_.traits(); }
  keystore::Pressure pressure() const override {
    absl::MutexLock lock(&controls_->mutex_);
    return controls_->pressure_;
  }

 private:
  EngineControls* const controls_;
  keystore::MemoryEngine memory_;
};

void EngineControls::SetPressure(keystore::Pressure pressure) {
  absl::MutexLock lock(&mutex_);
  pressure_ = pressure;
}

void EngineControls::Spoil(core::Key key) {
  absl::MutexLock lock(&mutex_);
  spoilt_.insert(std::move(key));
}

void EngineControls::Hold() {
  absl::MutexLock lock(&mutex_);
  holding_ = true;
}

void EngineControls::LetGo() {
  std::vector<HeldCommit> held;
  keystore::Engine* engine = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    holding_ = false;
    held.swap(held_);
    engine = engine_;
  }
  for (HeldCommit& commit : held) engine->Commit(std::move(commit.writes), std::move(commit.done));
}

size_t EngineControls::held() const {
  absl::MutexLock lock(&mutex_);
  return held_.size();
}

void EngineControls::Block() {
  absl::MutexLock lock(&mutex_);
  blocking_ = true;
}

void EngineControls::Unblock() {
  absl::MutexLock lock(&mutex_);
  blocking_ = false;
}

std::unique_ptr<keystore::Engine> MakeTestEngine(EngineControls* controls) {
  return std::make_unique<TestEngine>(controls);
}

}  // namespace idempotency::testing
