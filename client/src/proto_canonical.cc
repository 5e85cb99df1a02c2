#include "client/src/proto_canonical.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/src/framed_hash.h"
#include "google/protobuf/descriptor.h"

namespace idempotency::internal {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Which fields of a type are left out, wholly or in part.
struct Excluded {
  bool whole = false;
  std::map<const FieldDescriptor*, Excluded> fields;
};

absl::Status InvalidPath(const std::string& path, const std::string& problem) {
  return absl::InvalidArgumentError(absl::StrCat("exclude: \"", path, "\" ", problem));
}

bool IsAny(const Descriptor& type) {
  return type.well_known_type() == Descriptor::WELLKNOWNTYPE_ANY;
}

// The type whose fields may follow behind `field` in a path; null where none may.
const Descriptor* TypeBehind(const FieldDescriptor& field) {
  const FieldDescriptor* value =
      field.is_map() ? field.message_type()->FindFieldByNumber(2) : &field;
  return value->message_type();
}

absl::Status AddPath(const std::string& path, const Descriptor* type, Excluded* excluded) {
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(path, '.'))) {
    if (type == nullptr || IsAny(*type)) {
      return InvalidPath(path, "goes on behind a value that has no fields of its own");
    }
    const FieldDescriptor* field = type->FindFieldByName(name);
    if (field == nullptr) {
      return InvalidPath(path, absl::StrCat("names no field of ", type->full_name()));
    }
    excluded = &excluded->fields[field];
    type = TypeBehind(*field);
  }
  excluded->whole = true;
  return absl::OkStatus();
}

const Excluded& None() {
  static const auto* const none = new Excluded();
  return *none;
}

template <typename Bits, typename Number>
void AppendBits(char tag, Number number, std::string* out) {
  static_assert(sizeof(Bits) == sizeof(Number));
  Bits bits = 0;
  std::memcpy(&bits, &number, sizeof(bits));
  out->push_back(tag);
  for (int shift = 8 * (static_cast<int>(sizeof(bits)) - 1); shift >= 0; shift -= 8) {
    out->push_back(static_cast<char>(bits >> shift));
  }
}

class Writer {
 public:
  // A message with its tag.
  absl::Status WriteSubmessage(const Message& message, const Excluded& excluded, std::string* out);
  // Its fields alone.
  absl::Status WriteMessage(const Message& message, const Excluded& excluded, std::string* out);

 private:
  // One level of messages deeper, for as long as it lives.
  class Level {
   public:
    explicit Level(int* depth) : depth_(depth) { ++*depth_; }
    ~Level() { --*depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    int* const depth_;
  };

  absl::Status WriteField(const Message& message, const FieldDescriptor& field,
                          const Excluded& excluded, std::string* out);
  absl::Status WriteMap(const Message& message, const FieldDescriptor& field,
                        const Excluded& excluded, std::string* out);
  // index: of the element of a repeated field; -1: the field is singular.
  absl::Status WriteValue(const Message& message, const FieldDescriptor& field, int index,
                          const Excluded& excluded, std::string* out);
  absl::Status WriteAny(const Message& any, std::string* out);

  int depth_ = 0;
};

absl::Status Writer::WriteMessage(const Message& message, const Excluded& excluded,
                                  std::string* out) {
  const Level level(&depth_);
  if (depth_ > kMaxMessageDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat("the message has more than ", kMaxMessageDepth, " levels"));
  }
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> present;
  reflection.ListFields(message, &present);  // by number
  for (const FieldDescriptor* field : present) {
    const auto found = excluded.fields.find(field);
    const Excluded& inside = found == excluded.fields.end() ? None() : found->second;
    if (inside.whole) continue;
    AppendFieldNumber(field->number(), out);
    const absl::Status written = WriteField(message, *field, inside, out);
    if (!written.ok()) return written;
  }
  AppendUnknownFields(reflection.GetUnknownFields(message), out);
  return absl::OkStatus();
}

absl::Status Writer::WriteField(const Message& message, const FieldDescriptor& field,
                                const Excluded& excluded, std::string* out) {
  if (field.is_map()) return WriteMap(message, field, excluded, out);
  if (!field.is_repeated()) return WriteValue(message, field, -1, excluded, out);
  const int count = message.GetReflection()->FieldSize(message, &field);
  out->push_back('r');
  AppendBigEndian(static_cast<uint64_t>(count), out);
  for (int i = 0; i < count; ++i) {
    const absl::Status written = WriteValue(message, field, i, excluded, out);
    if (!written.ok()) return written;
  }
  return absl::OkStatus();
}

