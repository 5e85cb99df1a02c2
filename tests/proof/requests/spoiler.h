// Makes bad requests: valid ones of every method, in which something is spoiled.
#ifndef IDEMPOTENCY_TESTS_PROOF_REQUESTS_SPOILER_H_
#define IDEMPOTENCY_TESTS_PROOF_REQUESTS_SPOILER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "google/protobuf/message.h"
#include "tests/proof/requests/contract.h"
#include "tests/proof/requests/sentinels.h"
#include "tests/proof/sim/random.h"

namespace idempotency::proof {

// How a bad request has to be refused.
struct Expected {
  std::string reason;
  // One of these is to be blamed; empty: none is looked for.
  std::vector<std::string> fields;
};

struct BadRequest {
  std::string name;  // what is wrong with it
  const MethodInfo* method = nullptr;
  std::unique_ptr<google::protobuf::Message> request;
  Expected expected;
};

// One thing that can be wrong with a field.
struct Fault {
  Method method;
  std::string name;
  std::string path;
  std::string blamed;
  std::function<void(google::protobuf::Message*, Random*)> spoil;
};

// Every text that a caller chose begins so: it may appear in no error and in no log.
inline constexpr char kMark[] = "zq7w";

// Thread safety: none.
class Spoiler {
 public:
  Spoiler(uint64_t seed, const std::vector<Sentinel>* sentinels);

  // One request for each fault of each field.
  std::vector<BadRequest> OneFault();
  // Two fields of one request.
  BadRequest TwoFaults();
  // Well-formed, and refused for what is recorded or configured.
  std::vector<BadRequest> WrongState();
  // What ends an attempt, with everything wrong that may be: refused for its token alone.
  BadRequest FinishingVerb();

  // Valid, on a key of its own that is not there, or on a sentinel.
  std::unique_ptr<google::protobuf::Message> Valid(const MethodInfo& method);
  Random& random() { return random_; }

 private:
  BadRequest Spoil(const Fault& fault);
  BadRequest On(const Sentinel& sentinel, Method method, const char* reason, uint64_t token);
  void AddOwners(std::vector<BadRequest>* bad);
  void AddOperators(std::vector<BadRequest>* bad);
  void AddKeys(std::vector<BadRequest>* bad);
  const Sentinel& Of(Kind kind) const;
  void FillId(google::protobuf::Message* request);
  void FillRest(google::protobuf::Message* request);
  std::string Text(size_t bytes);

  Random random_;
  const std::vector<Sentinel>& sentinels_;
  const std::vector<Fault> faults_;
};

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_REQUESTS_SPOILER_H_
