#include "tests/keystore/engine/golden_store.h"

#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "keystore/core/limits.h"
#include "keystore/core/names.h"
#include "keystore/engine/engine.h"
#include "tests/keystore/engine/engine_calls.h"
#include "tests/keystore/engine/records.h"

namespace idempotency::keystore {
namespace {

constexpr size_t kPage = 100;
constexpr size_t kMostBytes = 4096;

std::string Line(const core::Key& key, const core::Stored& stored) {
  std::string line = absl::StrCat(key.name_space, "/", key.scope, "/", key.key, ": ");
  const auto* record = std::get_if<core::Record>(&stored);
  if (record == nullptr) return line + "UNREADABLE\n";
  absl::StrAppend(&line, std::string(core::Name(record->state)), ", token ", record->token,
                  ", attempt ", record->attempt, ", ", record->history.size(), " events, ",
                  record->ended.size(), " ended, ");
  const core::Blob& body = record->response.bytes;
  if (body.present()) {
    absl::StrAppend(&line, "answer of ", body.view().size(), " bytes\n");
  } else {
    absl::StrAppend(&line, "no answer\n");
  }
  return line;
}

}  // namespace

void MakeGoldenStore(RocksDbFixture& fixture, bool sealed) {
  if (sealed) {
    fixture.AddKey(kGoldenKey);
    fixture.MakeCurrent(kGoldenKey);
  }
  fixture.Open();
  for (const auto& [name, record] : SampleRecords()) {
    // What is sealed cannot be compressed, and these files stay for ever.
    if (record->response.bytes.view().size() > kMostBytes) continue;
    Store(fixture.engine(), PayKey(name), record);
  }
  fixture.Close();
}

void MakeWornStore(RocksDbFixture& fixture) {
  const auto key = [](std::string name) {
    return core::Key{.name_space = "careful", .scope = "acct_1", .key = std::move(name)};
  };
  fixture.Open();
  Store(fixture.engine(), key("open"), PendingRecord(core::kMaxFencingToken));
  fixture.Plant(Family::kFinished, key("damaged"), "\x01not a record");
  fixture.Close();
}

std::string Describe(Engine& engine) {
  std::string text;
  for (const ScanEntry& entry : ScanAll(engine, {}, kPage)) {
    text += Line(entry.key, entry.stored);
  }
  return text;
}

}  // namespace idempotency::keystore
