#include "tests/proof/crash/hostile_disk.h"

#include <rocksdb/file_system.h>
#include <rocksdb/system_clock.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "tests/proof/crash/judged_disk.h"
#include "tests/proof/crash/own_calls.h"

namespace idempotency::proof {
namespace {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

class WritableFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  WritableFile(std::unique_ptr<rocksdb::FSWritableFile> file, std::string path,
               std::shared_ptr<JudgedDisk> disk)
      : FSWritableFileOwnerWrapper(std::move(file)),
        path_(std::move(path)),
        disk_(std::move(disk)) {}

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* debug) override {
    const DiskVerdict verdict = disk_->Ask(DiskCall::kAppend, path_);
    if (verdict.status.ok()) return Write(data, options, debug);
    if (verdict.half_done) {
      Write(Slice(data.data(), data.size() / 2), options, debug).PermitUncheckedError();
    }
    return verdict.status;
  }
  IOStatus Append(const Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& /*verification*/,
                  IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  IOStatus Truncate(uint64_t size, const IOOptions& options, IODebugContext* debug) override {
    const DiskVerdict verdict = disk_->Ask(DiskCall::kTruncate, path_);
    if (!verdict.status.ok()) return verdict.status;
    const uint64_t end = std::max(size, disk_->unsynced().SizeOf(path_));
    std::string cut = BytesAt(path_, size, end - size);
    IOStatus status = FSWritableFileOwnerWrapper::Truncate(size, options, debug);
    if (status.ok()) disk_->unsynced().Truncated(path_, size, std::move(cut));
    return status;
  }
  IOStatus Sync(const IOOptions& /*options*/, IODebugContext* /*debug*/) override {
    return disk_->Sync(path_);
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Sync(options, debug);
  }
  IOStatus RangeSync(uint64_t /*offset*/, uint64_t /*bytes*/, const IOOptions& /*options*/,
                     IODebugContext* /*debug*/) override {
    return IOStatus::OK();  // a hint, and no promise
  }
  IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
    const DiskVerdict verdict = disk_->Ask(DiskCall::kClose, path_);
    IOStatus status = FSWritableFileOwnerWrapper::Close(options, debug);
    return verdict.status.ok() ? status : verdict.status;
  }

 private:
  // Where another handle has written ahead of it, it writes over that.
  IOStatus Write(const Slice& data, const IOOptions& options, IODebugContext* debug) {
    const bool over = position_ < disk_->unsynced().SizeOf(path_);
    std::string before = over ? BytesAt(path_, position_, data.size()) : "";
    IOStatus status = FSWritableFileOwnerWrapper::Append(data, options, debug);
    if (!status.ok()) return status;
    disk_->unsynced().Wrote(path_, position_, data.size(), std::move(before));
    position_ += data.size();
    return status;
  }

  const std::string path_;
  const std::shared_ptr<JudgedDisk> disk_;
  uint64_t position_ = 0;
};

class RandomRWFile final : public rocksdb::FSRandomRWFileOwnerWrapper {
 public:
  RandomRWFile(std::unique_ptr<rocksdb::FSRandomRWFile> file, std::string path,
               std::shared_ptr<JudgedDisk> disk)
      : FSRandomRWFileOwnerWrapper(std::move(file)),
        path_(std::move(path)),
        disk_(std::move(disk)) {}

