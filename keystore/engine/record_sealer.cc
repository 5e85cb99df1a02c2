#include "keystore/engine/record_sealer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "keystore/engine/engine_log.h"

namespace idempotency::keystore {

absl::StatusOr<std::shared_ptr<const RecordSealer>> LoadSealer(const EngineOptions& options) {
  if (options.response_keys.empty()) return std::make_shared<const RecordSealer>();
  auto keys = KeyRing::Load(options.response_keys);
  if (!keys.ok()) return keys.status();
  return std::make_shared<const RecordSealer>(*std::move(keys), options.random_bytes, options.log);
}

RecordSealer::RecordSealer() : RecordSealer(std::make_shared<KeyRing>(), nullptr, nullptr) {}

RecordSealer::RecordSealer(std::shared_ptr<const KeyRing> keys, RandomBytes random, SealerLog log)
    : keys_(std::move(keys)), random_(std::move(random)), log_(std::move(log)) {}

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
  if (opened.has_value() && opened->key_missing) NoteMissing(opened->key_id);
  return opened;
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
