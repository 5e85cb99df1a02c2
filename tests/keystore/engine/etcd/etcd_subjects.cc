// The conformance suite on a real etcd.
#include <algorithm>
#include <iterator>
#include <utility>

#include "keystore/codec/key_codec.h"
#include "tests/keystore/engine/etcd/etcd_fixture.h"
#include "tests/keystore/engine/subjects.h"

namespace idempotency::keystore {
namespace {

class EtcdSubject final : public Subject {
 public:
  explicit EtcdSubject(bool sealed) {
    if (sealed) {
      keys_.AddKey("k1");
      keys_.MakeCurrent("k1");
      fixture_.options.response_keys = keys_.options.engine.response_keys;
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
    fixture_.Put(fixture_.layout().RecordKey(Family::kFinished, EncodeKey(key)),
                 "\x01not a record");
  }

 private:
  // For its key files; no store is opened there.
  RocksDbFixture keys_;
  EtcdFixture fixture_;
  std::unique_ptr<EtcdEngine> engine_;
};

}  // namespace

const std::vector<SubjectKind>& AllSubjects() {
  static const auto& subjects =
      *new std::vector<SubjectKind>{{.name = "Etcd",
                                     .make = [] { return std::make_unique<EtcdSubject>(false); },
                                     .durable = true,
                                     .can_hold_unreadable = true},
                                    {.name = "EtcdSealed",
                                     .make = [] { return std::make_unique<EtcdSubject>(true); },
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
