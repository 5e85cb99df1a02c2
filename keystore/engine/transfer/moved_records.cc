#include "keystore/engine/transfer/moved_records.h"

#include <openssl/evp.h>

#include <array>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "keystore/codec/byte_io.h"
#include "keystore/codec/key_codec.h"
#include "keystore/codec/record_codec.h"

namespace idempotency::keystore {
namespace {

using EvpContext = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;

EvpContext NewContext() { return {EVP_MD_CTX_new(), &EVP_MD_CTX_free}; }

// SHA-256 fails only where there is no memory.
void MustWork(bool worked) {
  if (!worked) std::abort();
}

uint64_t* CountOf(core::State state, RecordTotals* totals) {
  switch (state) {
    case core::State::kPending:
      return &totals->pending;
    case core::State::kUnresolved:
      return &totals->unresolved;
    case core::State::kComplete:
      return &totals->complete;
    case core::State::kExpired:
      return &totals->expired;
    case core::State::kFreed:
      break;
  }
  return &totals->freed;
}

void AddWithLength(std::string_view bytes, TransferDigest* digest) {
  std::string length;
  ByteWriter(&length).Fixed32(static_cast<uint32_t>(bytes.size()));
  digest->Add(length);
  digest->Add(bytes);
}

}  // namespace

struct TransferDigest::Context {
  EvpContext evp = NewContext();
};

TransferDigest::TransferDigest() : context_(std::make_unique<Context>()) {
  MustWork(context_->evp != nullptr &&
           EVP_DigestInit_ex(context_->evp.get(), EVP_sha256(), nullptr) == 1);
}

TransferDigest::~TransferDigest() = default;

void TransferDigest::Add(std::string_view bytes) {
  MustWork(EVP_DigestUpdate(context_->evp.get(), bytes.data(), bytes.size()) == 1);
}

std::string TransferDigest::Value() const {
  const EvpContext copy = NewContext();
  MustWork(copy != nullptr && EVP_MD_CTX_copy_ex(copy.get(), context_->evp.get()) == 1);
  std::array<unsigned char, kTransferDigestBytes> value{};
  MustWork(EVP_DigestFinal_ex(copy.get(), value.data(), nullptr) == 1);
  return {reinterpret_cast<const char*>(value.data()), value.size()};
}

MovedRecord Pack(const core::Key& key, const core::Record& record) {
  MovedRecord moved{.key = EncodeKey(key), .bytes = {}};
  EncodeRecord(record, &moved.bytes);
  return moved;
}

std::optional<UnpackedRecord> Unpack(const MovedRecord& moved) noexcept {
  std::optional<core::Key> key = DecodeKey(moved.key);
  std::optional<core::Record> record = DecodeRecord(moved.bytes);
  if (!key.has_value() || !record.has_value()) return std::nullopt;
  return UnpackedRecord{.key = *std::move(key), .record = *std::move(record)};
}

void RecordTally::Add(const MovedRecord& moved, core::State state) {
  ++*CountOf(state, &counted_);
  counted_.bytes += moved.key.size() + moved.bytes.size();
  AddWithLength(moved.key, &digest_);
  AddWithLength(moved.bytes, &digest_);
}

RecordTotals RecordTally::totals() const {
  RecordTotals totals = counted_;
  totals.digest = digest_.Value();
  return totals;
}

std::string DigestOf(const TransferFacts& facts) {
  TransferDigest digest;
  digest.Add(absl::StrCat("idempotency transfer 1\nengine ", facts.engine, "\ntoken_floor ",
                          facts.token_floor, "\nmade ", facts.made.time_since_epoch().count(),
                          "\nlost_before ", facts.lost_before.time_since_epoch().count(), "\n"));
  if (facts.retired) {
    digest.Add(absl::StrCat("retired ", facts.retired->time.time_since_epoch().count(), "\n"));
    AddWithLength(facts.retired->actor, &digest);
    AddWithLength(facts.retired->moved_to, &digest);
    AddWithLength(facts.retired->digest, &digest);
  }
  return digest.Value();
}

}  // namespace idempotency::keystore
