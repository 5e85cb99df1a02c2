// How far the work is that idempotencyd does instead of serving (--verify_backup, --restore_backup,
// --rewrap), as one line of a terminal that is written over.
#ifndef IDEMPOTENCY_SERVICE_OFFLINE_PROGRESS_H_
#define IDEMPOTENCY_SERVICE_OFFLINE_PROGRESS_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

namespace idempotency::service {

// Values of --progress: where standard error is a terminal that can be written over; always; never,
// which leaves lines of the log.
bool IsProgressMode(std::string_view mode);
// `terminal`: standard error is one. `term`: $TERM, or null.
bool DrawsProgress(std::string_view mode, bool terminal, const char* term);

// "checking   [######..................]  25 %  1.0 MiB": under 80 columns of ASCII for a `what` of
// at most ten letters. Totals are estimates, so it is never full before the end; 0: nothing is
// known.
std::string BytesProgress(const char* what, uint64_t bytes, uint64_t estimated);
// "verifying  [######..................]  25 %  20000 records"
std::string RecordsProgress(const char* what, uint64_t records, uint64_t estimated);

// The line; taken away when it ends.
class ProgressLine {
 public:
  // `out` must outlive it.
  explicit ProgressLine(std::ostream* out) : out_(out) {}
  ~ProgressLine() { End(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Write(const std::string& text);
  // Before anything else is written.
  void End();

 private:
  std::ostream* const out_;
  bool shown_ = false;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_OFFLINE_PROGRESS_H_
