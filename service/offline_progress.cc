#include "service/offline_progress.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace idempotency::service {
namespace {

constexpr double kMebibyte = 1024.0 * 1024.0;
constexpr int kBarCells = 24;
constexpr double kMostOfEstimate = 0.99;
// To the line's beginning, and what was there goes.
constexpr char kClear[] = "\r\x1b[K";

std::string Bar(uint64_t done, uint64_t estimated) {
  const double share =
      estimated == 0
          ? 0.0
          : std::min(kMostOfEstimate, static_cast<double>(done) / static_cast<double>(estimated));
  const int cells = static_cast<int>(share * kBarCells);
  return absl::StrFormat("[%s%s] %3d %%", std::string(cells, '#'),
                         std::string(kBarCells - cells, '.'), static_cast<int>(share * 100));
}

}  // namespace

bool IsProgressMode(std::string_view mode) {
  return mode == "auto" || mode == "always" || mode == "never";
}

bool DrawsProgress(std::string_view mode, bool terminal, const char* term) {
  if (mode != "auto") return mode == "always";
  return terminal && (term == nullptr || std::string_view(term) != "dumb");
}

std::string BytesProgress(const char* what, uint64_t bytes, uint64_t estimated) {
  return absl::StrFormat("%-10s %s  %.1f MiB", what, Bar(bytes, estimated),
                         static_cast<double>(bytes) / kMebibyte);
}

std::string RecordsProgress(const char* what, uint64_t records, uint64_t estimated) {
  return absl::StrFormat("%-10s %s  %d records", what, Bar(records, estimated), records);
}

void ProgressLine::Write(const std::string& text) {
  shown_ = true;
  *out_ << kClear << text << std::flush;
}

void ProgressLine::End() {
  if (std::exchange(shown_, false)) *out_ << kClear << std::flush;
}

}  // namespace idempotency::service
