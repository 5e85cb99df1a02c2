#include "tests/fuzz/step_mutator.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

// Of libFuzzer: mutates bytes in place, and knows the dictionary.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace idempotency::fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kMaxTextBytes = 512;
// Of the repeated fields; more come by doubling steps.
constexpr int kMaxItems = 64;

std::string MutateBytes(std::string bytes) {
  const size_t size = bytes.size();
  bytes.resize(std::max(size + 16, kMaxTextBytes));
  bytes.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(bytes.data()), size, bytes.size()));
  return bytes;
}

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  void MutateStory(std::vector<Step>* steps, const MessageOf& message_of) {
    if (steps->empty() || OneIn(16))
      return Insert(steps, Step{static_cast<uint8_t>(random_()), ""});
    const size_t at = Below(steps->size());
    switch (Below(8)) {
      case 0:
        return Insert(steps, (*steps)[at]);
      case 1:
        if (steps->size() > 1) steps->erase(steps->begin() + static_cast<ptrdiff_t>(at));
        return;
      case 2:
        return std::swap((*steps)[at], (*steps)[Below(steps->size())]);
      case 3:
        (*steps)[at].bytes = MutateBytes(std::move((*steps)[at].bytes));
        return;
      default:
        return MutateStep(&(*steps)[at], message_of);
    }
  }

 private:
  size_t Below(size_t bound) { return random_() % bound; }
  bool OneIn(size_t n) { return Below(n) == 0; }

  void Insert(std::vector<Step>* steps, Step step) {
    if (steps->size() >= kMaxSteps) return;
    const size_t at = Below(steps->size() + 1);
    steps->insert(steps->begin() + static_cast<ptrdiff_t>(at), std::move(step));
  }

  void MutateStep(Step* step, const MessageOf& message_of) {
    const std::unique_ptr<Message> message = message_of(step->kind);
    // What is half a message stays one, by its bytes.
    if (message == nullptr || !message->ParsePartialFromString(step->bytes)) {
      step->bytes = MutateBytes(std::move(step->bytes));
      return;
    }
    MutateMessage(message.get(), 0);
    message->SerializePartialToString(&step->bytes);
  }

  void MutateMessage(Message* message, int depth) {
    const google::protobuf::Descriptor& type = *message->GetDescriptor();
    if (type.field_count() == 0) return;
    const FieldDescriptor& field = *type.field(static_cast<int>(Below(type.field_count())));
    const Reflection& reflection = *message->GetReflection();
    if (field.is_repeated()) return MutateRepeated(message, field, depth);
    if (OneIn(12)) return reflection.ClearField(message, &field);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      return MutateMessage(reflection.MutableMessage(message, &field), depth + 1);
    }
    SetScalar(message, field);
  }

  void MutateRepeated(Message* message, const FieldDescriptor& field, int depth) {
    const Reflection& reflection = *message->GetReflection();
    const int count = reflection.FieldSize(*message, &field);
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      if (count > 0 && OneIn(3)) return reflection.RemoveLast(message, &field);
      if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM && count < kMaxItems) {
        reflection.AddEnumValue(message, &field, static_cast<int>(Below(8)));
      }
      return;
    }
    if (count == 0 || (OneIn(6) && count < kMaxItems)) {
      Message* const added = reflection.AddMessage(message, &field);
      if (count > 0) {
        added->CopyFrom(reflection.GetRepeatedMessage(
            *message, &field, static_cast<int>(Below(static_cast<size_t>(count)))));
      }
      return MutateMessage(added, depth + 1);
    }
    if (OneIn(8)) return reflection.RemoveLast(message, &field);
    const int at = static_cast<int>(Below(static_cast<size_t>(count)));
    MutateMessage(reflection.MutableRepeatedMessage(message, &field, at), depth + 1);
  }

  void SetScalar(Message* message, const FieldDescriptor& field) {
    const Reflection& reflection = *message->GetReflection();
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_BOOL:
        return reflection.SetBool(message, &field, OneIn(2));
      case FieldDescriptor::CPPTYPE_INT32:
        return reflection.SetInt32(message, &field, static_cast<int32_t>(Number()));
      case FieldDescriptor::CPPTYPE_INT64:
        return reflection.SetInt64(message, &field, Number());
      case FieldDescriptor::CPPTYPE_UINT32:
        return reflection.SetUInt32(message, &field, static_cast<uint32_t>(Number()));
      case FieldDescriptor::CPPTYPE_UINT64:
        return reflection.SetUInt64(message, &field, static_cast<uint64_t>(Number()));
      case FieldDescriptor::CPPTYPE_ENUM:
        return reflection.SetEnumValue(message, &field, static_cast<int>(Number()));
      case FieldDescriptor::CPPTYPE_STRING:
        return reflection.SetString(message, &field, Text(reflection.GetString(*message, &field)));
      case FieldDescriptor::CPPTYPE_FLOAT:
      case FieldDescriptor::CPPTYPE_DOUBLE:
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return;
    }
  }

  // Mostly small: tokens, tags and enums are.
  int64_t Number() {
    switch (Below(8)) {
      case 0:
        return static_cast<int64_t>(random_()) << 32 | static_cast<int64_t>(random_());
      case 1:
        return int64_t{1} << Below(63);
      case 2:
        return -static_cast<int64_t>(Below(3));
      case 3:
        return static_cast<int64_t>(Below(100'000));
      default:
        return static_cast<int64_t>(Below(8));
    }
  }

  std::string Text(std::string text) {
    constexpr std::string_view kTexts[] = {"payments", "retry", "inbox",  "run",
                                           "acct-1",   "k",     "order-1"};
    if (OneIn(4)) return std::string(kTexts[Below(std::size(kTexts))]);
    if (OneIn(16)) return text + std::string(Below(kMaxTextBytes * 4), 'x');
    return MutateBytes(std::move(text));
  }

  std::mt19937 random_;
};

}  // namespace

size_t MutateSteps(uint8_t* data, size_t size, size_t max_size, unsigned seed,
                   const MessageOf& message_of) {
  std::vector<Step> steps = ReadSteps({reinterpret_cast<const char*>(data), size});
  Mutator(seed).MutateStory(&steps, message_of);
  std::string input = WriteSteps(steps);
  input.resize(std::min(input.size(), max_size));
  std::memcpy(data, input.data(), input.size());
  return input.size();
}

}  // namespace idempotency::fuzz
