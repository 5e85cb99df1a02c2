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
  PostgresSubject() : engine_(fixture_.Open()) {}
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
  PostgresFixture fixture_;
  std::unique_ptr<PostgresEngine> engine_;
  int planted_ = 0;
};

}  // namespace

const std::vector<SubjectKind>& AllSubjects() {
  static const auto& subjects =
      *new std::vector<SubjectKind>{{.name = "Postgres",
                                     .make = [] { return std::make_unique<PostgresSubject>(); },
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
