#include "keystore/codec/key_codec.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>

namespace idempotency::keystore {
namespace {

// A longer part has passed no limit and would be stored as another key: a bug, not an input.
void AppendPart(std::string_view part, std::string* out) {
  if (part.size() > std::numeric_limits<uint8_t>::max()) std::abort();
  out->push_back(static_cast<char>(part.size()));
  out->append(part);
}

// Takes a length-prefixed part off the front of `rest`.
std::optional<std::string_view> TakePart(std::string_view& rest) {
  if (rest.empty()) return std::nullopt;
  const size_t length = static_cast<uint8_t>(rest.front());
  rest.remove_prefix(1);
  if (length > rest.size()) return std::nullopt;
  const std::string_view part = rest.substr(0, length);
  rest.remove_prefix(length);
  return part;
}

}  // namespace

std::string EncodeKey(const core::Key& key) {
  return ScopePrefix(key.name_space, key.scope, key.key);
}

std::optional<core::Key> DecodeKey(std::string_view bytes) noexcept {
  const std::optional<std::string_view> name_space = TakePart(bytes);
  if (!name_space.has_value()) return std::nullopt;
  const std::optional<std::string_view> scope = TakePart(bytes);
  if (!scope.has_value()) return std::nullopt;
  return core::Key{std::string(*name_space), std::string(*scope), std::string(bytes)};
}

std::string NamespacePrefix(std::string_view name_space) {
  std::string prefix;
  AppendPart(name_space, &prefix);
  return prefix;
}

std::string ScopePrefix(std::string_view name_space, std::string_view scope,
                        std::string_view key_prefix) {
  std::string prefix;
  prefix.reserve(2 + name_space.size() + scope.size() + key_prefix.size());
  AppendPart(name_space, &prefix);
  AppendPart(scope, &prefix);
  prefix.append(key_prefix);
  return prefix;
}

std::string PrefixEnd(std::string_view prefix) {
  // Nothing is above 0xff, so that the byte before it has to rise.
  while (!prefix.empty() && static_cast<uint8_t>(prefix.back()) == 0xff) prefix.remove_suffix(1);
  std::string end(prefix);
  if (!end.empty()) end.back() = static_cast<char>(static_cast<uint8_t>(end.back()) + 1);
  return end;
}

}  // namespace idempotency::keystore
