// Keys <-> bytes, ordered so that a namespace, a scope in it and a key prefix in that are
// each one contiguous range:
//
//   stored key := length(namespace) namespace length(scope) scope key      length := one byte
//
// Lengths are bytes because both parts are at most 255 (limits.h). The key comes last without
// a length, so that a prefix of it is a prefix of the stored key.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_KEYSTORE_CODEC_KEY_CODEC_H_
#define IDEMPOTENCY_KEYSTORE_CODEC_KEY_CODEC_H_

#include <optional>
#include <string>
#include <string_view>

#include "keystore/core/record.h"

namespace idempotency::keystore {

std::string EncodeKey(const core::Key& key);
// nullopt for bytes that EncodeKey cannot have made.
std::optional<core::Key> DecodeKey(std::string_view bytes) noexcept;

// The stored keys of all operations of a namespace begin with this ...
std::string NamespacePrefix(std::string_view name_space);
// ... and those of one scope, whose keys begin with key_prefix, with this.
std::string ScopePrefix(std::string_view name_space, std::string_view scope,
                        std::string_view key_prefix);

// The smallest byte string above everything that begins with `prefix`; empty: there is none.
std::string PrefixEnd(std::string_view prefix);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_CODEC_KEY_CODEC_H_
