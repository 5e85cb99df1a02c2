// How far long work is, as one short line for a terminal. Pure.
#ifndef IDEMPOTENCY_CLIENT_CTL_PROGRESS_H_
#define IDEMPOTENCY_CLIENT_CTL_PROGRESS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace idempotency::ctl {

// The most that one line takes: what wraps on a terminal of the usual width cannot be written over.
inline constexpr size_t kProgressColumns = 79;

// "[######..................]  25 %"; empty where `total` is 0, since nobody knows the share.
std::string ProgressBar(uint64_t done, uint64_t total);
// The same of a rough total: it is never full before the end.
std::string RoughProgressBar(uint64_t done, uint64_t estimated);

// "settling   [######..................]  25 %  3 of 12 lines"; without the bar where it is empty.
// At most kProgressColumns. ASCII only.
std::string ProgressLine(std::string_view what, std::string_view bar, std::string_view how_far);

// "settling", the line that is being sent.
std::string LinesProgress(std::string_view what, size_t line, size_t lines);
// So many operations of a list that has at most `limit`; 0: nobody knows how many there will be.
std::string ListProgress(uint64_t listed, uint64_t limit);
// A list of several namespaces: how many of them are done, and what they had.
std::string NamespacesProgress(size_t done, size_t namespaces, uint64_t listed);

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_PROGRESS_H_