  IOStatus Write(uint64_t offset, const Slice& data, const IOOptions& options,
                 IODebugContext* debug) override {
    const DiskVerdict verdict = disk_->Ask(DiskCall::kOverwrite, path_);
    if (verdict.status.ok()) return WriteAt(offset, data, options, debug);
    if (verdict.half_done) {
      WriteAt(offset, Slice(data.data(), data.size() / 2), options, debug).PermitUncheckedError();
    }
    return verdict.status;
  }
  IOStatus Read(uint64_t offset, size_t size, const IOOptions& options, Slice* result,
                char* scratch, IODebugContext* debug) const override {
    const DiskVerdict verdict = disk_->Ask(DiskCall::kRead, path_);
    if (!verdict.status.ok()) return verdict.status;
    return FSRandomRWFileOwnerWrapper::Read(offset, size, options, result, scratch, debug);
  }
  // Of the file, whoever has written to it.
  IOStatus Sync(const IOOptions& /*options*/, IODebugContext* /*debug*/) override {
    return disk_->Sync(path_);
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Sync(options, debug);
  }
  IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
    const DiskVerdict verdict = disk_->Ask(DiskCall::kClose, path_);
    IOStatus status = FSRandomRWFileOwnerWrapper::Close(options, debug);
    return verdict.status.ok() ? status : verdict.status;
  }

 private:
  IOStatus WriteAt(uint64_t offset, const Slice& data, const IOOptions& options,
                   IODebugContext* debug) {
    std::string before = BytesAt(path_, offset, data.size());
    IOStatus status = FSRandomRWFileOwnerWrapper::Write(offset, data, options, debug);
    if (status.ok()) disk_->unsynced().Wrote(path_, offset, data.size(), std::move(before));
    return status;
  }

  const std::string path_;
  const std::shared_ptr<JudgedDisk> disk_;
};

class RandomAccessFile final : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  RandomAccessFile(std::unique_ptr<rocksdb::FSRandomAccessFile> file, std::string path,
                   std::shared_ptr<JudgedDisk> disk)
      : FSRandomAccessFileOwnerWrapper(std::move(file)),
        path_(std::move(path)),
        disk_(std::move(disk)) {}

  IOStatus Read(uint64_t offset, size_t size, const IOOptions& options, Slice* result,
                char* scratch, IODebugContext* debug) const override {
    const DiskVerdict verdict = disk_->Ask(DiskCall::kRead, path_);
    if (!verdict.status.ok()) return verdict.status;
    return FSRandomAccessFileOwnerWrapper::Read(offset, size, options, result, scratch, debug);
  }
  IOStatus MultiRead(rocksdb::FSReadRequest* requests, size_t count, const IOOptions& options,
                     IODebugContext* debug) override {
    const DiskVerdict verdict = disk_->Ask(DiskCall::kRead, path_);
    if (verdict.status.ok()) {
      return FSRandomAccessFileOwnerWrapper::MultiRead(requests, count, options, debug);
    }
    for (size_t i = 0; i < count; ++i) requests[i].status = verdict.status;
    return verdict.status;
  }

 private:
  const std::string path_;
  const std::shared_ptr<JudgedDisk> disk_;
};

class SequentialFile final : public rocksdb::FSSequentialFileOwnerWrapper {
 public:
  SequentialFile(std::unique_ptr<rocksdb::FSSequentialFile> file, std::string path,
                 std::shared_ptr<JudgedDisk> disk)
      : FSSequentialFileOwnerWrapper(std::move(file)),
        path_(std::move(path)),
        disk_(std::move(disk)) {}

  IOStatus Read(size_t size, const IOOptions& options, Slice* result, char* scratch,
                IODebugContext* debug) override {
    const DiskVerdict verdict = disk_->Ask(DiskCall::kRead, path_);
    if (!verdict.status.ok()) return verdict.status;
    return FSSequentialFileOwnerWrapper::Read(size, options, result, scratch, debug);
  }

 private:
  const std::string path_;
  const std::shared_ptr<JudgedDisk> disk_;
};

class Directory final : public rocksdb::FSDirectoryWrapper {
 public:
  Directory(std::unique_ptr<rocksdb::FSDirectory> directory, std::string path,
            std::shared_ptr<JudgedDisk> disk)
      : FSDirectoryWrapper(std::move(directory)), path_(std::move(path)), disk_(std::move(disk)) {}

  IOStatus Fsync(const IOOptions& /*options*/, IODebugContext* /*debug*/) override {
    return disk_->SyncDirectory(path_);
  }
  IOStatus FsyncWithDirOptions(const IOOptions& options, IODebugContext* debug,
                               const rocksdb::DirFsyncOptions& /*why*/) override {
    return Fsync(options, debug);
  }

