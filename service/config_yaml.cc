#include "service/config_yaml.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/duration.pb.h"
#include "service/duration_text.h"
#include "service/yaml_tree.h"

namespace idempotency::service {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// How many values are read at most. Aliases can make one value stand in many places.
constexpr size_t kMaxValuesRead = kMaxYamlValues;

bool IsDuration(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
         field.message_type() == google::protobuf::Duration::descriptor();
}

bool IsMessage(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !IsDuration(field);
}

// The field by which a mapping stands for a list of these; null where there is none.
const FieldDescriptor* NameField(const FieldDescriptor& field) {
  if (!field.is_repeated() || !IsMessage(field)) return nullptr;
  const FieldDescriptor* name = field.message_type()->FindFieldByName("name");
  const bool is_text = name != nullptr && !name->is_repeated() &&
                       name->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  return is_text ? name : nullptr;
}

// UNKNOWN_OUTCOME_POLICY_RERUN is RERUN: what its zero, ..._UNSPECIFIED, has before that goes.
std::string_view ShortName(const EnumValueDescriptor& value) {
  constexpr std::string_view kZeroSuffix = "UNSPECIFIED";
  std::string_view prefix = value.type()->value(0)->name();
  prefix.remove_suffix(std::min(prefix.size(), kZeroSuffix.size()));
  std::string_view name = value.name();
  if (name.substr(0, prefix.size()) == prefix) name.remove_prefix(prefix.size());
  return name;
}

// All that may be written; the zero stands for a field that is not written.
std::string ShortNames(const EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 1; i < type.value_count(); ++i) names.emplace_back(ShortName(*type.value(i)));
  return absl::StrJoin(names, ", ");
}

std::string Expected(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      return "a whole number";
    case FieldDescriptor::CPPTYPE_STRING:
      return "text";
    case FieldDescriptor::CPPTYPE_ENUM:
      return absl::StrCat("one of ", ShortNames(*field.enum_type()));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return IsDuration(field) ? "a duration such as 30s, 24h or 7d"
                               : "fields with their values, indented below it";
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT:
      break;
  }
  return "left out: no file can set it";
}

std::string_view Describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNothing:
      return "nothing";
    case YamlNode::Kind::kScalar:
      return node.quoted ? "text in quotes" : "a single value";
    case YamlNode::Kind::kList:
      return "a list";
    case YamlNode::Kind::kMapping:
      return "a mapping";
  }
  return "nothing";
}

// How many letters have to be put in, left out or exchanged to make one of the other.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t exchanged = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, exchanged}));
    }
  }
  return row.back();
}

std::string UnknownField(const Descriptor& type, std::string_view name) {
  if (name == "<<") {
    return "merge keys are not supported: put what is common into defaults, or use an alias for "
           "a whole value";
  }
  constexpr size_t kMaxDistance = 3;
  constexpr size_t kMaxNameBytes = 64;
  std::vector<std::string> names;
  std::string nearest;
  size_t least = kMaxDistance + 1;
  for (int i = 0; i < type.field_count(); ++i) {
    names.push_back(type.field(i)->name());
    if (name.size() > kMaxNameBytes) continue;
    const size_t distance = EditDistance(name, names.back());
    if (distance < std::min(least, name.size())) {
      least = distance;
      nearest = names.back();
    }
  }
  if (!nearest.empty()) return absl::StrCat("unknown field: did you mean ", nearest, "?");
  return absl::StrCat("unknown field: use one of ", absl::StrJoin(names, ", "));
}

// The number that `text` is, or what is wrong with it in *problem.
template <typename Number>
Number ReadNumber(const std::string& text, std::string* problem) {
  Number number = 0;
  const bool digits_only = text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits_only || !absl::SimpleAtoi(text, &number)) {
    *problem = absl::StrCat(Quoted(text), " is not a whole number up to ",
                            std::numeric_limits<Number>::max(), ": write digits only");
  }
  return number;
}

std::string SetNumber(const std::string& text, const FieldDescriptor& field, Message* message) {
  std::string problem;
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64) {
    const auto number = ReadNumber<uint64_t>(text, &problem);
    if (problem.empty()) message->GetReflection()->SetUInt64(message, &field, number);
  } else {
    const auto number = ReadNumber<uint32_t>(text, &problem);
    if (problem.empty()) message->GetReflection()->SetUInt32(message, &field, number);
  }
  return problem;
}

