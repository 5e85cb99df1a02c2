#include "service/utf8_repair.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "service/text.h"

namespace idempotency::service {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

// Deeper than any request of the API, unknown groups included.
constexpr size_t kMaxDepth = 16;
constexpr size_t kMaxVarintBytes = 10;

// The low three bits of a tag.
enum class WireType : uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kLengthDelimited = 2,
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5,
};
WireType TypeOf(uint32_t tag) { return static_cast<WireType>(tag & 7); }

bool SkipField(uint32_t tag, size_t depth, CodedInputStream* in);

bool SkipGroup(uint32_t start, size_t depth, CodedInputStream* in) {
  if (depth > kMaxDepth) return false;
  const uint32_t end = start + 1;  // the same number, with kEndGroup
  while (true) {
    const uint32_t tag = in->ReadTag();
    if (tag == end) return true;
    if (tag == 0 || !SkipField(tag, depth, in)) return false;
  }
}

bool SkipField(uint32_t tag, size_t depth, CodedInputStream* in) {
  uint64_t number = 0;
  int length = 0;
  switch (TypeOf(tag)) {
    case WireType::kVarint:
      return in->ReadVarint64(&number);
    case WireType::kFixed64:
      return in->Skip(8);
    case WireType::kLengthDelimited:
      return in->ReadVarintSizeAsInt(&length) && in->Skip(length);
    case WireType::kStartGroup:
      return SkipGroup(tag, depth + 1, in);
    case WireType::kEndGroup:
      return false;
    case WireType::kFixed32:
      return in->Skip(4);
  }
  return false;
}

void AppendWithLength(std::string_view value, std::string* out) {
  uint8_t length[kMaxVarintBytes];
  const uint8_t* const end =
      CodedOutputStream::WriteVarint32ToArray(static_cast<uint32_t>(value.size()), length);
  out->append(reinterpret_cast<const char*>(length), static_cast<size_t>(end - length));
  out->append(value);
}

class Repairer {
 public:
  explicit Repairer(const Descriptor& type) : type_(type) {}

  std::optional<RepairedMessage> Repair(std::string_view bytes) && {
    if (!AppendMessage(bytes, type_, &result_.bytes)) return std::nullopt;
    return std::move(result_);
  }

 private:
  struct Step {
    const FieldDescriptor* field = nullptr;
    int index = 0;  // where it is repeated
  };

  // False where the bytes are not of the type, or too much for a request.
  bool AppendMessage(std::string_view bytes, const Descriptor& type, std::string* out) {
    if (steps_.size() > kMaxDepth) return false;
    CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                        static_cast<int>(bytes.size()));
    absl::flat_hash_map<const FieldDescriptor*, int> counts;
    const auto position = [&in] { return static_cast<size_t>(in.CurrentPosition()); };
    while (position() < bytes.size()) {
      const size_t start = position();
      const uint32_t tag = in.ReadTag();
      const size_t behind_tag = position();
      if (tag == 0 || !SkipField(tag, steps_.size(), &in)) return false;
      const std::string_view value = bytes.substr(behind_tag, position() - behind_tag);
      const FieldDescriptor* const field = type.FindFieldByNumber(static_cast<int>(tag >> 3));
      out->append(bytes.substr(start, behind_tag - start));
      if (field == nullptr || TypeOf(tag) != WireType::kLengthDelimited) {
        out->append(value);
        continue;
      }
      steps_.push_back(Step{field, field->is_repeated() ? counts[field]++ : 0});
      if (!AppendValue(value, *field, out)) return false;
      steps_.pop_back();
    }
    return true;
  }

  // `value` begins with its length.
  bool AppendValue(std::string_view value, const FieldDescriptor& field, std::string* out) {
    CodedInputStream in(reinterpret_cast<const uint8_t*>(value.data()),
                        static_cast<int>(value.size()));
    int length = 0;
    in.ReadVarintSizeAsInt(&length);
    const std::string_view content = value.substr(static_cast<size_t>(in.CurrentPosition()));
    if (field.type() == FieldDescriptor::TYPE_MESSAGE) {
      std::string message;
      if (!AppendMessage(content, *field.message_type(), &message)) return false;
      AppendWithLength(message, out);
      return true;
    }
    if (field.type() != FieldDescriptor::TYPE_STRING || IsUtf8(content)) {
      out->append(value);
      return true;
    }
    AppendWithLength(MendUtf8(content), out);
    return Note();
  }

  // The text that steps_ lead to was not UTF-8. False where there are too many.
  bool Note() {
    const bool in_command =
        steps_.size() > 2 && steps_[0].field->message_type() == v1::Command::descriptor();
    RepairedText text;
    text.request = in_command ? steps_[1].field->message_type() : &type_;
    if (in_command) text.command = steps_[0].index;
    const size_t first = in_command ? 2 : 0;
    if (result_.texts.empty() || result_.texts.back().command != text.command) noted_.clear();
    const FieldDescriptor* const part = steps_[first].field;
    if (std::find(noted_.begin(), noted_.end(), part) != noted_.end()) return true;
    noted_.push_back(part);
    text.field = PathFrom(first);
    result_.texts.push_back(std::move(text));
    return result_.texts.size() <= kMaxRepairedTexts;
  }

  std::string PathFrom(size_t first) const {
    std::string path;
    for (size_t i = first; i < steps_.size(); ++i) {
      const Step& step = steps_[i];
      absl::StrAppend(&path, i == first ? "" : ".", step.field->name());
      if (step.field->is_map()) return path;  // its entries have no place
      if (step.field->is_repeated()) absl::StrAppend(&path, "[", step.index, "]");
    }
    return path;
  }

  const Descriptor& type_;
  RepairedMessage result_;
  std::vector<Step> steps_;
  // Fields of the request at hand in which a text was noted.
  std::vector<const FieldDescriptor*> noted_;
};

}  // namespace

std::optional<RepairedMessage> RepairTexts(std::string_view bytes, const Descriptor& type) {
  return Repairer(type).Repair(bytes);
}

bool MayGoOn(const RepairedText& text) {
  const bool finishing = text.request == v1::CompleteRequest::descriptor() ||
                         text.request == v1::ReleaseRequest::descriptor() ||
                         text.request == v1::MarkUnresolvedRequest::descriptor();
  return finishing && !absl::StartsWith(text.field, "id.");
}

}  // namespace idempotency::service
