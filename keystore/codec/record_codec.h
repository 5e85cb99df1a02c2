// Records <-> bytes. The grammar is at the top of record_codec.cc; the bytes are a contract.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_KEYSTORE_CODEC_RECORD_CODEC_H_
#define IDEMPOTENCY_KEYSTORE_CODEC_RECORD_CODEC_H_

#include <optional>
#include <string>
#include <string_view>

#include "keystore/core/record.h"

namespace idempotency::keystore {

// Appends the encoding of `record` to `out`. The record must keep every rule of
// core/invariants.h.
void EncodeRecord(const core::Record& record, std::string* out);

// The record, or nullopt for anything but exactly what EncodeRecord made: an unknown format,
// any flipped bit, a cut or trailing byte, a record that breaks a rule. Never throws, never
// reads outside `bytes`.
std::optional<core::Record> DecodeRecord(std::string_view bytes) noexcept;

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_CODEC_RECORD_CODEC_H_
