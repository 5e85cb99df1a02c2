// One operation of every kind, and all that the service shows of them and of any other: what bad
// requests must leave as it is.
//
// Thread safety: none.
#ifndef IDEMPOTENCY_TESTS_PROOF_REQUESTS_SENTINELS_H_
#define IDEMPOTENCY_TESTS_PROOF_REQUESTS_SENTINELS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "idempotency/v1/admin_service.grpc.pb.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"

namespace idempotency::proof {

// What the server is configured with: nothing that is looked at changes by time alone within
// the run.
extern const char kConfig[];

enum class Kind {
  kPending,
  kSuperseded,  // PENDING by the second attempt; the first released it
  kComplete,
  kUnresolved,
  kFreed,
};

struct Sentinel {
  Kind kind = Kind::kPending;
  v1::OperationId id;
  uint64_t token = 0;        // the newest
  uint64_t older_token = 0;  // kSuperseded: of the first attempt
};

v1::Fingerprint SentinelFingerprint();
// Of the attempt that acquired it last.
std::string SentinelAttempt(const Sentinel& sentinel);

class Sentinels {
 public:
  explicit Sentinels(const std::shared_ptr<grpc::Channel>& channel);

  // "" or what went wrong.
  std::string Make();
  const std::vector<Sentinel>& all() const { return all_; }

  // Everything that is recorded, as text.
  std::string Snapshot();

 private:
  std::string MakeOne(Kind kind, const std::string& key);
  uint64_t Reserve(const v1::OperationId& id, const std::string& attempt);
  void AddListed(const std::string& name_space, std::string* text);
  void AddShown(const Sentinel& sentinel, std::string* text);

  std::unique_ptr<v1::IdempotencyService::Stub> api_;
  std::unique_ptr<v1::IdempotencyAdminService::Stub> admin_;
  std::vector<Sentinel> all_;
  std::string wrong_;
};

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_REQUESTS_SENTINELS_H_
