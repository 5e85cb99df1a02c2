// Frames of HTTP/2 as a peer may send them (RFC 9113, 4.1), with no regard for sense.
#ifndef IDEMPOTENCY_TESTS_SUPPORT_HTTP2_FRAMES_H_
#define IDEMPOTENCY_TESTS_SUPPORT_HTTP2_FRAMES_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace idempotency {

inline const std::string kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
enum FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kRstStream = 3,
  kSettings = 4,
  kPing = 6,
  kWindowUpdate = 8,
  kContinuation = 9,
};
inline constexpr uint8_t kEndStream = 1;
inline constexpr uint8_t kEndHeaders = 4;

inline std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload) {
  std::string frame;
  frame.reserve(9 + payload.size());
  for (int shift : {16, 8, 0}) frame.push_back(static_cast<char>(payload.size() >> shift));
  frame.push_back(static_cast<char>(type));
  frame.push_back(static_cast<char>(flags));
  for (int shift : {24, 16, 8, 0}) frame.push_back(static_cast<char>(stream >> shift));
  return frame.append(payload);
}

// Of a call of "/any/method".
inline std::string CallFields() {
  return "\x83\x86\x04\x0b/any/method\x01\x09localhost"
         "\x10\x02te\x08trailers\x10\x0c"
         "content-type\x10"
         "application/grpc";
}

inline std::string Cancel(uint32_t stream) {
  return Frame(kRstStream, 0, stream, std::string("\0\0\0\x08", 4));
}

// Calls that are cancelled as soon as they have begun, on streams 1, 3, 5, ...
inline std::string CancelledCalls(uint32_t count) {
  std::string frames;
  for (uint32_t stream = 1; stream < 2 * count; stream += 2) {
    frames += Frame(kHeaders, kEndHeaders | kEndStream, stream, CallFields()) + Cancel(stream);
  }
  return frames;
}

}  // namespace idempotency

#endif  // IDEMPOTENCY_TESTS_SUPPORT_HTTP2_FRAMES_H_
