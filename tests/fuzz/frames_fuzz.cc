// What a peer sends, before gRPC sees it: the verdict does not depend on the pieces it comes in,
// what is not fine stays so, and no byte is more than a field.
//
//   input := piece repeats { byte }     the bytes come `repeats` times, in pieces of up to `piece`
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "service/listener/frame_guard.h"
#include "tests/fuzz/require.h"

namespace idempotency::fuzz {
namespace {

using service::FieldCounter;
using service::FrameGuard;
using service::FrameLimits;
using service::FrameVerdict;

constexpr core::Duration kNow{1'000};
constexpr FrameLimits kLimits{.cancels = {.at_once = 20, .in_window = 10}};

void CountsAtMostABytePerField(std::string_view bytes, size_t piece) {
  FieldCounter whole;
  const uint64_t fields = whole.Count(bytes);
  Require(fields <= bytes.size(), "a field is a byte at least");
  FieldCounter pieces;
  uint64_t sum = 0;
  for (size_t at = 0; at < bytes.size(); at += piece) sum += pieces.Count(bytes.substr(at, piece));
  Require(sum == fields, "pieces have the fields of the whole");
}

void DoesNotDependOnPieces(const std::string& bytes, size_t piece) {
  FrameGuard whole(kLimits, kNow);
  const FrameVerdict verdict = whole.Take(bytes, kNow);
  FrameGuard guard(kLimits, kNow);
  FrameVerdict last = FrameVerdict::kFine;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    const FrameVerdict next = guard.Take(std::string_view(bytes).substr(at, piece), kNow);
    Require(last == FrameVerdict::kFine || next == last, "what is not fine stays so");
    last = next;
  }
  Require(last == verdict, "the verdict does not depend on the pieces");
}

}  // namespace
}  // namespace idempotency::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace idempotency;
  if (size < 2) return 0;
  const size_t piece = 1 + data[0];
  const size_t repeats = 1 + data[1] % 64;
  const std::string_view bytes = fuzz::AsText(data, size).substr(2);
  fuzz::CountsAtMostABytePerField(bytes, piece);
  std::string frames = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  for (size_t i = 0; i < repeats; ++i) frames += bytes;
  fuzz::DoesNotDependOnPieces(frames, piece);
  fuzz::DoesNotDependOnPieces(std::string(bytes), piece);
  return 0;
}