absl::Status Writer::WriteMap(const Message& message, const FieldDescriptor& field,
                              const Excluded& excluded, std::string* out) {
  const Reflection& reflection = *message.GetReflection();
  const FieldDescriptor* key = field.message_type()->FindFieldByNumber(1);
  const FieldDescriptor* value = field.message_type()->FindFieldByNumber(2);
  std::vector<std::pair<std::string, std::string>> entries;
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
    auto& [key_bytes, value_bytes] = entries.emplace_back();
    absl::Status written = WriteValue(entry, *key, -1, None(), &key_bytes);
    if (written.ok()) written = WriteValue(entry, *value, -1, excluded, &value_bytes);
    if (!written.ok()) return written;
  }
  std::sort(entries.begin(), entries.end());
  out->push_back('p');
  AppendBigEndian(entries.size(), out);
  for (const auto& [key_bytes, value_bytes] : entries) {
    *out += key_bytes;
    *out += value_bytes;
  }
  return absl::OkStatus();
}

absl::Status Writer::WriteValue(const Message& message, const FieldDescriptor& field, int index,
                                const Excluded& excluded, std::string* out) {
  const Reflection& reflection = *message.GetReflection();
  const auto get = [&](auto singular, auto repeated) {
    return index < 0 ? (reflection.*singular)(message, &field)
                     : (reflection.*repeated)(message, &field, index);
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      AppendBits<uint64_t>('i', int64_t{get(&Reflection::GetInt32, &Reflection::GetRepeatedInt32)},
                           out);
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      AppendBits<uint64_t>('i', get(&Reflection::GetInt64, &Reflection::GetRepeatedInt64), out);
      break;
    case FieldDescriptor::CPPTYPE_ENUM:
      AppendBits<uint64_t>(
          'i', int64_t{get(&Reflection::GetEnumValue, &Reflection::GetRepeatedEnumValue)}, out);
      break;
    case FieldDescriptor::CPPTYPE_UINT32:
      AppendBits<uint64_t>(
          'u', uint64_t{get(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32)}, out);
      break;
    case FieldDescriptor::CPPTYPE_UINT64:
      AppendBits<uint64_t>('u', get(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64), out);
      break;
    case FieldDescriptor::CPPTYPE_BOOL:
      out->push_back('b');
      out->push_back(get(&Reflection::GetBool, &Reflection::GetRepeatedBool) ? '\1' : '\0');
      break;
    case FieldDescriptor::CPPTYPE_FLOAT:
      AppendBits<uint32_t>('f', get(&Reflection::GetFloat, &Reflection::GetRepeatedFloat), out);
      break;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      AppendBits<uint64_t>('d', get(&Reflection::GetDouble, &Reflection::GetRepeatedDouble), out);
      break;
    case FieldDescriptor::CPPTYPE_STRING:
      out->push_back('s');
      AppendFrame(get(&Reflection::GetString, &Reflection::GetRepeatedString), out);
      break;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return WriteSubmessage(index < 0 ? reflection.GetMessage(message, &field)
                                       : reflection.GetRepeatedMessage(message, &field, index),
                             excluded, out);
  }
  return absl::OkStatus();
}

absl::Status Writer::WriteSubmessage(const Message& message, const Excluded& excluded,
                                     std::string* out) {
  if (IsAny(*message.GetDescriptor())) return WriteAny(message, out);
  std::string content;
  const absl::Status written = WriteMessage(message, excluded, &content);
  out->push_back('m');
  AppendFrame(content, out);
  return written;
}

// What is in an Any was serialized by somebody, in whatever order: it is read again.
absl::Status Writer::WriteAny(const Message& any, std::string* out) {
  const Reflection& reflection = *any.GetReflection();
  const Descriptor& descriptor = *any.GetDescriptor();
  const std::string type_url = reflection.GetString(any, descriptor.FindFieldByNumber(1));
  const std::string bytes = reflection.GetString(any, descriptor.FindFieldByNumber(2));
  std::string content;
  if (!type_url.empty() || !bytes.empty()) {
    const std::string name = type_url.substr(type_url.find_last_of('/') + 1);
    const Descriptor* type = descriptor.file()->pool()->FindMessageTypeByName(name);
    const Message* prototype =
        type == nullptr ? nullptr : reflection.GetMessageFactory()->GetPrototype(type);
    if (prototype == nullptr) {
      return absl::InvalidArgumentError(
          "a google.protobuf.Any holds a type that this binary does not know; exclude its field, "
          "or link the type");
    }
    const std::unique_ptr<Message> message(prototype->New());
    if (!message->ParsePartialFromString(bytes)) {
      return absl::InvalidArgumentError(absl::StrCat("a google.protobuf.Any holds no ", name));
    }
    const absl::Status written = WriteMessage(*message, None(), &content);
    if (!written.ok()) return written;
  }
  out->push_back('a');
  AppendFrame(type_url, out);
  AppendFrame(content, out);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> CanonicalMessage(const Message& message,
                                             const std::vector<std::string>& exclude) {
  Excluded excluded;
  for (const std::string& path : exclude) {
    const absl::Status added = AddPath(path, message.GetDescriptor(), &excluded);
    if (!added.ok()) return added;
  }
  std::string content;
  const absl::Status written = IsAny(*message.GetDescriptor())
                                   ? Writer().WriteSubmessage(message, excluded, &content)
                                   : Writer().WriteMessage(message, excluded, &content);
  if (!written.ok()) return written;
  return content;
}

}  // namespace idempotency::internal
