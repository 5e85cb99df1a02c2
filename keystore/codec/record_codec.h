// Records <-> bytes. The grammar is at the top of record_codec.cc; the bytes are a contract.
//
// Response and progress may be sealed (seal.h): whoever has the bytes and not the key can neither
// read nor change them, nor move them to another operation or attempt.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_KEYSTORE_CODEC_RECORD_CODEC_H_
#define IDEMPOTENCY_KEYSTORE_CODEC_RECORD_CODEC_H_

#include <optional>
#include <string>
#include <string_view>

#include "keystore/codec/seal.h"
#include "keystore/core/record.h"

namespace idempotency::keystore {

// Appends the plain encoding of `record` to `out`. The record must keep every rule of
// core/invariants.h.
void EncodeRecord(const core::Record& record, std::string* out);

// The record, or nullopt for anything but exactly what EncodeRecord made: an unknown format,
// any flipped bit, a cut or trailing byte, a record that breaks a rule. Never throws, never
// reads outside `bytes`.
std::optional<core::Record> DecodeRecord(std::string_view bytes) noexcept;

// With what the response and progress of one record are sealed.
struct Sealing {
  SealKey key;
  std::string_view salt;  // kSealSaltBytes, random and used once
  // Names the operation, as key_codec.h writes it.
  std::string_view stored_key;
};

// Whether the record has anything that is sealed.
bool IsSealable(const core::Record& record);

// As EncodeRecord; response and progress are sealed where there are any. False, and nothing
// appended, where that cannot be done for lack of memory.
[[nodiscard]] bool SealRecord(const core::Record& record, const Sealing& sealing, std::string* out);

struct OpenedRecord {
  core::Record record;
  // The id of the key that the record was sealed with, as a part of the bytes; empty: it is plain.
  std::string_view key_id;
  // There is no such key: the record has no progress, and its response counts as omitted.
  bool key_missing = false;
};

// What EncodeRecord or SealRecord made of the record of this operation, or nullopt for anything
// else: as DecodeRecord, and where what is sealed is not what was, or another operation's.
std::optional<OpenedRecord> OpenRecord(std::string_view bytes, std::string_view stored_key,
                                       const SealKeys& keys) noexcept;

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_CODEC_RECORD_CODEC_H_
