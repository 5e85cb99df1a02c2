#include <algorithm>
#include <vector>

#include "client/src/framed_hash.h"
#include "client/src/proto_canonical.h"

namespace idempotency::internal {
namespace {

using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

void AppendBigEndian32(uint32_t number, std::string* out) {
  for (int shift = 24; shift >= 0; shift -= 8) out->push_back(static_cast<char>(number >> shift));
}

void AppendUnknown(const UnknownField& field, std::string* out) {
  AppendFieldNumber(field.number(), out);
  switch (field.type()) {
    case UnknownField::TYPE_VARINT:
      out->push_back('V');
      AppendBigEndian(field.varint(), out);
      return;
    case UnknownField::TYPE_FIXED32:
      out->push_back('W');
      AppendBigEndian32(field.fixed32(), out);
      return;
    case UnknownField::TYPE_FIXED64:
      out->push_back('X');
      AppendBigEndian(field.fixed64(), out);
      return;
    case UnknownField::TYPE_LENGTH_DELIMITED:
      out->push_back('L');
      AppendFrame(field.length_delimited(), out);
      return;
    case UnknownField::TYPE_GROUP: {
      std::string group;
      AppendUnknownFields(field.group(), &group);
      out->push_back('G');
      AppendFrame(group, out);
      return;
    }
  }
}

}  // namespace

void AppendFieldNumber(int number, std::string* out) {
  AppendBigEndian32(static_cast<uint32_t>(number), out);
}

void AppendUnknownFields(const UnknownFieldSet& fields, std::string* out) {
  std::vector<const UnknownField*> sorted;
  for (int i = 0; i < fields.field_count(); ++i) sorted.push_back(&fields.field(i));
  // Those of one number keep their order: they may be elements of one list.
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto* a, const auto* b) { return a->number() < b->number(); });
  for (const UnknownField* field : sorted) AppendUnknown(*field, out);
}

}  // namespace idempotency::internal
