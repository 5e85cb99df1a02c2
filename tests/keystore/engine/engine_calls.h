// Engine calls as a test reads them: each waits for its completion, on whatever thread it runs.
#ifndef IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_ENGINE_CALLS_H_
#define IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_ENGINE_CALLS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keystore/core/record.h"
#include "keystore/engine/engine.h"

namespace idempotency::keystore {

// A key of the namespace "pay", scope "acme".
core::Key PayKey(std::string key);

absl::StatusOr<ReadResult> Read(Engine& engine, std::vector<core::Key> keys);
std::vector<WriteOutcome> Commit(Engine& engine, std::vector<GuardedWrite> writes);
absl::StatusOr<ScanResult> Scan(Engine& engine, ScanFilter filter, size_t limit,
                                std::string resume_key = {});

// One key; a failed read is a failed test, and gives an entry of an absent key.
ReadEntry ReadOne(Engine& engine, const core::Key& key);

// One key, again where the store does not answer yet; how it ended.
absl::StatusOr<ReadResult> ReadWhenAnswered(Engine& engine, const core::Key& key);

// Stores or (null) erases whatever is there by now, as the key store does: where the race was
// lost or the outcome is unknown, it reads again.
void Store(Engine& engine, const core::Key& key, const core::RecordPtr& record);

// All pages of a scan; gives up after more pages than there can be.
std::vector<ScanEntry> ScanAll(Engine& engine, const ScanFilter& filter, size_t limit);

// Retires the store, as whoever has moved its records away does.
absl::Status RetireBy(Engine& engine);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_TESTS_KEYSTORE_ENGINE_ENGINE_CALLS_H_
