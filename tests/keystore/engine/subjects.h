// The engines that the conformance suite runs on, and what each can be asked to do.
#ifndef IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_SUBJECTS_H_
#define IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_SUBJECTS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "keystore/core/record.h"
#include "keystore/engine/engine.h"

namespace idempotency::keystore {

class Subject {
 public:
  virtual ~Subject() = default;
  virtual Engine& engine() = 0;
  // Ends the engine, answering what was asked. engine() must not be used any more.
  virtual void Destroy() = 0;
  // Closes the store and opens it again. Durable engines only.
  virtual void Reopen() {}
  // Puts bytes under `key` that cannot be decoded. Where `can_hold_unreadable` only.
  virtual void PlantUnreadable(const core::Key&) {}
};

struct SubjectKind {
  std::string name;
  std::function<std::unique_ptr<Subject>()> make;
  // Every write is answered with what became of it: no race is lost without a rival of the
  // test's own making, and nothing is unknown.
  bool calm = true;
  // It finds out that a race was lost. An exclusive engine need not.
  bool checks_guards = true;
  bool durable = false;
  bool can_hold_unreadable = false;
};

const std::vector<SubjectKind>& AllSubjects();
std::vector<SubjectKind> SubjectsThat(const std::function<bool(const SubjectKind&)>& can);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_SUBJECTS_H_
