#include "service/retirement_watch.h"

#include <string>

#include "absl/status/status.h"
#include "keystore/engine/transfer/retirement.h"

namespace idempotency::service {

void RetirementWatch::Tell() {
  if (!untold()) return;
  const absl::Status status = keystore::CheckNotRetired(&engine_);
  if (absl::IsUnavailable(status)) return;
  // What was read is newer than what Look has found: that comes to it within a second.
  if (status.ok() == retired_) return;
  told_ = !status.ok();
  if (status.ok()) {
    log_.Write(LogLevel::kWarning, "store_reinstated",
               {{"next_step",
                 "this server answers again; empty the store of the move that was "
                 "called off, which does not know what is done from now on"}});
    return;
  }
  log_.Write(LogLevel::kError, "store_retired",
             {{"error", std::string(status.message())},
              {"next_step",
               "this server writes nothing any more and refuses all calls: stop it. "
               "It answers again by itself where the retirement is taken back"}});
}

}  // namespace idempotency::service
