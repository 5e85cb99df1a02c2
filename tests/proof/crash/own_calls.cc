#include "tests/proof/crash/own_calls.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/match.h"

namespace idempotency::proof {
namespace {

struct OwnFile {
  std::shared_ptr<JudgedDisk> disk;  // null: it is not ours
  std::string path;
  bool directory = false;
};

// Which disk has which paths, and which of its files are open.
class Registry {
 public:
  void Add(const std::string& directory, std::shared_ptr<JudgedDisk> disk) {
    const std::lock_guard<std::mutex> lock(mutex_);
    disks_[directory + "/"] = std::move(disk);
  }
  void Remove(const std::string& directory) {
    const std::lock_guard<std::mutex> lock(mutex_);
    disks_.erase(directory + "/");
  }
  std::shared_ptr<JudgedDisk> DiskOf(const std::string& path) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [directory, disk] : disks_) {
      if (absl::StartsWith(path, directory)) return disk;
    }
    return nullptr;
  }
  void Opened(int fd, OwnFile file) {
    const std::lock_guard<std::mutex> lock(mutex_);
    files_[fd] = std::move(file);
  }
  OwnFile Find(int fd) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto file = files_.find(fd);
    return file == files_.end() ? OwnFile{} : file->second;
  }
  // Before the number can be another file's.
  OwnFile Closing(int fd) {
    OwnFile file = Find(fd);
    const std::lock_guard<std::mutex> lock(mutex_);
    files_.erase(fd);
    return file;
  }

  // Around a fork.
  void Hold() { mutex_.lock(); }
  void LetGo() { mutex_.unlock(); }

 private:
  // Of a kind that a child can let go of, whoever has waited for it in the parent.
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<JudgedDisk>> disks_;
  std::map<int, OwnFile> files_;
};

// Never destroyed: files are closed until the very end.
Registry& Known() {
  static auto* const registry = new Registry;
  return *registry;
}

// A child that is made while another thread asks here would wait for that thread, which it has not,
// and never come to what it is to run.
[[maybe_unused]] const int kAroundForks =
    pthread_atfork([] { Known().Hold(); }, [] { Known().LetGo(); }, [] { Known().LetGo(); });

int Fail(const rocksdb::IOStatus& status) {
  errno = status.IsNoSpace() ? ENOSPC : EIO;
  return -1;
}
int Result(const rocksdb::IOStatus& status) { return status.ok() ? 0 : Fail(status); }

DiskCall CallOf(int flags) {
  if ((flags & O_DIRECTORY) != 0) return DiskCall::kLookUp;
  return (flags & O_CREAT) != 0 ? DiskCall::kCreate : DiskCall::kOpenForRead;
}

// How much of `size` bytes may be written: what a short write leaves room for.
size_t Allowed(const DiskVerdict& verdict, size_t size) {
  if (verdict.status.ok()) return size;
  return verdict.half_done ? size / 2 : 0;
}

}  // namespace

void TakeOwnCalls(const std::string& directory, std::shared_ptr<JudgedDisk> disk) {
  Known().Add(directory, std::move(disk));
}
void LeaveOwnCalls(const std::string& directory) { Known().Remove(directory); }

}  // namespace idempotency::proof

using idempotency::proof::Allowed;
using idempotency::proof::BytesAt;
using idempotency::proof::CallOf;
using idempotency::proof::DiskCall;
using idempotency::proof::DiskVerdict;
using idempotency::proof::Fail;
using idempotency::proof::Known;
using idempotency::proof::OwnFile;
using idempotency::proof::Result;

extern "C" {

int __real_open(const char* path, int flags, ...);
int __real_close(int fd);
ssize_t __real_read(int fd, void* data, size_t size);
ssize_t __real_pread(int fd, void* data, size_t size, off_t offset);
ssize_t __real_write(int fd, const void* data, size_t size);
ssize_t __real_pwrite(int fd, const void* data, size_t size, off_t offset);
int __real_fsync(int fd);
int __real_fdatasync(int fd);
int __real_rename(const char* from, const char* to);
int __real_mkdir(const char* path, mode_t mode);

int __wrap_open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0) {
    va_list more;
    va_start(more, flags);
    mode = va_arg(more, mode_t);
    va_end(more);
  }
  const auto disk = Known().DiskOf(path);
  if (disk == nullptr) return __real_open(path, flags, mode);
  const DiskVerdict verdict = disk->Ask(CallOf(flags), path);
  if (!verdict.status.ok()) return Fail(verdict.status);
  const bool anew = (flags & O_TRUNC) != 0;
  if (anew && !disk->unsynced().MakeWay(path)) return -1;
  const int fd = __real_open(path, flags, mode);
  if (fd < 0) return fd;
  if (anew) disk->unsynced().Created(path);
  Known().Opened(fd, OwnFile{disk, path, (flags & O_DIRECTORY) != 0});
  return fd;
}

