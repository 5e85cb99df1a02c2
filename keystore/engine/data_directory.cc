#include "keystore/engine/data_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "keystore/engine/durable_file.h"
#include "keystore/engine/epoch_files.h"

namespace idempotency::keystore {
namespace {

namespace fs = std::filesystem;

// Makes the last directory of `path` where it is missing.
absl::Status MakeDirectory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0) {
    const fs::path parent = fs::path(path).parent_path();
    return SyncDirectory(parent.empty() ? "." : parent.string());
  }
  if (errno == ENOENT) {
    return absl::FailedPreconditionError(
        absl::StrCat("data_dir ", path, ": the directory above it does not exist; create it"));
  }
  if (errno != EEXIST) return FileError("cannot create data_dir", path);
  std::error_code error;
  if (fs::is_directory(path, error)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("data_dir ", path, " is not a directory; name one that is, or none yet"));
}

// Names that a directory may hold before there is a store in it.
bool MayPrecedeAStore(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  std::error_code error;
  // A store without epoch files is refused elsewhere, with its own reason.
  if (name == "db") {
    return fs::is_empty(entry.path(), error) || fs::exists(entry.path() / "CURRENT", error);
  }
  return name == "LOCK" || name == "ballast" || name == "lost+found" ||
         absl::StartsWith(name, "WATERMARK") || absl::StartsWith(name, "epoch-") ||
         absl::StartsWith(name, "CLOCK") || absl::StartsWith(name, ".");
}

// A new store takes an empty directory only: what else is there may be somebody's data, or
// this may be the wrong volume.
absl::Status RefuseForeignFiles(const std::string& path) {
  std::error_code error;
  fs::directory_iterator entries(path, error);
  if (error) {
    errno = error.value();
    return FileError("cannot list data_dir", path);
  }
  for (const fs::directory_entry& entry : entries) {
    if (MayPrecedeAStore(entry)) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("data_dir ", path, " is not a store of ours: it holds ",
                     entry.path().filename().string(), "; name an empty directory"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> Lock(const std::string& path) {
  const std::string lock_path = path + "/LOCK";
  const int fd = ::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return FileError("cannot create", lock_path);
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  const int reason = errno;
  ::close(fd);
  errno = reason;
  if (reason != EWOULDBLOCK) return FileError("cannot lock", lock_path);
  return absl::FailedPreconditionError(absl::StrCat(
      "data_dir ", path, " is in use by another process; stop it, or name another directory"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataDirectory>> DataDirectory::Open(const std::string& path) {
  // Relative paths stay valid should the process change its working directory.
  std::error_code error;
  const std::string absolute = fs::absolute(path, error).lexically_normal().string();
  if (absl::Status status = MakeDirectory(absolute); !status.ok()) return status;
  if (!EpochFiles(absolute).Exist()) {
    if (absl::Status status = RefuseForeignFiles(absolute); !status.ok()) return status;
  }
  absl::StatusOr<int> lock_fd = Lock(absolute);
  if (!lock_fd.ok()) return lock_fd.status();
  return std::unique_ptr<DataDirectory>(new DataDirectory(absolute, *lock_fd));
}

DataDirectory::~DataDirectory() { ::close(lock_fd_); }

bool DataDirectory::HasDb() const {
  std::error_code error;
  return fs::exists(db_path() + "/CURRENT", error);
}

}  // namespace idempotency::keystore
