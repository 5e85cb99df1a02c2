// What a peer's headers cost, and how many calls it cancels, by the bytes it sends: a pure
// decision, made before gRPC sees them.
//
// gRPC 1.51 bounds the headers of each frame and not those of a call: a block that goes on in
// CONTINUATION frames may have any size, and what it makes of a field is many times what came (a
// field of the table is one byte on the wire, and about 350 in memory: 2.7 GiB of one connection in
// a second, `idempotency_hostile --only=header_bomb_calls`). From outside such a block looks like a
// message, so it has to be seen from inside: frame by frame (RFC 9113, 4 and 6.2), and of a block
// the fields (RFC 7541, 6), whose names and values are of no interest.
//
// Cancelled calls are counted here as well, since gRPC counts them late: where they come in a
// flood, thousands of them later.
#ifndef IDEMPOTENCY_SERVICE_LISTENER_FRAME_GUARD_H_
#define IDEMPOTENCY_SERVICE_LISTENER_FRAME_GUARD_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "keystore/core/time.h"
#include "service/listener/allowance.h"
#include "service/listener/peer_limits.h"

namespace idempotency::service {

// Each field of a header block beyond those that are free is charged as what it may cost in memory,
// and so is each byte beyond what the headers of a call may have. Calls have ten to thirty fields,
// with what proxies add.
inline constexpr uint64_t kFieldCost = 350;
constexpr uint64_t FreeFields(uint64_t metadata_bytes) {
  return std::max<uint64_t>(48, metadata_bytes / 170);
}
// More fields than this are beyond what the headers of a call may have, however short each is,
// since each counts for 32 bytes (RFC 9113, 6.5.2), or far more than any call has. gRPC ends the
// connection of a peer that has said that it knows the limit, and holds nobody else to it.
constexpr uint64_t MaxFields(uint64_t metadata_bytes) {
  return std::max<uint64_t>(256, metadata_bytes / 32);
}
// The bytes of a block's frames. Headers that are too long by mistake are shorter: their client is
// to be told, and not kept out.
constexpr uint64_t MaxBlockBytes(uint64_t metadata_bytes) {
  return std::max<uint64_t>(128 * 1024, 2 * metadata_bytes);
}
// Of one connection.
inline constexpr Allowance::Size kHeaderCosts{
    .at_once = 4 * 1024 * 1024, .in_window = 8 * 1024 * 1024, .window = core::Duration(1'000)};

// Finds the fields of a header block, whatever pieces it comes in.
class FieldCounter {
 public:
  // Between two fields.
  bool IsBetween() const { return state_ == State::kField; }
  // How many fields begin in `bytes`, which go on where the last ones ended.
  uint64_t Count(std::string_view bytes);

 private:
  enum class State : uint8_t {
    kField,         // its first byte is next
    kNumber,        // more of a number that ends the field, or that stands before its value
    kString,        // the first byte of a string
    kStringLength,  // more of its length
    kStringBytes,
  };
  // A number is over: what follows it.
  void Next();
  void BeginField(uint8_t byte);
  void BeginString(uint64_t length);

  State state_ = State::kField;
  int strings_left_ = 0;  // of this field
  uint64_t length_ = 0;   // of the string, and then of what is left of it
  int shift_ = 0;
};

enum class FrameVerdict : uint8_t {
  kFine,
  kHeaders,  // headers that cost too much
  kCancels,  // more calls cancelled than allowed
};

struct FrameLimits {
  // RST_STREAM frames, beyond the calls that were answered: some clients reset those, too.
  Allowance::Size cancels = Allowance::Unbounded();
  uint64_t metadata_bytes = kMaxHeaderListBytes;
};

// Thread safety: none. `now` is time that only rises, of any origin.
class FrameGuard {
 public:
  // What comes next is the first byte of a connection. Of one that does not begin as HTTP/2 does
  // (TLS, or what gRPC ends at once) nothing is looked at.
  FrameGuard(const FrameLimits& limits, core::Duration now)
      : metadata_bytes_(limits.metadata_bytes),
        header_costs_(kHeaderCosts, now),
        cancels_(limits.cancels, now) {}

  // How many calls have been answered so far, as far as is known.
  void SetAnswered(uint64_t answered);

  // What the peer has sent next, in pieces of any size. What is not fine stays so.
  FrameVerdict Take(std::string_view bytes, core::Duration now);

 private:
  static constexpr size_t kFrameHeaderBytes = 9;

  void BeginFrame(core::Duration now);
  void TakePayload(std::string_view bytes, core::Duration now);
  void EndFrame(core::Duration now);
  void Pay(uint64_t cost, core::Duration now);
  // The first verdict stands.
  void Condemn(FrameVerdict verdict);

  const uint64_t metadata_bytes_;
  FrameVerdict verdict_ = FrameVerdict::kFine;
  bool is_http2_ = true;
  size_t preface_bytes_ = 0;
  std::array<uint8_t, kFrameHeaderBytes> header_{};
  size_t header_bytes_ = 0;
  // Of the frame's payload.
  uint64_t payload_left_ = 0;
  bool is_headers_ = false;
  bool is_reset_ = false;
  uint64_t priority_left_ = 0;
  // Of the block.
  uint64_t block_bytes_ = 0;
  uint64_t fields_ = 0;
  FieldCounter counter_;
  Allowance header_costs_;
  Allowance cancels_;
  uint64_t answered_ = 0;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_LISTENER_FRAME_GUARD_H_
