// What is wrong with the call itself: bytes that are no message, methods that are none, messages
// that are too large; and many commands in one message, some of them bad.
#ifndef IDEMPOTENCY_TESTS_PROOF_REQUESTS_MALFORMED_H_
#define IDEMPOTENCY_TESTS_PROOF_REQUESTS_MALFORMED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "grpcpp/support/status.h"
#include "tests/proof/requests/spoiler.h"
#include "tests/proof/requests/wire.h"

namespace idempotency::proof {

inline constexpr char kBatchPath[] = "/idempotency.v1.IdempotencyService/Batch";
inline constexpr char kPipelinePath[] = "/idempotency.v1.IdempotencyService/Pipeline";

struct Malformed {
  std::string name;
  std::string method;
  std::vector<std::string> messages;
  bool stream = false;  // as a stream, whatever the method is
  bool alone = false;   // gRPC closes the connection over it
  Metadata metadata;
  // How the service refuses it; without a reason gRPC does, with one of the codes.
  Expected expected;
  std::vector<grpc::StatusCode> codes;
};

// Those of one block. The largest are only in every eighth.
std::vector<Malformed> MakeMalformed(Spoiler* spoiler, int block);

// One message of Batch or Pipeline.
struct Together {
  std::string bytes;
  struct Command {
    uint64_t tag = 0;
    std::string name;
    Expected expected;  // without a reason: it is answered
    std::vector<std::string> texts;
  };
  std::vector<Command> commands;
};
Together MakeTogether(Spoiler* spoiler, const std::vector<Sentinel>& sentinels, bool as_batch);
// "" or what is wrong.
std::string JudgeTogether(const Together& together, const Answer& answer, bool as_batch);

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_REQUESTS_MALFORMED_H_
