#include "keystore/engine/durable_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace idempotency::keystore {
namespace {

// Closes what it holds; errors of close are looked at only where `Close` is called.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  bool open() const { return fd_ >= 0; }
  int get() const { return fd_; }
  bool Close() { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

absl::Status WriteAndSync(const std::string& path, std::string_view bytes) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.open()) return FileError("cannot create", path);
  if (!WriteAll(file.get(), bytes)) return FileError("cannot write", path);
  if (::fsync(file.get()) != 0) return FileError("cannot sync", path);
  if (!file.Close()) return FileError("cannot close", path);
  return absl::OkStatus();
}

}  // namespace

absl::Status FileError(std::string_view what, const std::string& path) {
  const std::string reason = std::generic_category().message(errno);
  return absl::UnavailableError(absl::StrCat(std::string(what), " ", path, ": ", reason));
}

absl::Status SyncDirectory(const std::string& path) {
  FileDescriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.open()) return FileError("cannot open directory", path);
  if (::fsync(directory.get()) != 0) return FileError("cannot sync directory", path);
  return absl::OkStatus();
}

absl::Status WriteFileDurably(const std::string& path, std::string_view bytes) {
  const std::string fresh = path + ".new";
  if (absl::Status status = WriteAndSync(fresh, bytes); !status.ok()) return status;
  if (std::rename(fresh.c_str(), path.c_str()) != 0) return FileError("cannot replace", path);
  return SyncDirectory(std::filesystem::path(path).parent_path().string());
}

absl::StatusOr<std::optional<std::string>> ReadSmallFile(const std::string& path,
                                                         size_t max_bytes) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.open()) {
    if (errno == ENOENT) return std::optional<std::string>();
    return FileError("cannot open", path);
  }
  std::string bytes(max_bytes, '\0');
  size_t size = 0;
  while (size < max_bytes) {
    const ssize_t got = ::read(file.get(), bytes.data() + size, max_bytes - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError("cannot read", path);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  bytes.resize(size);
  return std::optional<std::string>(std::move(bytes));
}

}  // namespace idempotency::keystore
