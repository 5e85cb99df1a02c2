#include "tests/keystore/engine/rocksdb_fixture.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "keystore/codec/key_codec.h"
#include "keystore/engine/key_ring.h"
#include "keystore/engine/record_sealer.h"
#include "keystore/engine/rocksdb_logger.h"
#include "keystore/engine/store_health.h"
#include "tests/keystore/engine/records.h"

namespace idempotency::keystore {
namespace {

constexpr size_t kMegabyte = size_t{1} << 20;

void Ignore(int, std::string_view) {}

}  // namespace

core::Now Surroundings::now() const {
  absl::MutexLock lock(&mutex_);
  return now_;
}

void Surroundings::SetNow(const core::Now& now) {
  absl::MutexLock lock(&mutex_);
  now_ = now;
}

void Surroundings::Log(int level, std::string_view line) {
  absl::MutexLock lock(&mutex_);
  lines_.emplace_back(level, std::string(line));
}

bool Surroundings::Logged(int level, std::string_view text) const {
  absl::MutexLock lock(&mutex_);
  return LoggedLocked(level, text);
}

size_t Surroundings::lines() const {
  absl::MutexLock lock(&mutex_);
  return lines_.size();
}

bool Surroundings::WaitForLog(int level, std::string_view text) const {
  const auto logged = [&] {
    mutex_.AssertReaderHeld();
    return LoggedLocked(level, text);
  };
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&logged), absl::Seconds(30));
}

bool Surroundings::LoggedLocked(int level, std::string_view text) const {
  return std::any_of(lines_.begin(), lines_.end(), [&](const auto& line) {
    return line.first >= level && line.second.find(text) != std::string::npos;
  });
}

RocksDbFixture::RocksDbFixture() : surroundings_(std::make_shared<Surroundings>()) {
  surroundings_->SetNow(core::At(kStart));
  EngineOptions& engine = options.engine;
  engine.data_dir = directory_.file("data");
  engine.block_cache_bytes = 4 * kMegabyte;
  engine.memtable_bytes = 4 * kMegabyte;
  engine.ballast_bytes = kMegabyte;
  engine.min_free_bytes = kMegabyte;
  engine.now = [surroundings = surroundings_] { return surroundings->now(); };
  engine.log = [surroundings = surroundings_](int level, std::string_view line) {
    surroundings->Log(level, line);
  };
  // As good as random: used once.
  engine.random_bytes = [count = std::make_shared<std::atomic<uint64_t>>(0)](char* bytes,
                                                                             size_t size) {
    const uint64_t seed = ++*count;
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i < 8 ? seed >> (8 * i) : i);
  };
  options.check_guards = true;
}

void RocksDbFixture::AddKey(const std::string& id) {
  options.engine.response_keys = directory_.file("keys");
  std::filesystem::create_directories(options.engine.response_keys);
  const std::string path = options.engine.response_keys + "/" + id + ".key";
  std::filesystem::remove(path);
  std::ofstream file(path);
  for (size_t i = 0; i < kSealSecretBytes; ++i) {
    file << absl::StrFormat("%02x", static_cast<uint8_t>(id[i % id.size()] + i));
  }
  file << "\n";
  file.close();
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
}

void RocksDbFixture::RemoveKey(const std::string& id) {
  std::filesystem::remove(options.engine.response_keys + "/" + id + ".key");
}

void RocksDbFixture::MakeCurrent(const std::string& id) {
  const std::string path = options.engine.response_keys + "/current";
  std::filesystem::remove(path);
  if (!id.empty()) std::ofstream(path) << id << "\n";
}

RocksDbEngine* RocksDbFixture::Open() {
  engine_.reset();
  absl::StatusOr<std::unique_ptr<RocksDbEngine>> engine = RocksDbEngine::Open(options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  if (engine.ok()) engine_ = *std::move(engine);
  return engine_.get();
}

absl::Status RocksDbFixture::TryOpen() { return RocksDbEngine::Open(options).status(); }

std::unique_ptr<RocksDbStore> RocksDbFixture::OpenStore() {
  StoreTuning tuning{.block_cache_bytes = kMegabyte,
                     .memtable_bytes = kMegabyte,
                     .disable_auto_compactions = true,
                     .info_log = std::make_shared<RocksDbLogger>(&Ignore),
                     .listener = std::make_shared<StoreHealth>(&Ignore)};
  if (!options.engine.response_keys.empty()) {
    auto keys = KeyRing::Load(options.engine.response_keys);
    EXPECT_TRUE(keys.ok()) << keys.status();
    if (keys.ok()) {
      tuning.sealer = std::make_shared<RecordSealer>(*keys, options.engine.random_bytes, &Ignore);
    }
    tuning.lost_keys = options.engine.lost_response_keys;
  }
  auto store = RocksDbStore::Open(data_dir() + "/db", false, tuning);
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? *std::move(store) : nullptr;
}

std::optional<std::string> RocksDbFixture::Stored(Family family, const core::Key& key) {
  const bool was_open = engine_ != nullptr;
  Close();
  std::string bytes;
  rocksdb::Status status;
  {
    const std::unique_ptr<RocksDbStore> store = OpenStore();
    status = store->db().Get({}, store->family(family), EncodeKey(key), &bytes);
  }
  EXPECT_TRUE(status.ok() || status.IsNotFound()) << status.ToString();
  if (was_open) Open();
  return status.ok() ? std::optional<std::string>(std::move(bytes)) : std::nullopt;
}

void RocksDbFixture::Plant(Family family, const core::Key& key, const std::string& bytes) {
  Close();
  {
    const std::unique_ptr<RocksDbStore> store = OpenStore();
    rocksdb::WriteOptions write;
    write.sync = true;
    const rocksdb::Status status =
        store->db().Put(write, store->family(family), EncodeKey(key), bytes);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  Open();
}

}  // namespace idempotency::keystore
