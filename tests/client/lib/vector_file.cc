#include "tests/client/lib/vector_file.h"

#include <fstream>
#include <sstream>

#include "client/src/framed_hash.h"
#include "gtest/gtest.h"

namespace idempotency {
namespace {

using internal::JsonValue;

const JsonValue& Missing() {
  static const auto* const missing = new JsonValue();
  return *missing;
}

const JsonValue& Field(const JsonValue& row, const std::string& name) {
  const JsonValue* value = row.Find(name);
  return value == nullptr ? Missing() : *value;
}

}  // namespace

bool VectorRow::Has(const std::string& name) const {
  return Field(*value_, name).kind != JsonValue::Kind::kNull;
}

std::string VectorRow::Text(const std::string& name) const { return Field(*value_, name).text; }

int64_t VectorRow::Number(const std::string& name, int64_t otherwise) const {
  const JsonValue& value = Field(*value_, name);
  return value.kind == JsonValue::Kind::kNumber ? std::stoll(value.text) : otherwise;
}

bool VectorRow::Flag(const std::string& name) const { return Field(*value_, name).boolean; }

std::string VectorRow::Bytes(const std::string& name) const { return FromHex(Text(name)); }

std::vector<std::string> VectorRow::Texts(const std::string& name) const {
  std::vector<std::string> texts;
  for (const JsonValue& item : Field(*value_, name).items) texts.push_back(item.text);
  return texts;
}

std::vector<int64_t> VectorRow::Numbers(const std::string& name) const {
  std::vector<int64_t> numbers;
  for (const std::string& text : Texts(name)) numbers.push_back(std::stoll(text));
  return numbers;
}

std::vector<std::pair<std::string, std::string>> VectorRow::Pairs(const std::string& name) const {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const internal::JsonMember& member : Field(*value_, name).members) {
    pairs.emplace_back(member.name, member.value.text);
  }
  return pairs;
}

VectorRow VectorRow::Row(const std::string& name) const { return VectorRow(Field(*value_, name)); }

std::ostream& operator<<(std::ostream& out, const VectorRow& row) {
  return out << internal::WriteCanonicalJson(*row.value_);
}

std::vector<VectorRow> ReadRows(const std::string& file, const std::string& list) {
  const auto document =
      internal::ParseJson(ReadFile(std::string(IDEMPOTENCY_VECTORS) + "/" + file));
  EXPECT_TRUE(document.ok()) << file << ": " << document.status();
  std::vector<VectorRow> rows;
  if (!document.ok()) return rows;
  static auto* const kept = new std::vector<std::unique_ptr<JsonValue>>();
  kept->push_back(std::make_unique<JsonValue>(*document));
  for (const JsonValue& row : Field(*kept->back(), list).items) rows.emplace_back(row);
  EXPECT_FALSE(rows.empty()) << file << " has no " << list;
  return rows;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string FromHex(const std::string& digits) {
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::string ToHex(const std::string& bytes) { return internal::Hex(bytes); }

}  // namespace idempotency
