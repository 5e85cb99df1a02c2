// Enum values as people write them: UNRESOLVED and not OPERATION_STATE_UNRESOLVED; on the command
// line in any case and with - or _ ("connection-lost").
#ifndef IDEMPOTENCY_CLIENT_CTL_ENUM_TEXT_H_
#define IDEMPOTENCY_CLIENT_CTL_ENUM_TEXT_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/generated_enum_reflection.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace idempotency::ctl {

// The value's name without the prefix that all values of its type share; its number where this
// build does not know it.
std::string EnumText(const google::protobuf::EnumDescriptor& type, int value);

// The inverse. Never the zero value ("unspecified").
std::optional<int> ParseEnumText(const google::protobuf::EnumDescriptor& type,
                                 std::string_view text);

// What may be written for a flag: lower case, with hyphens, without the zero value.
std::vector<std::string> EnumChoices(const google::protobuf::EnumDescriptor& type);

template <typename E>
std::string EnumText(E value) {
  return EnumText(*google::protobuf::GetEnumDescriptor<E>(), static_cast<int>(value));
}

template <typename E>
std::optional<E> ParseEnum(std::string_view text) {
  const std::optional<int> value = ParseEnumText(*google::protobuf::GetEnumDescriptor<E>(), text);
  if (!value) return std::nullopt;
  return static_cast<E>(*value);
}

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_ENUM_TEXT_H_
