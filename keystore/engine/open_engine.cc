#include "keystore/engine/open_engine.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "keystore/engine/memory_engine.h"
#include "keystore/engine/rocksdb_engine.h"

namespace idempotency::keystore {
namespace {

// A volume whose syncs are no promise; everything else is said to be one.
void WarnOfVolumeInMemory(const std::string& path, const LogFunction& log) {
  struct statfs volume {};
  if (!log || statfs(path.c_str(), &volume) != 0) return;
  const auto type = static_cast<unsigned long>(volume.f_type);
  if (type != TMPFS_MAGIC && type != RAMFS_MAGIC) return;
  log(kLogWarning, absl::StrCat(path,
                                " is in memory: nothing in it outlives the machine or its "
                                "pod, and what was acknowledged is lost with it; name a "
                                "data_dir on a disk"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> OpenEngine(EngineOptions options) {
  if (options.engine == "memory") {
    if (!options.response_keys.empty()) {
      return absl::InvalidArgumentError("the memory engine seals nothing; leave out the keys");
    }
    if (!options.log) return std::make_unique<MemoryEngine>();
    return std::make_unique<MemoryEngine>(std::move(options.log));
  }
  if (options.engine != "rocksdb") {
    return absl::InvalidArgumentError(
        absl::StrCat("engine \"", options.engine, "\" is unknown; use rocksdb or memory"));
  }
  const std::string data_dir = options.data_dir;
  const LogFunction log = options.log;
  absl::StatusOr<std::unique_ptr<RocksDbEngine>> engine =
      RocksDbEngine::Open(RocksDbOptions{.engine = std::move(options)});
  if (!engine.ok()) return engine.status();
  WarnOfVolumeInMemory(data_dir, log);
  return std::unique_ptr<Engine>(*std::move(engine));
}

absl::StatusOr<RewrapProgress> RewrapStore(EngineOptions options,
                                           const std::function<void(const RewrapProgress&)>& tell) {
  if (options.engine != "rocksdb") {
    return absl::InvalidArgumentError("only a RocksDB store can be rewrapped; use engine rocksdb");
  }
  absl::StatusOr<std::unique_ptr<RocksDbEngine>> engine =
      RocksDbEngine::Open(RocksDbOptions{.engine = std::move(options)});
  if (!engine.ok()) return engine.status();
  return (*engine)->Rewrap(tell);
}

}  // namespace idempotency::keystore
