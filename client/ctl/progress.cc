#include "client/ctl/progress.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace idempotency::ctl {
namespace {

constexpr int kBarCells = 24;
constexpr double kMostOfEstimate = 0.99;
constexpr size_t kWhatColumns = 11;

std::string BarOf(double share) {
  const int cells = static_cast<int>(share * kBarCells);
  return absl::StrFormat("[%s%s] %3d %%", std::string(cells, '#'),
                         std::string(kBarCells - cells, '.'), static_cast<int>(share * 100));
}

double ShareOf(uint64_t done, uint64_t total) {
  return std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
}

}  // namespace

std::string ProgressBar(uint64_t done, uint64_t total) {
  return total == 0 ? "" : BarOf(ShareOf(done, total));
}

std::string RoughProgressBar(uint64_t done, uint64_t estimated) {
  return BarOf(estimated == 0 ? 0.0 : std::min(kMostOfEstimate, ShareOf(done, estimated)));
}

std::string ProgressLine(std::string_view what, std::string_view bar, std::string_view how_far) {
  std::string line(what);
  line.resize(std::max(line.size() + 1, kWhatColumns), ' ');
  line.append(bar).append(bar.empty() ? "" : "  ").append(how_far);
  line.resize(std::min(line.size(), kProgressColumns));
  return line;
}

std::string LinesProgress(std::string_view what, size_t line, size_t lines) {
  return ProgressLine(what, ProgressBar(line - 1, lines),
                      absl::StrCat(line, " of ", lines, lines == 1 ? " line" : " lines"));
}

std::string ListProgress(uint64_t listed, uint64_t limit) {
  return ProgressLine("listing", ProgressBar(listed, limit),
                      limit == 0 ? absl::StrCat(listed, " operations")
                                 : absl::StrCat(listed, " operations of at most ", limit));
}

std::string NamespacesProgress(size_t done, size_t namespaces, uint64_t listed) {
  return ProgressLine(
      "listing", ProgressBar(done, namespaces),
      absl::StrCat(done, " of ", namespaces, " namespaces, ", listed, " operations"));
}

}  // namespace idempotency::ctl
