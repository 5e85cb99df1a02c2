// Stored keys: every key comes back, and what belongs together (a namespace, a scope, a key
// prefix) is one range of the stored order.
//
//   input := stored-key' , whose key part is  length key-a key-b
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "keystore/codec/key_codec.h"
#include "tests/fuzz/require.h"

namespace idempotency::fuzz {
namespace {

using core::Key;
using keystore::DecodeKey;
using keystore::EncodeKey;
using keystore::NamespacePrefix;
using keystore::PrefixEnd;
using keystore::ScopePrefix;

bool BeginsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

bool IsInRange(const std::string& stored, const std::string& prefix) {
  const std::string end = PrefixEnd(prefix);
  return stored >= prefix && (end.empty() || stored < end);
}

void ComesBack(const Key& key) {
  Require(DecodeKey(EncodeKey(key)) == key, "a key is read as it was written");
}

void IsOneRange(const Key& key, const Key& of) {
  const std::string stored = EncodeKey(key);
  const bool same_namespace = key.name_space == of.name_space;
  Require(IsInRange(stored, NamespacePrefix(of.name_space)) == same_namespace,
          "a namespace is one range");
  const bool same_scope = same_namespace && key.scope == of.scope;
  Require(IsInRange(stored, ScopePrefix(of.name_space, of.scope, "")) == same_scope,
          "a scope is one range");
  const bool begins = same_scope && BeginsWith(key.key, of.key);
  Require(IsInRange(stored, ScopePrefix(of.name_space, of.scope, of.key)) == begins,
          "a key prefix is one range");
  Require((stored == EncodeKey(of)) == (key == of), "two keys are stored under two");
  if (same_scope) {
    Require((stored < EncodeKey(of)) == (key.key < of.key), "the keys of a scope keep their order");
  }
}

}  // namespace
}  // namespace idempotency::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace idempotency;
  const std::string_view bytes = fuzz::AsText(data, size);
  const std::optional<core::Key> key = keystore::DecodeKey(bytes);
  if (!key.has_value()) return 0;
  fuzz::Require(keystore::EncodeKey(*key) == bytes, "what is read is written as it was");
  if (key->key.empty()) return 0;
  const std::string_view rest = std::string_view(key->key).substr(1);
  const size_t length = static_cast<uint8_t>(key->key[0]) % (rest.size() + 1);
  const core::Key a{key->name_space, key->scope, std::string(rest.substr(0, length))};
  const core::Key b{key->name_space, key->scope, std::string(rest.substr(length))};
  const core::Key other_scope{key->name_space, a.key.substr(0, 255), b.key};
  const core::Key other_namespace{key->scope, key->name_space, b.key};
  fuzz::ComesBack(a);
  fuzz::IsOneRange(a, a);
  for (const core::Key& other : {b, other_scope, other_namespace}) {
    fuzz::ComesBack(other);
    fuzz::IsOneRange(a, other);
    fuzz::IsOneRange(other, a);
  }
  return 0;
}
