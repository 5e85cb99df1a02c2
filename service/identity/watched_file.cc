#include "service/identity/watched_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"

namespace idempotency::service {
namespace {

int64_t Nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

FileStamp StampOf(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) return FileStamp{};
  return FileStamp{found.st_dev, found.st_ino, found.st_size,
                   std::max(Nanoseconds(found.st_mtim), Nanoseconds(found.st_ctim))};
}

absl::StatusOr<std::string> ReadSmallFile(const std::string& path, size_t max_bytes) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (file == nullptr) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat(path,
                            ": cannot be opened: check the path in the configuration, and "
                            "that this user may read the file"));
  }
  std::string text(max_bytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat(path,
                                                   ": cannot be read: check that it is a "
                                                   "file of text"));
  }
  if (text.size() > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": larger than ", max_bytes, " bytes: check that it is the right one"));
  }
  return text;
}

}  // namespace idempotency::service
