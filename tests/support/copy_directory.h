// A directory that somebody else writes to, as it is now.
#ifndef IDEMPOTENCY_TESTS_SUPPORT_COPY_DIRECTORY_H_
#define IDEMPOTENCY_TESTS_SUPPORT_COPY_DIRECTORY_H_

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace idempotency {

// Begins again where a file goes between its being listed and its being copied, as those do that a
// store has no more use for, or is cut while it is copied (an I/O error, says the library), as a
// log is that is closed. `to` is replaced.
inline void CopyLiveDirectory(const std::string& from, const std::string& to) {
  namespace fs = std::filesystem;
  std::error_code error;
  int cuts_left = 100;  // a disk that really fails goes on doing so
  do {
    fs::remove_all(to);
    fs::copy(from, to, fs::copy_options::recursive, error);
  } while ((error == std::errc::no_such_file_or_directory && fs::exists(from)) ||
           (error == std::errc::io_error && cuts_left-- > 0));
  if (!error) return;
  std::fprintf(stderr, "cannot copy %s: %s\n", from.c_str(), error.message().c_str());
  std::abort();
}

}  // namespace idempotency

#endif  // IDEMPOTENCY_TESTS_SUPPORT_COPY_DIRECTORY_H_
