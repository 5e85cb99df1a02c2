// Durations as people write them: what is read is written so that it is read again.
//
//   input := text              eight bytes or more are also taken for a number of milliseconds
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "service/duration_text.h"
#include "tests/fuzz/require.h"

namespace idempotency::fuzz {
namespace {

using core::Duration;
using service::FormatDuration;
using service::kMaxTextDuration;
using service::ParseDuration;

void ComesBack(Duration duration) {
  const std::string text = FormatDuration(duration);
  const auto again = ParseDuration(text);
  const bool can_be_written = duration <= kMaxTextDuration && -kMaxTextDuration <= duration;
  Require(again.ok() == can_be_written, "what can be written is read, and nothing else", text);
  if (again.ok()) Require(*again == duration, "a duration is read as it was written", text);
}

}  // namespace
}  // namespace idempotency::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace idempotency;
  const auto duration = service::ParseDuration(fuzz::AsText(data, size));
  if (duration.ok()) {
    fuzz::Require(*duration <= service::kMaxTextDuration && -service::kMaxTextDuration <= *duration,
                  "a duration is within what can be written");
    fuzz::ComesBack(*duration);
  } else {
    fuzz::Require(absl::IsInvalidArgument(duration.status()) &&
                      duration.status().message().find(": write ") != absl::string_view::npos,
                  "a refusal says what to write");
  }
  int64_t milliseconds = 0;
  if (size < sizeof(milliseconds)) return 0;
  std::memcpy(&milliseconds, data, sizeof(milliseconds));
  fuzz::ComesBack(core::Duration(milliseconds));
  return 0;
}
