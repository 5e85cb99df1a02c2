// Redis as an idempotency store, two ways: SET NX EX, which says only whether a key was free, and
// a script that does what our Reserve does.
#ifndef IDEMPOTENCY_TESTS_BENCH_OTHERS_REDIS_LOAD_H_
#define IDEMPOTENCY_TESTS_BENCH_OTHERS_REDIS_LOAD_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "tests/bench/others/socket_load.h"

namespace idempotency::bench {

// One reply, as far as needed here: a line, or the texts of a list.
struct RedisReply {
  char kind = 0;
  std::string_view line;      // behind the kind; of a bulk string its text, or -1 for none
  std::string_view items[4];  // of a list
  size_t count = 0;
};

// Thread safety: as Load.
class RedisLoad final : public SocketLoad {
 public:
  // `script` is the text of reserve.lua; empty: SET NX EX.
  RedisLoad(Plan* plan, std::string script);

 private:
  struct Connection;

  std::unique_ptr<Peer> NewPeer() override;
  void OnReadable(Peer* peer) override;
  void Send(Slot* slot) override;

  void LoadScript(int socket);
  Answer ToAnswer(const Identity& id, const RedisReply& reply) const;
  void AppendCommand(const Caller& caller, std::string* out) const;

  const std::string script_;
  std::string digest_;  // by which the server knows the script
  std::string head_;    // of each command, which is the same for all
};

}  // namespace idempotency::bench

#endif  // IDEMPOTENCY_TESTS_BENCH_OTHERS_REDIS_LOAD_H_