std::string SetEnum(const std::string& text, const FieldDescriptor& field, Message* message) {
  const EnumDescriptor& type = *field.enum_type();
  for (int i = 1; i < type.value_count(); ++i) {
    if (ShortName(*type.value(i)) != text) continue;
    if (field.is_repeated()) {
      message->GetReflection()->AddEnum(message, &field, type.value(i));
    } else {
      message->GetReflection()->SetEnum(message, &field, type.value(i));
    }
    return "";
  }
  return absl::StrCat(Quoted(text), " is not known: write one of ", ShortNames(type));
}

std::string SetDuration(const std::string& text, const FieldDescriptor& field, Message* message) {
  const absl::StatusOr<core::Duration> duration = ParseDuration(text);
  if (!duration.ok()) return absl::StrCat(Quoted(text), " ", duration.status().message());
  google::protobuf::Duration value;
  value.set_seconds(duration->count() / 1000);
  value.set_nanos(static_cast<int32_t>(duration->count() % 1000) * 1'000'000);
  message->GetReflection()->MutableMessage(message, &field)->CopyFrom(value);
  return "";
}

// Sets `field`, or adds to it; returns what is wrong with the text, empty where nothing is.
std::string SetScalar(const std::string& text, const FieldDescriptor& field, Message* message) {
  const google::protobuf::Reflection& reflection = *message->GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      if (text != "true" && text != "false") break;
      reflection.SetBool(message, &field, text == "true");
      return "";
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      return SetNumber(text, field, message);
    case FieldDescriptor::CPPTYPE_STRING:
      if (field.is_repeated()) {
        reflection.AddString(message, &field, text);
      } else {
        reflection.SetString(message, &field, text);
      }
      return "";
    case FieldDescriptor::CPPTYPE_ENUM:
      return SetEnum(text, field, message);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return SetDuration(text, field, message);
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT:
      break;
  }
  return absl::StrCat(Quoted(text), " must be ", Expected(field));
}

class Reader {
 public:
  Reader(FieldLines* lines, ConfigProblems* problems) : lines_(lines), problems_(problems) {}

  void ReadFields(const YamlNode& node, const std::string& path, Message* message) {
    std::map<std::string_view, int> seen;
    for (const YamlNode::Child& child : node.children) {
      if (!MayGoOn(child.line)) return;
      const std::string child_path = Join(path, child.key);
      const auto [first, is_new] = seen.emplace(child.key, child.line);
      const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(child.key);
      if (field == nullptr) {
        problems_->Add(child.line, child_path, UnknownField(*message->GetDescriptor(), child.key));
      } else if (!is_new) {
        problems_->Add(
            child.line, child_path,
            absl::StrCat("already set on line ", first->second, ": keep one of the two"));
      } else {
        lines_->emplace(child_path, child.line);
        ReadField(child, child_path, *field, message);
      }
    }
  }

 private:
  static std::string Join(const std::string& path, std::string_view name) {
    constexpr size_t kMaxNameBytes = 64;
    std::string text = Quoted(name.substr(0, kMaxNameBytes));
    text = text.substr(1, text.size() - 2);  // as printable, without the quotes
    return path.empty() ? text : absl::StrCat(path, ".", text);
  }

  // Counts a value; false, and once a problem, where there are too many.
  bool MayGoOn(int line) {
    if (++values_ <= kMaxValuesRead) return true;
    if (values_ == kMaxValuesRead + 1) {
      problems_->Add(line, "",
                     absl::StrCat("more than ", kMaxValuesRead,
                                  " values, counting each use of an alias: shorten the file"));
    }
    return false;
  }

  void ReadField(const YamlNode::Child& child, const std::string& path,
                 const FieldDescriptor& field, Message* message) {
    const YamlNode& value = *child.value;
    if (value.kind == YamlNode::Kind::kNothing) {
      problems_->Add(child.line, path, "has no value: give it one, or remove the line");
    } else if (field.is_repeated()) {
      ReadItems(child, path, field, message);
    } else if (IsMessage(field)) {
      Message* below = message->GetReflection()->MutableMessage(message, &field);
      ReadMessage(child, path, field, below);
    } else {
      ReadScalar(child, path, field, message);
    }
  }

