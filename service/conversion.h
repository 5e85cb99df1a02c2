// What the key store answers -> messages of the API, and who may see what of a record.
//
// Everything shown is one record as it was observed for the answer. A response and a digest are
// shown only to a caller whose own fingerprint matched, and to operators; a mismatch shows next
// to nothing; history is for GetOperation and InspectOperation.
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_SERVICE_CONVERSION_H_
#define IDEMPOTENCY_SERVICE_CONVERSION_H_

#include <optional>

#include "idempotency/v1/admin_service.pb.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "idempotency/v1/operation.pb.h"
#include "keystore/core/outcome.h"
#include "keystore/core/policy.h"
#include "keystore/core/record.h"
#include "keystore/core/time.h"
#include "keystore/key_store.h"
#include "service/error_table.h"

namespace idempotency::service {

// Which parts of a record an answer shows, besides what every answer does.
struct Shown {
  bool digest = false;
  bool response = false;
  bool history = false;
};

// Where the stored response cannot be read, and was to be shown: kRecordUnreadable.
std::optional<Failure> FillOperation(const core::Key& key, const core::Record& record, Shown shown,
                                     v1::Operation* out);

// What an answer needs besides the reply: which operation it was about, and under which policy.
struct AnswerContext {
  const core::Key& key;
  const core::Policy& policy;
};

// Fill the response from `reply`, or say why there is none. `reply` must not be cancelled.
std::optional<Failure> FillResponse(const keystore::Reply& reply, const AnswerContext& context,
                                    v1::ReserveResponse* out);
std::optional<Failure> FillResponse(const keystore::Reply& reply, const AnswerContext& context,
                                    v1::RenewResponse* out);
std::optional<Failure> FillResponse(const keystore::Reply& reply, const AnswerContext& context,
                                    v1::CompleteResponse* out);
std::optional<Failure> FillResponse(const keystore::Reply& reply, const AnswerContext& context,
                                    v1::ReleaseResponse* out);
std::optional<Failure> FillResponse(const keystore::Reply& reply, const AnswerContext& context,
                                    v1::MarkUnresolvedResponse* out);
std::optional<Failure> FillResponse(const keystore::Reply& reply, const AnswerContext& context,
                                    v1::GetOperationResponse* out);
std::optional<Failure> FillResponse(const keystore::Reply& reply, const AnswerContext& context,
                                    v1::InspectOperationResponse* out);
std::optional<Failure> FillResponse(const keystore::Reply& reply, const AnswerContext& context,
                                    v1::ResolveOperationResponse* out);
std::optional<Failure> FillResponse(const keystore::Reply& reply, const AnswerContext& context,
                                    v1::DeleteOperationResponse* out);

// One entry of a list. A record that cannot be read is listed by its id alone, so that it can
// be found and deleted.
v1::Operation ToListed(const keystore::ListEntry& entry, const core::Policy& policy,
                       core::Time now);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_CONVERSION_H_