 private:
  const std::string path_;
  const std::shared_ptr<JudgedDisk> disk_;
};

// RocksDB waits a second after a failed flush, in case somebody mends the disk meanwhile.
class HurriedClock final : public rocksdb::SystemClockWrapper {
 public:
  HurriedClock() : SystemClockWrapper(rocksdb::SystemClock::Default()) {}
  const char* Name() const override { return "HurriedClock"; }
  void SleepForMicroseconds(int /*micros*/) override { std::this_thread::yield(); }
};

class HurriedEnv final : public rocksdb::EnvWrapper {
 public:
  explicit HurriedEnv(std::unique_ptr<rocksdb::Env> env) : EnvWrapper(std::move(env)) {
    system_clock_ = std::make_shared<HurriedClock>();
  }
};

}  // namespace

bool Changes(DiskCall call) {
  switch (call) {
    case DiskCall::kCreate:
    case DiskCall::kAppend:
    case DiskCall::kOverwrite:
    case DiskCall::kSync:
    case DiskCall::kTruncate:
    case DiskCall::kClose:
    case DiskCall::kRename:
    case DiskCall::kDelete:
    case DiskCall::kSyncDirectory:
      return true;
    case DiskCall::kOpenForRead:
    case DiskCall::kRead:
    case DiskCall::kLookUp:
      return false;
  }
  return false;
}

