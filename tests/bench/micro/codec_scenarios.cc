// Keys and records to bytes and back.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "keystore/codec/key_codec.h"
#include "keystore/codec/record_codec.h"
#include "tests/bench/micro/ingredients.h"
#include "tests/bench/micro/scenario.h"

namespace idempotency::bench {
namespace {

using keystore::DecodeKey;
using keystore::DecodeRecord;
using keystore::EncodeKey;
using keystore::EncodeRecord;

constexpr size_t kOperations = 256;
constexpr uint64_t kToken = 1'000'000;

using MakeRecord = core::RecordPtr (*)(uint64_t number, uint64_t token);

std::string Encoded(const core::Record& record) {
  std::string bytes;
  EncodeRecord(record, &bytes);
  return bytes;
}

std::string Encoded(const core::Key& key) { return EncodeKey(key); }
bool Decodes(const core::Record*, const std::string& bytes) {
  return DecodeRecord(bytes).has_value();
}
bool Decodes(const core::Key*, const std::string& bytes) { return DecodeKey(bytes).has_value(); }

template <typename Value>
class EncodeScenario : public Scenario {
 public:
  explicit EncodeScenario(std::vector<Value> values)
      : Scenario(values.size()), values_(std::move(values)) {}

  void Prepare() override {}
  void Run() override {
    bytes_ = 0;
    for (const Value& value : values_) bytes_ += Encoded(value).size();
  }
  double bytes_per_operation() const override {
    return static_cast<double>(bytes_) / static_cast<double>(values_.size());
  }

 private:
  const std::vector<Value> values_;
  size_t bytes_ = 0;
};

template <typename Value>
class DecodeScenario : public Scenario {
 public:
  explicit DecodeScenario(const std::vector<Value>& values) : Scenario(values.size()) {
    for (const Value& value : values) bytes_.push_back(Encoded(value));
  }

  void Prepare() override {}
  void Run() override {
    const Value* const kind = nullptr;
    for (const std::string& bytes : bytes_) {
      Require(Decodes(kind, bytes), "bytes could not be decoded");
    }
  }

 private:
  std::vector<std::string> bytes_;
};

std::vector<core::Key> Keys() {
  std::vector<core::Key> keys;
  for (uint64_t i = 0; i < kOperations; ++i) keys.push_back(KeyOf(i));
  return keys;
}

std::vector<core::Record> Records(MakeRecord make) {
  std::vector<core::Record> records;
  for (uint64_t i = 0; i < kOperations; ++i) records.push_back(*make(i, kToken + i));
  return records;
}

void AddRecords(ScenarioEntries& entries, const std::string& kind, MakeRecord make) {
  entries.push_back({"codec/encode_" + kind, [=](const Settings&) {
                       return std::make_unique<EncodeScenario<core::Record>>(Records(make));
                     }});
  entries.push_back({"codec/decode_" + kind, [=](const Settings&) {
                       return std::make_unique<DecodeScenario<core::Record>>(Records(make));
                     }});
}

}  // namespace

void AddCodecScenarios(ScenarioEntries& entries) {
  entries.push_back({"codec/encode_key", [](const Settings&) {
                       return std::make_unique<EncodeScenario<core::Key>>(Keys());
                     }});
  entries.push_back({"codec/decode_key", [](const Settings&) {
                       return std::make_unique<DecodeScenario<core::Key>>(Keys());
                     }});
  AddRecords(entries, "pending", &PendingRecord);
  AddRecords(entries, "complete", &CompleteRecord);
}

}  // namespace idempotency::bench
