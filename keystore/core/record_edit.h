// The small changes that every transition is made of. Each keeps history and ended attempts
// bounded; none decides anything.
#ifndef IDEMPOTENCY_KEYSTORE_CORE_RECORD_EDIT_H_
#define IDEMPOTENCY_KEYSTORE_CORE_RECORD_EDIT_H_

#include <cstdint>

#include "keystore/core/record.h"
#include "keystore/core/time.h"

namespace idempotency::core {

// Appends to the history; keeps the first event and the newest kMaxHistoryEvents - 1.
void AddEvent(Record& record, Event event);

// The ended attempt with this token, or null where it has not ended or is forgotten.
const EndedAttempt* FindEnded(const Record& record, uint64_t token);

// Whether this attempt_id belongs to an attempt that has ended.
bool HasEnded(const Record& record, const Digest& attempt_id);

// Notes how the newest attempt ended; replaces an earlier ending of the same token.
void EndAttempt(Record& record, EndVerb verb, const Digest& content);

// Notes that the late completion of `token` is in the history. The token must have ended.
void NoteEvidence(Record& record, uint64_t token);

// min(initial << (attempt - 1), maximum), without overflow.
Duration Backoff(const Terms& terms, uint32_t attempt);

// PENDING or FREED by a lapse -> UNRESOLVED, as was known at `at`: the newest attempt may have
// had its effect.
void BecomeUnresolved(Record& record, Unknown unknown, Time at);

// The newest attempt did nothing, as was known at `at`: UNRESOLVED as the earlier attempt left
// it. `earlier` must be set.
void ReturnToEarlier(Record& record, Time at);

// -> FREED, remembered for `memory` from `at`. What the next attempt may use stays.
void Free(Record& record, Time at, Duration memory);

// Drops what only an open operation needs.
void CloseOpen(Record& record);

// Every change ends with this: it moves the etag and the record's own time.
void Touch(Record& record, Time at);

}  // namespace idempotency::core

#endif  // IDEMPOTENCY_KEYSTORE_CORE_RECORD_EDIT_H_
