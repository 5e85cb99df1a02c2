#include "tests/bench/micro/scratch_store.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

namespace idempotency::bench {
namespace {

constexpr uint64_t kLoadBatch = 1024;
constexpr uint64_t kLoadedToken = 1;

std::string MakeDirectory(const std::string& parent) {
  std::string name = parent + "/idempotency-micro-XXXXXX";
  Require(::mkdtemp(name.data()) != nullptr, "no directory could be made in " + parent);
  return name;
}

}  // namespace

ScratchStore::ScratchStore(const Settings& settings)
    : directory_(MakeDirectory(settings.directory)) {
  keystore::RocksDbOptions options;
  options.engine.data_dir = directory_ + "/data";
  options.engine.now = [] { return core::At(kNow); };
  // The sizes of the service, but for what a full disk needs.
  options.engine.ballast_bytes = 0;
  options.engine.min_free_bytes = 0;
  auto engine = keystore::RocksDbEngine::Open(std::move(options));
  Require(engine.ok(), engine.status().ToString());
  engine_ = *std::move(engine);
}

ScratchStore::~ScratchStore() {
  engine_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

std::vector<keystore::ReadEntry> ScratchStore::Read(std::vector<core::Key> keys) {
  std::vector<keystore::ReadEntry> entries;
  engine_->Read(std::move(keys), [&entries](absl::StatusOr<keystore::ReadResult> result) {
    if (!result.ok()) Require(false, result.status().ToString());
    entries = std::move(result->entries);
  });
  return entries;
}

void ScratchStore::Commit(std::vector<keystore::GuardedWrite> writes) {
  engine_->Commit(std::move(writes), [](std::vector<keystore::WriteOutcome> outcomes) {
    for (const keystore::WriteOutcome outcome : outcomes) {
      Require(outcome == keystore::WriteOutcome::kCommitted, "a commit failed");
    }
  });
}

void ScratchStore::Load(uint64_t count) {
  for (uint64_t first = 0; first < count; first += kLoadBatch) {
    std::vector<keystore::GuardedWrite> writes;
    for (uint64_t i = first; i < std::min(count, first + kLoadBatch); ++i) {
      writes.push_back({KeyOf(i), 0, CompleteRecord(i, kLoadedToken + i)});
    }
    Commit(std::move(writes));
  }
}

}  // namespace idempotency::bench
