#include "tests/keystore/engine/subjects.h"

#include <algorithm>
#include <iterator>

#include "keystore/engine/memory_engine.h"
#include "tests/keystore/engine/late_engine.h"
#include "tests/keystore/engine/rocksdb_fixture.h"

namespace idempotency::keystore {
namespace {

// Any engine that needs nothing around it.
template <typename EngineType>
class PlainSubject final : public Subject {
 public:
  template <typename... Arguments>
  explicit PlainSubject(Arguments&&... arguments)
      : engine_(std::make_unique<EngineType>(std::forward<Arguments>(arguments)...)) {}
  Engine& engine() override { return *engine_; }
  void Destroy() override { engine_.reset(); }

 private:
  std::unique_ptr<EngineType> engine_;
};

class RocksDbSubject final : public Subject {
 public:
  explicit RocksDbSubject(bool check_guards, bool sealed = false) {
    fixture_.options.check_guards = check_guards;
    if (sealed) {
      fixture_.AddKey("k1");
      fixture_.MakeCurrent("k1");
    }
    fixture_.Open();
  }
  Engine& engine() override { return fixture_.engine(); }
  void Destroy() override { fixture_.Close(); }
  void Reopen() override { fixture_.Open(); }
  void PlantUnreadable(const core::Key& key) override {
    fixture_.Plant(Family::kFinished, key, "\x01not a record");
  }

 private:
  RocksDbFixture fixture_;
};

}  // namespace

const std::vector<SubjectKind>& AllSubjects() {
  static const auto& subjects = *new std::vector<SubjectKind>{
      {.name = "Memory", .make = [] { return std::make_unique<PlainSubject<MemoryEngine>>(); }},
      {.name = "RocksDb",
       .make = [] { return std::make_unique<RocksDbSubject>(true); },
       .durable = true,
       .can_hold_unreadable = true},
      // As it runs in production.
      {.name = "RocksDbWithoutGuards",
       .make = [] { return std::make_unique<RocksDbSubject>(false); },
       .checks_guards = false,
       .durable = true,
       .can_hold_unreadable = true},
      {.name = "RocksDbSealed",
       .make = [] { return std::make_unique<RocksDbSubject>(true, true); },
       .durable = true,
       .can_hold_unreadable = true},
      {.name = "Late",
       .make = [] { return std::make_unique<PlainSubject<LateEngine>>(LateScript{.seed = 1}); }},
      {.name = "LateLosingRacesAndUnknown",
       .make =
           [] {
             return std::make_unique<PlainSubject<LateEngine>>(
                 LateScript{.seed = 2, .lost_race_percent = 20, .unknown_percent = 20});
           },
       .calm = false},
  };
  return subjects;
}

std::vector<SubjectKind> SubjectsThat(const std::function<bool(const SubjectKind&)>& can) {
  std::vector<SubjectKind> subjects;
  std::copy_if(AllSubjects().begin(), AllSubjects().end(), std::back_inserter(subjects), can);
  return subjects;
}

}  // namespace idempotency::keystore
