#include "client/src/json_pointer.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace idempotency::internal {
namespace {

absl::Status Invalid(std::string_view pointer, const char* problem) {
  return absl::InvalidArgumentError(
      absl::StrCat("exclude: \"", std::string(pointer), "\" ", problem));
}

// "~1" is '/', "~0" is '~', and there is no other '~'.
std::optional<std::string> Unescape(std::string_view token) {
  std::string out;
  for (size_t i = 0; i < token.size(); ++i) {
    if (token[i] != '~') {
      out.push_back(token[i]);
      continue;
    }
    if (++i == token.size() || (token[i] != '0' && token[i] != '1')) return std::nullopt;
    out.push_back(token[i] == '0' ? '~' : '/');
  }
  return out;
}

std::optional<std::vector<std::string>> Split(std::string_view pointer) {
  std::vector<std::string> tokens;
  while (!pointer.empty()) {
    if (pointer[0] != '/') return std::nullopt;
    pointer.remove_prefix(1);
    const size_t end = std::min(pointer.find('/'), pointer.size());
    std::optional<std::string> token = Unescape(pointer.substr(0, end));
    if (!token) return std::nullopt;
    tokens.push_back(*std::move(token));
    pointer.remove_prefix(end);
  }
  return tokens;
}

// Null where `token` is no index of `array`.
JsonValue* Element(const std::string& token, JsonValue* array) {
  if (token.empty() || token.size() > 9 || (token.size() > 1 && token[0] == '0')) return nullptr;
  size_t index = 0;
  for (char c : token) {
    if (c < '0' || c > '9') return nullptr;
    index = index * 10 + static_cast<size_t>(c - '0');
  }
  return index < array->items.size() ? &array->items[index] : nullptr;
}

JsonValue* Member(const std::string& token, JsonValue* object) {
  for (JsonMember& member : object->members) {
    if (member.name == token) return &member.value;
  }
  return nullptr;
}

}  // namespace

absl::Status RemoveJsonMember(std::string_view pointer, JsonValue* document) {
  std::optional<std::vector<std::string>> tokens = Split(pointer);
  if (!tokens) return Invalid(pointer, "is no JSON pointer; write it as /name/name");
  if (tokens->empty()) return Invalid(pointer, "is the whole document; name a member of it");
  const std::string last = std::move(tokens->back());
  tokens->pop_back();
  JsonValue* parent = document;
  for (const std::string& token : *tokens) {
    parent =
        parent->kind == JsonValue::Kind::kArray ? Element(token, parent) : Member(token, parent);
    if (parent == nullptr) return absl::OkStatus();
  }
  if (parent->kind == JsonValue::Kind::kArray) {
    return Invalid(pointer, "is an element of an array; exclude members of objects");
  }
  std::vector<JsonMember>& members = parent->members;
  members.erase(std::remove_if(members.begin(), members.end(),
                               [&](const JsonMember& member) { return member.name == last; }),
                members.end());
  return absl::OkStatus();
}

}  // namespace idempotency::internal
