// The conformance suite on a real PostgreSQL.
#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "keystore/codec/key_codec.h"
#include "tests/keystore/engine/postgres/postgres_fixture.h"
#include "tests/keystore/engine/subjects.h"

namespace idempotency::keystore {
namespace {

class PostgresSubject final : public Subject {
 public:
  explicit PostgresSubject(bool sealed) {
    if (sealed) {
      keys_.AddKey("k1");
      keys_.MakeCurrent("k1");
      fixture_.options.response_keys = keys_.options.engine.response_keys;
      fixture_.options.random_bytes = keys_.options.engine.random_bytes;
    }
    engine_ = fixture_.Open();
  }
  Engine& engine() override { return *engine_; }
  void Destroy() override { engine_.reset(); }
  void Reopen() override {
    engine_.reset();
    engine_ = fixture_.Open();
  }
  void PlantUnreadable(const core::Key& key) override {
    // Of a version that no engine gives.
    fixture_.Sql(
        "INSERT INTO idempotency_records (key, version, replaced, state, record) VALUES ('\\x" +
        absl::BytesToHexString(EncodeKey(key)) + "', " + std::to_string(++planted_) +
        ", 0, 2, 'not a record') ON CONFLICT (key) DO UPDATE SET version = excluded.version, "
        "record = excluded.record");
  }

 private:
  // For its key files; no store is opened there.
  RocksDbFixture keys_;
  PostgresFixture fixture_;
  std::unique_ptr<PostgresEngine> engine_;
  int planted_ = 0;
};

}  // namespace

const std::vector<SubjectKind>& AllSubjects() {
  static const auto& subjects = *new std::vector<SubjectKind>{
      {.name = "Postgres",
       .make = [] { return std::make_unique<PostgresSubject>(false); },
       .durable = true,
       .can_hold_unreadable = true},
      {.name = "PostgresSealed",
       .make = [] { return std::make_unique<PostgresSubject>(true); },
       .durable = true,
       .can_hold_unreadable = true}};
  return subjects;
}

std::vector<SubjectKind> SubjectsThat(const std::function<bool(const SubjectKind&)>& can) {
  std::vector<SubjectKind> subjects;
  std::copy_if(AllSubjects().begin(), AllSubjects().end(), std::back_inserter(subjects), can);
  return subjects;
}

}  // namespace idempotency::keystore
