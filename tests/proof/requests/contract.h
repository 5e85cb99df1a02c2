// What the contract says of every field of every request, as a table: written from the comments in
// protos/idempotency/v1 and from protos/README.md, and not from the service.
#ifndef IDEMPOTENCY_TESTS_PROOF_REQUESTS_CONTRACT_H_
#define IDEMPOTENCY_TESTS_PROOF_REQUESTS_CONTRACT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "google/protobuf/message.h"

namespace idempotency::proof {

enum Method : uint32_t {
  kReserve = 1 << 0,
  kRenew = 1 << 1,
  kComplete = 1 << 2,
  kRelease = 1 << 3,
  kMarkUnresolved = 1 << 4,
  kGetOperation = 1 << 5,
  kGetNamespace = 1 << 6,
  kInspectOperation = 1 << 7,
  kListOperations = 1 << 8,
  kResolveOperation = 1 << 9,
  kDeleteOperation = 1 << 10,
  kListNamespaces = 1 << 11,
};

struct MethodInfo {
  Method method;
  std::string path;
  const google::protobuf::Message* request;
  // Of v1::Command; null: no command is of this kind.
  const char* command;
};
// All unary methods but Batch.
const std::vector<MethodInfo>& Methods();
const MethodInfo& InfoOf(Method method);

// What is refused of a field with INVALID_FIELD.
enum class Rule {
  // A message, or a choice, that has to be there.
  kRequired,
  // A name: [a-z0-9._-], starting with a letter.
  kName,
  // UTF-8 without control characters.
  kIdText,
  kText,
  kBytes,
  // Above zero.
  kToken,
  // SUCCEEDED or FAILED.
  kVerdict,
  // States of operations.
  kStates,
  // Labels: how many, how large, and their names.
  kLabels,
  // Above zero, and within the maximum of the namespace.
  kLease,
  kNotNegativeDuration,
  // May be negative; still a google.protobuf.Duration.
  kDuration,
  kNotNegativeNumber,
  // Not what a page before gave.
  kPageToken,
};

struct FieldRule {
  uint32_t methods;  // a set
  const char* path;
  Rule rule;
  // In bytes. Below `least` is refused where that is above zero; empty then means missing.
  size_t least = 0;
  size_t most = 0;
};
const std::vector<FieldRule>& FieldRules();

// How gRPC and the error details say which reason.
struct ReasonRule {
  const char* reason;
  int code;
  bool retry_info;
};
// Null for a reason that the contract does not know.
const ReasonRule* FindReason(const std::string& reason);

inline constexpr size_t kMaxLabels = 16;
inline constexpr size_t kMaxLabelBytes = 1024;
inline constexpr size_t kMaxBatchCommands = 1024;
inline constexpr size_t kMaxMessageBytes = 16 * 1024 * 1024;

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_REQUESTS_CONTRACT_H_
