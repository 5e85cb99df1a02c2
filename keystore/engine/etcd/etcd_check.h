// Whether an etcd keeps the promises that we make on top of it: its version and the faults that are
// known of it, who its members are and how they stand, room, limits, and who may reach it.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_CHECK_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_CHECK_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "keystore/core/time.h"
#include "keystore/engine/engine_check.h"
#include "keystore/engine/etcd/etcd_client.h"

namespace idempotency::keystore {

struct EtcdCheckFacts {
  std::vector<std::string> endpoints;
  EtcdView view;
  // As configured.
  bool tls = false;
  bool has_certificate = false;
  uint64_t quota_bytes = 0;
  size_t max_request_bytes = 0;
  core::Duration clock_skew{0};
  // How many operations it takes in a transaction, as was found out at start.
  size_t txn_ops = 0;
  // Whether it has taken a request as large as max_request_bytes, which writes nothing.
  absl::Status large_request;
};

// Its default for --max-txn-ops.
inline constexpr size_t kUsualTxnOps = 128;
// New keys are refused when so much of the quota is in use, so that the rest lasts for what has
// begun.
bool IsNearQuota(uint64_t used_bytes, uint64_t quota_bytes);

// A finding for each check.
std::vector<Finding> Judge(const EtcdCheckFacts& facts);

// Of the members that answer, each version once: "3.5.28, 3.6.9".
std::string VersionsOf(const EtcdView& view);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_CHECK_H_
