#include "tests/bench/others/etcd_load.h"

#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::bench {
namespace {

// Fields of etcd's rpc.proto, by number. All that is written here is shorter than 128 bytes, so
// that every length is one byte, but for the whole operations.
constexpr char kLengthDelimited = 2;
constexpr char Tag(int field) { return static_cast<char>(field << 3 | kLengthDelimited); }

constexpr int kTxnCompare = 1;
constexpr int kTxnSuccess = 2;
constexpr int kTxnFailure = 3;
constexpr int kCompareTarget = 2;
constexpr int kCompareTargetCreate = 1;
constexpr int kCompareKey = 3;
constexpr int kCompareCreateRevision = 5;
constexpr int kOpRange = 1;
constexpr int kOpPut = 2;
constexpr int kFirst = 1;   // of PutRequest and RangeRequest: the key
constexpr int kSecond = 2;  // of PutRequest: the value
constexpr char kSucceededTag = 2 << 3;

void AppendField(int field, std::string_view bytes, std::string* out) {
  out->push_back(Tag(field));
  size_t size = bytes.size();
  for (; size >= 128; size >>= 7) out->push_back(static_cast<char>(size | 128));
  out->push_back(static_cast<char>(size));
  out->append(bytes);
}

void AppendNumber(int field, char number, std::string* out) {
  out->push_back(static_cast<char>(field << 3));
  out->push_back(number);
}

std::string InField(int field, std::string_view bytes) {
  std::string out;
  AppendField(field, bytes, &out);
  return out;
}

std::string KeyText(const Identity& id) {
  std::string key = "bench/";
  key.append(id.scope, kScopeBytes).append("/").append(id.key, kKeyBytes);
  return key;
}

}  // namespace

void EtcdLoad::AppendRequest(const Caller& caller, std::string* out) const {
  const Identity& id = caller.id();
  const std::string key = KeyText(id);
  // What has to be found again: the request's digest and who holds it.
  std::string value(id.digest, kDigestBytes);
  value.append(id.attempt, kAttemptBytes).append("sha256/bytes-1 bench-1 PENDING");
  std::string compare;
  AppendNumber(kCompareTarget, kCompareTargetCreate, &compare);
  AppendField(kCompareKey, key, &compare);
  AppendNumber(kCompareCreateRevision, 0, &compare);
  std::string put;
  AppendField(kFirst, key, &put);
  AppendField(kSecond, value, &put);
  AppendField(kTxnCompare, compare, out);
  AppendField(kTxnSuccess, InField(kOpPut, put), out);
  AppendField(kTxnFailure, InField(kOpRange, InField(kFirst, key)), out);
}

bool EtcdLoad::ScanAnswer(const Caller& caller, std::string_view bytes, Answer* answer) const {
  answer->key = std::string_view(caller.id().key, kKeyBytes);
  answer->token = 1;
  answer->outcome = v1::RESERVE_OUTCOME_IN_PROGRESS;
  // TxnResponse: a header, which is short, then whether the comparison held.
  if (bytes.size() < 2 || bytes[0] != Tag(1) || static_cast<uint8_t>(bytes[1]) >= 128) return false;
  const size_t behind_header = size_t{2} + static_cast<uint8_t>(bytes[1]);
  const bool succeeded = behind_header + 1 < bytes.size() &&
                         bytes[behind_header] == kSucceededTag && bytes[behind_header + 1] == 1;
  if (succeeded) answer->outcome = v1::RESERVE_OUTCOME_ACQUIRED;
  return true;
}

}  // namespace idempotency::bench
