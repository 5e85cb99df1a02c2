// IdempotencyAdminService.ListOperations.
#ifndef IDEMPOTENCY_SERVICE_FRONT_LIST_CALL_H_
#define IDEMPOTENCY_SERVICE_FRONT_LIST_CALL_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "idempotency/v1/admin_service.pb.h"
#include "keystore/key_store.h"
#include "service/audit_log.h"
#include "service/front/unary_call.h"
#include "service/worker.h"

namespace idempotency::service {

// An administrative act: it begins when the audit has written that it does. Runs on the worker. A
// page that turns out too large is asked for again with fewer entries, since only the store knows
// where the next page goes on.
class ListCall final : public UnaryReactor {
 public:
  ListCall(const FrontDesk* desk, Worker* worker, grpc::CallbackServerContext* context,
           const grpc::ByteBuffer& in, grpc::ByteBuffer* out);

 private:
  void Start(Worker* worker, const grpc::ByteBuffer& in);
  void Begin(Worker* worker, size_t page_size);
  void AskForPage(size_t page_size);
  void EndWith(const Failure& failure);
  void OnPage(size_t page_size, absl::StatusOr<keystore::ListPage> page);

  const std::chrono::nanoseconds began_ = keystore::ReadElapsed();
  Caller caller_;
  keystore::ListFilter filter_;
  std::string page_token_;
  std::optional<AuditLog::Act> act_;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_FRONT_LIST_CALL_H_
