#include "tests/proof/requests/reflect.h"

#include <cstdlib>
#include <utility>

namespace idempotency::proof {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

Place Find(Message* message, std::string_view path) {
  while (true) {
    const size_t dot = path.find('.');
    const FieldDescriptor* const field =
        message->GetDescriptor()->FindFieldByName(std::string(path.substr(0, dot)));
    if (field == nullptr || dot == std::string_view::npos) return Place{message, field};
    message = message->GetReflection()->MutableMessage(message, field);
    path.remove_prefix(dot + 1);
  }
}

namespace {

Place MustFind(Message* message, std::string_view path) {
  const Place place = Find(message, path);
  if (place.field == nullptr) std::abort();
  return place;
}

}  // namespace

void Clear(Message* message, std::string_view path) {
  const auto* const choice = message->GetDescriptor()->FindOneofByName(std::string(path));
  if (choice != nullptr) return message->GetReflection()->ClearOneof(message, choice);
  const Place place = MustFind(message, path);
  place.message->GetReflection()->ClearField(place.message, place.field);
}

void SetText(Message* message, std::string_view path, std::string text) {
  const Place place = MustFind(message, path);
  place.message->GetReflection()->SetString(place.message, place.field, std::move(text));
}

void SetUInt64(Message* message, std::string_view path, uint64_t number) {
  const Place place = MustFind(message, path);
  place.message->GetReflection()->SetUInt64(place.message, place.field, number);
}

void SetInt32(Message* message, std::string_view path, int32_t number) {
  const Place place = MustFind(message, path);
  place.message->GetReflection()->SetInt32(place.message, place.field, number);
}

void SetEnum(Message* message, std::string_view path, int number) {
  const Place place = MustFind(message, path);
  if (place.field->is_repeated()) {
    place.message->GetReflection()->AddEnumValue(place.message, place.field, number);
  } else {
    place.message->GetReflection()->SetEnumValue(place.message, place.field, number);
  }
}

void SetDuration(Message* message, std::string_view path, int64_t seconds, int32_t nanos) {
  const Place place = MustFind(message, path);
  google::protobuf::Duration duration;
  duration.set_seconds(seconds);
  duration.set_nanos(nanos);
  place.message->GetReflection()->MutableMessage(place.message, place.field)->CopyFrom(duration);
}

std::vector<std::string> TextsOf(const Message& message) {
  std::vector<std::string> texts;
  const auto* const reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        const Message& part = field->is_repeated()
                                  ? reflection->GetRepeatedMessage(message, field, i)
                                  : reflection->GetMessage(message, field);
        for (std::string& text : TextsOf(part)) texts.push_back(std::move(text));
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING &&
                 field->name() != "namespace") {
        texts.push_back(field->is_repeated() ? reflection->GetRepeatedString(message, field, i)
                                             : reflection->GetString(message, field));
      }
    }
  }
  return texts;
}

}  // namespace idempotency::proof
