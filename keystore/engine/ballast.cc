#include "keystore/engine/ballast.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "keystore/engine/durable_file.h"

namespace idempotency::keystore {
namespace {

bool IsThere(const std::string& path, uint64_t bytes) {
  struct stat info = {};
  return bytes > 0 && ::stat(path.c_str(), &info) == 0 &&
         static_cast<uint64_t>(info.st_size) == bytes;
}

}  // namespace

Ballast::Ballast(std::string path, uint64_t bytes)
    : path_(std::move(path)), bytes_(bytes), held_(IsThere(path_, bytes)) {}

absl::Status Ballast::Create() {
  if (held()) return absl::OkStatus();
  Release();  // one of another size
  if (bytes_ == 0) return absl::OkStatus();
  const int fd = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return FileError("cannot create", path_);
  const int error = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes_));
  ::close(fd);
  if (error != 0) {
    Release();
    errno = error;
    return FileError("cannot allocate", path_);
  }
  held_.store(true);
  return absl::OkStatus();
}

bool Ballast::Release() {
  held_.store(false);
  return ::unlink(path_.c_str()) == 0;
}

}  // namespace idempotency::keystore
