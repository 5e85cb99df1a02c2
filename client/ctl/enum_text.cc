#include "client/ctl/enum_text.h"

#include <algorithm>
#include <cctype>

namespace idempotency::ctl {
namespace {

constexpr std::string_view kZeroSuffix = "UNSPECIFIED";

// Every enum of the API has a zero value <PREFIX>UNSPECIFIED.
size_t PrefixLength(const google::protobuf::EnumDescriptor& type) {
  const std::string& zero = type.value(0)->name();
  return zero.size() > kZeroSuffix.size() ? zero.size() - kZeroSuffix.size() : 0;
}

std::string FlagSpelling(std::string_view name) {
  std::string text(name);
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return c == '_' ? '-' : static_cast<char>(std::tolower(c));
  });
  return text;
}

}  // namespace

std::string EnumText(const google::protobuf::EnumDescriptor& type, int value) {
  const google::protobuf::EnumValueDescriptor* known = type.FindValueByNumber(value);
  return known == nullptr ? std::to_string(value) : known->name().substr(PrefixLength(type));
}

std::optional<int> ParseEnumText(const google::protobuf::EnumDescriptor& type,
                                 std::string_view text) {
  for (int i = 1; i < type.value_count(); ++i) {
    const std::string name = type.value(i)->name().substr(PrefixLength(type));
    if (FlagSpelling(name) == FlagSpelling(text)) return type.value(i)->number();
  }
  return std::nullopt;
}

std::vector<std::string> EnumChoices(const google::protobuf::EnumDescriptor& type) {
  std::vector<std::string> choices;
  for (int i = 1; i < type.value_count(); ++i) {
    choices.push_back(FlagSpelling(type.value(i)->name().substr(PrefixLength(type))));
  }
  return choices;
}

}  // namespace idempotency::ctl
