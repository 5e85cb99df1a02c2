// HTTP/2 as nobody should speak it: frames (tests/support/http2_frames.h) over a plain socket.
#ifndef IDEMPOTENCY_TESTS_PROOF_HOSTILE_HTTP2_H_
#define IDEMPOTENCY_TESTS_PROOF_HOSTILE_HTTP2_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "tests/support/http2_frames.h"

namespace idempotency::proof {

// The client's first words, with settings that say nothing.
std::string Preface();
// The headers of a call of IdempotencyService, without the use of a table: the same for any stream.
std::string CallHeaders(std::string_view method);
// One header, without the use of a table. Both at most 16,000 bytes.
std::string Header(std::string_view name, std::string_view value);
// A whole call: headers, and the message as the end of the stream.
std::string Call(uint32_t stream, std::string_view method, std::string_view message);

// A connection from 127.0.0.0 + `host`, so that each host is another peer.
//
// Thread safety: none.
class RawPeer {
 public:
  RawPeer(int port, int host);
  RawPeer(RawPeer&& other) noexcept;
  ~RawPeer();

  // Connected, and not yet found to be closed by the other side.
  bool open() const { return socket_ >= 0; }
  // All of it, until `until` (MonotonicNanos) at most; false where it did not go.
  bool Send(std::string_view bytes, int64_t until);
  // Sends what goes at once; false where the connection is gone.
  bool Dribble(std::string_view bytes);
  // Reads and forgets what has come; notices the end.
  void Drain();
  // The socket, which is somebody else's from now on.
  int Release();
  // No more is sent; the other direction stays open.
  void CloseHalf();

 private:
  void Close();

  int socket_ = -1;
};

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_HOSTILE_HTTP2_H_
