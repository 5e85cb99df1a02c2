// Clients of the network proof, each a thread with connections of its own: unary and Batch calls
// (ServeUnary), or a Pipeline with many commands in flight (ServePipeline). What was asked and not
// answered is mostly asked again, word for word.
//
// Thread safety: each call is one thread's; any number may run at once.
#ifndef IDEMPOTENCY_TESTS_PROOF_NETWORK_CLIENTS_H_
#define IDEMPOTENCY_TESTS_PROOF_NETWORK_CLIENTS_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "tests/proof/network/board.h"

namespace idempotency::proof::network {

struct ClientOptions {
  std::string name;
  uint64_t seed = 0;
  // Of the servers: each call goes to any of them.
  std::vector<int> ports;
  Board* board = nullptr;
  const std::atomic<bool>* stop = nullptr;
};

// Both return once `*stop` is true.
void ServeUnary(const ClientOptions& options);
void ServePipeline(const ClientOptions& options);

// Asks until each is answered. False: they are not, for long.
bool AskAll(const ClientOptions& options, const std::vector<Draft>& drafts);

}  // namespace idempotency::proof::network

#endif  // IDEMPOTENCY_TESTS_PROOF_NETWORK_CLIENTS_H_
