// Records as the core makes them, for engines to keep: every state, and values that are awkward
// to store.
#ifndef IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_RECORDS_H_
#define IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_RECORDS_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "keystore/core/command.h"
#include "keystore/core/policy.h"
#include "keystore/core/record.h"
#include "keystore/core/time.h"

namespace idempotency::keystore {

inline constexpr core::Time kStart{std::chrono::milliseconds(1'700'000'000'000)};

// Steps one record through its life; a command that writes nothing is a bug of the test.
class Story {
 public:
  explicit Story(core::Time at = kStart, core::Policy policy = {})
      : at_(at), policy_(std::move(policy)) {}

  Story& Wait(core::Duration span);
  Story& Reserve(uint64_t token_floor = 1);
  Story& Complete(core::Response response = {});
  Story& Release();
  Story& Mark();
  Story& Apply(const core::Command& command, uint64_t token_floor = 1);

  core::RecordPtr ptr() const { return record_; }
  const core::Record& record() const { return *record_; }
  uint64_t token() const { return record_->token; }

 private:
  core::Time at_;
  core::Policy policy_;
  core::RecordPtr record_;
};

// One record a name: every state, and long, empty and binary values.
std::vector<std::pair<std::string, core::RecordPtr>> SampleRecords();

core::RecordPtr PendingRecord(uint64_t token = 1);
core::RecordPtr CompleteRecord(uint64_t token = 1, std::string body = "{\"paid\":true}");
core::RecordPtr UnresolvedRecord(uint64_t token = 1);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_RECORDS_H_