  void ReadMessage(const YamlNode::Child& child, const std::string& path,
                   const FieldDescriptor& field, Message* message) {
    if (child.value->kind == YamlNode::Kind::kMapping) {
      ReadFields(*child.value, path, message);
    } else {
      WrongType(child, path, Expected(field));
    }
  }

  void ReadItems(const YamlNode::Child& child, const std::string& path,
                 const FieldDescriptor& field, Message* message) {
    const FieldDescriptor* name = NameField(field);
    const YamlNode& list = *child.value;
    const bool by_name = name != nullptr && list.kind == YamlNode::Kind::kMapping;
    if (list.kind != YamlNode::Kind::kList && !by_name) {
      WrongType(child, path,
                name == nullptr ? "a list, one '- ' line for each item"
                                : "a list of objects with a name, or a mapping by name");
      return;
    }
    std::map<std::string_view, int> seen;
    int index = 0;
    for (const YamlNode::Child& item : list.children) {
      if (!MayGoOn(item.line)) return;
      const std::string item_path = absl::StrCat(path, "[", index, "]");
      const auto [first, is_new] = seen.emplace(item.key, item.line);
      if (by_name && !is_new) {
        problems_->Add(item.line, path,
                       absl::StrCat(Quoted(item.key), " is already defined on line ", first->second,
                                    ": rename or remove one of the two"));
        continue;
      }
      lines_->emplace(item_path, item.line);
      ReadItem(item, item_path, field, by_name ? name : nullptr, message);
      ++index;
    }
  }

  // name: the field that the item's key is the value of; null in a list.
  void ReadItem(const YamlNode::Child& item, const std::string& path, const FieldDescriptor& field,
                const FieldDescriptor* name, Message* message) {
    if (!IsMessage(field)) {
      ReadScalar(item, path, field, message);
      return;
    }
    Message* below = message->GetReflection()->AddMessage(message, &field);
    // A namespace that sets nothing is written as its name alone.
    const bool bare = name != nullptr && item.value->kind == YamlNode::Kind::kNothing;
    if (!bare) ReadMessage(item, path, field, below);
    if (name == nullptr) return;
    const std::string name_path = Join(path, name->name());
    const auto written = lines_->find(name_path);
    if (written != lines_->end()) {
      problems_->Add(written->second, name_path,
                     "the name stands before the colon: remove this one");
    }
    lines_->emplace(name_path, item.line);
    below->GetReflection()->SetString(below, name, item.key);
  }

  void ReadScalar(const YamlNode::Child& child, const std::string& path,
                  const FieldDescriptor& field, Message* message) {
    const YamlNode& value = *child.value;
    const bool quotes_allowed = field.cpp_type() != FieldDescriptor::CPPTYPE_BOOL &&
                                field.cpp_type() != FieldDescriptor::CPPTYPE_UINT32 &&
                                field.cpp_type() != FieldDescriptor::CPPTYPE_UINT64;
    if (value.kind != YamlNode::Kind::kScalar || (value.quoted && !quotes_allowed)) {
      WrongType(child, path, Expected(field));
      return;
    }
    const std::string problem = SetScalar(value.text, field, message);
    if (!problem.empty()) problems_->Add(child.line, path, problem);
  }

  void WrongType(const YamlNode::Child& child, const std::string& path,
                 const std::string& expected) {
    const std::string is(Describe(*child.value));
    problems_->Add(child.line, path, absl::StrCat("is ", is, ", but must be ", expected));
  }

  FieldLines* lines_;
  ConfigProblems* problems_;
  size_t values_ = 0;
};

}  // namespace

int LineOf(const FieldLines& lines, std::string_view path, int otherwise) {
  const auto found = lines.find(path);
  return found == lines.end() ? otherwise : found->second;
}

void ReadYaml(std::string_view text, Message* message, FieldLines* lines,
              ConfigProblems* problems) {
  const YamlNodePtr root = ParseYaml(text, problems);
  if (root == nullptr || root->kind == YamlNode::Kind::kNothing) return;
  if (root->kind != YamlNode::Kind::kMapping) {
    problems->Add(root->line, "",
                  absl::StrCat("the file is ", std::string(Describe(*root)),
                               ", but must be fields with their values, such as 'defaults:'"));
    return;
  }
  Reader(lines, problems).ReadFields(*root, "", message);
}

}  // namespace idempotency::service
