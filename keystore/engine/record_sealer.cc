#include "keystore/engine/record_sealer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "keystore/engine/engine_log.h"

namespace idempotency::keystore {

absl::StatusOr<std::shared_ptr<const RecordSealer>> LoadSealer(const EngineOptions& options) {
  std::shared_ptr<const KeyRing> ring = std::make_shared<KeyRing>();
  if (!options.response_keys.empty()) {
    auto keys = KeyRing::Load(options.response_keys);
    if (!keys.ok()) return keys.status();
    ring = *std::move(keys);
  } else if (!options.demand_response_keys) {
    return std::make_shared<const RecordSealer>();
  }
  if (!options.demand_response_keys) {
    return std::make_shared<const RecordSealer>(std::move(ring), options.random_bytes, options.log);
  }
  return std::make_shared<const RecordSealer>(std::move(ring), options.random_bytes, options.log,
                                              options.lost_response_keys);
}

RecordSealer::RecordSealer() : RecordSealer(std::make_shared<KeyRing>(), nullptr, nullptr) {}

RecordSealer::RecordSealer(std::shared_ptr<const KeyRing> keys, RandomBytes random, SealerLog log)
    : keys_(std::move(keys)), random_(std::move(random)), log_(std::move(log)) {}

RecordSealer::RecordSealer(std::shared_ptr<const KeyRing> keys, RandomBytes random, SealerLog log,
                           std::vector<std::string> lost)
    : keys_(std::move(keys)),
      random_(std::move(random)),
      log_(std::move(log)),
      lost_(std::move(lost)) {}

bool RecordSealer::Encode(std::string_view stored_key, const core::Record& record,
                          std::string* out) const {
  const std::optional<SealKey> key = keys_->current();
  if (!key.has_value() || !IsSealable(record)) {
    EncodeRecord(record, out);
    return true;
  }
  std::array<char, kSealSaltBytes> salt{};
  random_(salt.data(), salt.size());
  return SealRecord(
      record, {.key = *key, .salt = {salt.data(), salt.size()}, .stored_key = stored_key}, out);
}

std::optional<OpenedRecord> RecordSealer::Decode(std::string_view stored_key,
                                                 std::string_view bytes) const {
  std::optional<OpenedRecord> opened = OpenRecord(bytes, stored_key, *keys_);
  if (!opened.has_value() || !opened->key_missing) return opened;
  NoteMissing(opened->key_id);
  return MayBeMissing(opened->key_id) ? std::move(opened) : std::nullopt;
}

bool RecordSealer::MayBeMissing(std::string_view key_id) const {
  return !lost_.has_value() || std::find(lost_->begin(), lost_->end(), key_id) != lost_->end();
}

void RecordSealer::NoteMissing(std::string_view key_id) const {
  if (!log_) return;
  absl::MutexLock lock(&mutex_);
  if (std::find(noted_.begin(), noted_.end(), key_id) != noted_.end()) return;
  noted_.emplace_back(key_id);
  log_(kLogWarning, absl::StrCat("answers that were sealed with the key ", noted_.back(),
                                 " cannot be replayed: it is not among the keys; that they were "
                                 "given is still known"));
}

}  // namespace idempotency::keystore