class HostileDisk::FileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit FileSystem(std::shared_ptr<JudgedDisk> disk)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), disk_(std::move(disk)) {}

  const char* Name() const override { return "HostileDisk::FileSystem"; }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* file,
                           IODebugContext* debug) override {
    IOStatus status = disk_->Ask(DiskCall::kCreate, path).status;
    if (status.ok() && !disk_->unsynced().MakeWay(path)) status = IOStatus::IOError("not removed");
    if (status.ok()) status = FileSystemWrapper::NewWritableFile(path, options, file, debug);
    if (!status.ok()) return status;
    disk_->unsynced().Created(path);
    *file = std::make_unique<WritableFile>(std::move(*file), path, disk_);
    return status;
  }
  IOStatus ReopenWritableFile(const std::string&, const FileOptions&,
                              std::unique_ptr<rocksdb::FSWritableFile>*, IODebugContext*) override {
    return IOStatus::NotSupported("the engine does not do this");
  }
  IOStatus ReuseWritableFile(const std::string&, const std::string&, const FileOptions&,
                             std::unique_ptr<rocksdb::FSWritableFile>*, IODebugContext*) override {
    return IOStatus::NotSupported("the engine does not do this");
  }
  IOStatus LinkFile(const std::string&, const std::string&, const IOOptions&,
                    IODebugContext*) override {
    return IOStatus::NotSupported("the engine does not do this");
  }
  IOStatus Truncate(const std::string&, size_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::NotSupported("the engine does not do this");
  }
  IOStatus NewRandomRWFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSRandomRWFile>* file,
                           IODebugContext* debug) override {
    IOStatus status = disk_->Ask(DiskCall::kOpenForRead, path).status;
    if (status.ok()) status = FileSystemWrapper::NewRandomRWFile(path, options, file, debug);
    if (status.ok()) *file = std::make_unique<RandomRWFile>(std::move(*file), path, disk_);
    return status;
  }
  IOStatus NewRandomAccessFile(const std::string& path, const FileOptions& options,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                               IODebugContext* debug) override {
    IOStatus status = disk_->Ask(DiskCall::kOpenForRead, path).status;
    if (status.ok()) status = FileSystemWrapper::NewRandomAccessFile(path, options, file, debug);
    if (status.ok()) *file = std::make_unique<RandomAccessFile>(std::move(*file), path, disk_);
    return status;
  }
  IOStatus NewSequentialFile(const std::string& path, const FileOptions& options,
                             std::unique_ptr<rocksdb::FSSequentialFile>* file,
                             IODebugContext* debug) override {
    IOStatus status = disk_->Ask(DiskCall::kOpenForRead, path).status;
    if (status.ok()) status = FileSystemWrapper::NewSequentialFile(path, options, file, debug);
    if (status.ok()) *file = std::make_unique<SequentialFile>(std::move(*file), path, disk_);
    return status;
  }
  IOStatus NewDirectory(const std::string& path, const IOOptions& options,
                        std::unique_ptr<rocksdb::FSDirectory>* directory,
                        IODebugContext* debug) override {
    IOStatus status = disk_->Ask(DiskCall::kLookUp, path).status;
    if (status.ok()) status = FileSystemWrapper::NewDirectory(path, options, directory, debug);
    if (status.ok()) *directory = std::make_unique<Directory>(std::move(*directory), path, disk_);
    return status;
  }
  IOStatus CreateDirIfMissing(const std::string& path, const IOOptions& options,
                              IODebugContext* debug) override {
    IOStatus status = disk_->Ask(DiskCall::kCreate, path).status;
    return status.ok() ? FileSystemWrapper::CreateDirIfMissing(path, options, debug) : status;
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& /*options*/,
                      IODebugContext* /*debug*/) override {
    const DiskVerdict verdict = disk_->Ask(DiskCall::kRename, to);
    if (!verdict.status.ok() && !verdict.half_done) return verdict.status;
    if (!disk_->unsynced().Rename(from, to)) return IOStatus::IOError("not renamed", from);
    return verdict.status;
  }
  IOStatus DeleteFile(const std::string& path, const IOOptions& /*options*/,
                      IODebugContext* /*debug*/) override {
    const DiskVerdict verdict = disk_->Ask(DiskCall::kDelete, path);
    if (!verdict.status.ok() && !verdict.half_done) return verdict.status;
    if (!disk_->unsynced().Delete(path)) return IOStatus::PathNotFound(path);
    return verdict.status;
  }
  IOStatus FileExists(const std::string& path, const IOOptions& options,
                      IODebugContext* debug) override {
    IOStatus status = disk_->Ask(DiskCall::kLookUp, path).status;
    return status.ok() ? FileSystemWrapper::FileExists(path, options, debug) : status;
  }
  IOStatus GetChildren(const std::string& path, const IOOptions& options,
                       std::vector<std::string>* names, IODebugContext* debug) override {
    IOStatus status = disk_->Ask(DiskCall::kLookUp, path).status;
    return status.ok() ? FileSystemWrapper::GetChildren(path, options, names, debug) : status;
  }
  IOStatus GetFileSize(const std::string& path, const IOOptions& options, uint64_t* size,
                       IODebugContext* debug) override {
    IOStatus status = disk_->Ask(DiskCall::kLookUp, path).status;
    return status.ok() ? FileSystemWrapper::GetFileSize(path, options, size, debug) : status;
  }
  IOStatus LockFile(const std::string& path, const IOOptions& options, rocksdb::FileLock** lock,
                    IODebugContext* debug) override {
    IOStatus status = disk_->Ask(DiskCall::kLookUp, path).status;
    return status.ok() ? FileSystemWrapper::LockFile(path, options, lock, debug) : status;
  }

 private:
  const std::shared_ptr<JudgedDisk> disk_;
};

HostileDisk::HostileDisk(const std::string& directory)
    : directory_(directory),
      disk_(std::make_shared<JudgedDisk>(directory)),
      env_(std::make_unique<HurriedEnv>(
          rocksdb::NewCompositeEnv(std::make_shared<FileSystem>(disk_)))) {
  TakeOwnCalls(directory_, disk_);
}

HostileDisk::~HostileDisk() { LeaveOwnCalls(directory_); }

void HostileDisk::SetJudge(DiskJudge judge) { disk_->SetJudge(std::move(judge)); }

void HostileDisk::LieAboutSyncs(const std::string& suffix) { disk_->LieAboutSyncs(suffix); }

void HostileDisk::PowerFails(Random& random) { disk_->unsynced().PowerFails(random); }

}  // namespace idempotency::proof
