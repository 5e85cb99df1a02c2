// Lists operations by filter, as observed now, over an engine's scan.
//
// Two orders: by key, page after page of the engine's scan; or, where only UNRESOLVED is asked
// for, the oldest unknown first, by one pass over the open records a page that keeps the
// oldest behind the last page's end.
#ifndef IDEMPOTENCY_KEYSTORE_LISTER_H_
#define IDEMPOTENCY_KEYSTORE_LISTER_H_

#include <cstddef>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "keystore/clock.h"
#include "keystore/engine/engine.h"
#include "keystore/key_store.h"

namespace idempotency::keystore {

using ListDone = absl::AnyInvocable<void(absl::StatusOr<ListPage>) &&>;

// `engine` must live until `done` is called, on whichever thread the engine completes.
void StartList(Engine* engine, const core::Now& now, ListFilter filter, size_t page_size,
               std::string page_token, ListDone done);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_LISTER_H_