int __wrap_close(int fd) {
  const OwnFile file = Known().Closing(fd);
  const int closed = __real_close(fd);
  if (file.disk == nullptr || file.directory) return closed;
  const DiskVerdict verdict = file.disk->Ask(DiskCall::kClose, file.path);
  return verdict.status.ok() ? closed : Fail(verdict.status);
}

ssize_t __wrap_read(int fd, void* data, size_t size) {
  const OwnFile file = Known().Find(fd);
  if (file.disk == nullptr) return __real_read(fd, data, size);
  const DiskVerdict verdict = file.disk->Ask(DiskCall::kRead, file.path);
  return verdict.status.ok() ? __real_read(fd, data, size) : Fail(verdict.status);
}

ssize_t __wrap_pread(int fd, void* data, size_t size, off_t offset) {
  const OwnFile file = Known().Find(fd);
  if (file.disk == nullptr) return __real_pread(fd, data, size, offset);
  const DiskVerdict verdict = file.disk->Ask(DiskCall::kRead, file.path);
  return verdict.status.ok() ? __real_pread(fd, data, size, offset) : Fail(verdict.status);
}

// What the two become where the compiler knows how large the buffer is.
ssize_t __wrap___read_chk(int fd, void* data, size_t size, size_t /*room*/) {
  return __wrap_read(fd, data, size);
}
ssize_t __wrap___pread_chk(int fd, void* data, size_t size, off_t offset, size_t /*room*/) {
  return __wrap_pread(fd, data, size, offset);
}

ssize_t __wrap_write(int fd, const void* data, size_t size) {
  const OwnFile file = Known().Find(fd);
  if (file.disk == nullptr) return __real_write(fd, data, size);
  const DiskVerdict verdict = file.disk->Ask(DiskCall::kAppend, file.path);
  const size_t allowed = Allowed(verdict, size);
  if (allowed == 0) return Fail(verdict.status);
  const ssize_t written = __real_write(fd, data, allowed);
  if (written > 0) file.disk->unsynced().Appended(file.path, static_cast<uint64_t>(written));
  return written;
}

ssize_t __wrap_pwrite(int fd, const void* data, size_t size, off_t offset) {
  const OwnFile file = Known().Find(fd);
  if (file.disk == nullptr) return __real_pwrite(fd, data, size, offset);
  const DiskVerdict verdict = file.disk->Ask(DiskCall::kOverwrite, file.path);
  const size_t allowed = Allowed(verdict, size);
  if (allowed == 0) return Fail(verdict.status);
  file.disk->unsynced().Overwritten(file.path, static_cast<uint64_t>(offset),
                                    BytesAt(file.path, static_cast<uint64_t>(offset), allowed));
  return __real_pwrite(fd, data, allowed, offset);
}

int __wrap_fsync(int fd) {
  const OwnFile file = Known().Find(fd);
  if (file.disk == nullptr) return __real_fsync(fd);
  return Result(file.directory ? file.disk->SyncDirectory(file.path) : file.disk->Sync(file.path));
}

int __wrap_fdatasync(int fd) {
  const OwnFile file = Known().Find(fd);
  return file.disk == nullptr ? __real_fdatasync(fd) : Result(file.disk->Sync(file.path));
}

int __wrap_rename(const char* from, const char* to) {
  const auto disk = Known().DiskOf(to);
  if (disk == nullptr) return __real_rename(from, to);
  const DiskVerdict verdict = disk->Ask(DiskCall::kRename, to);
  if (!verdict.status.ok() && !verdict.half_done) return Fail(verdict.status);
  if (!disk->unsynced().Rename(from, to)) return -1;
  return Result(verdict.status);
}

int __wrap_mkdir(const char* path, mode_t mode) {
  const auto disk = Known().DiskOf(path);
  if (disk == nullptr) return __real_mkdir(path, mode);
  const DiskVerdict verdict = disk->Ask(DiskCall::kCreate, path);
  return verdict.status.ok() ? __real_mkdir(path, mode) : Fail(verdict.status);
}

}  // extern "C"
