// Stored bytes: whatever they are, they are a record that is written as exactly these bytes, or
// none; and a record that was damaged is none.
//
//   input := kind bytes        kind: odd, and the checksum is put behind the bytes
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "keystore/codec/record_codec.h"
#include "keystore/core/invariants.h"
#include "keystore/core/transition.h"
#include "tests/fuzz/require.h"
#include "tests/keystore/codec/golden_records.h"

namespace idempotency::fuzz {
namespace {

using core::Record;
using core::Time;
using keystore::DecodeRecord;

// How many damages are tried of one record.
constexpr size_t kDamages = 8;

void Damage(const std::string& bytes) {
  for (size_t i = 0; i < kDamages; ++i) {
    const size_t bit = (i * bytes.size() * 8) / kDamages + i;
    std::string flipped = bytes;
    char& byte = flipped[bit / 8 % bytes.size()];
    byte = static_cast<char>(byte ^ (1 << (bit % 8)));
    Require(!DecodeRecord(flipped).has_value(), "a flipped bit is noticed");
    const std::string_view cut = std::string_view(bytes).substr(0, i * bytes.size() / kDamages);
    Require(!DecodeRecord(cut).has_value(), "a cut record is noticed");
  }
  Require(!DecodeRecord(bytes + '\0').has_value(), "a byte too many is noticed");
}

// What the filter of finished records does with each of them, at the moments where it may change.
void Observe(const Record& record) {
  for (const Time time :
       {Time{}, record.lease_expire_time, record.response_expire_time, record.forget_time}) {
    const std::optional<Record> observed = core::Observe(record, core::At(time));
    if (!observed.has_value()) continue;
    Require(DecodeRecord(keystore::Encoded(*observed)) == observed,
            "what time makes of a record can be stored", core::BrokenRule(*observed));
  }
}

}  // namespace
}  // namespace idempotency::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace idempotency;
  using fuzz::Require;
  if (size == 0) return 0;
  std::string bytes(fuzz::AsText(data + 1, size - 1));
  if (data[0] % 2 == 1) bytes = keystore::WithCrc(bytes);
  const std::optional<core::Record> record = keystore::DecodeRecord(bytes);
  if (!record.has_value()) return 0;
  Require(core::BrokenRule(*record).empty(), "what is read keeps the rules",
          core::BrokenRule(*record));
  const std::string written = keystore::Encoded(*record);
  Require(written == bytes, "what is read is written as it was", keystore::ToHex(written));
  Require(keystore::DecodeRecord(written) == record, "what is written is read as it was");
  fuzz::Damage(bytes);
  fuzz::Observe(*record);
  return 0;
}
