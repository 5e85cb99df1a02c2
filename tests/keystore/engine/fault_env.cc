#include "tests/keystore/engine/fault_env.h"

#include <rocksdb/file_system.h>

#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"

namespace idempotency::keystore {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

constexpr char kLogSuffix[] = ".log";

// What is wrong at the moment, and how much of each log is synced.
class Faults {
 public:
  void Set(Fault fault, std::string suffix) {
    absl::MutexLock lock(&mutex_);
    fault_ = fault;
    suffix_ = std::move(suffix);
  }

  IOStatus OnWrite(const std::string& file) {
    absl::MutexLock lock(&mutex_);
    const auto may_write = [&] {
      mutex_.AssertHeld();
      return !Strikes(Fault::kWritesWait, file);
    };
    mutex_.Await(absl::Condition(&may_write));
    return Strikes(Fault::kNoSpace, file) ? IOStatus::NoSpace("planted") : IOStatus::OK();
  }

  IOStatus OnSync(const std::string& file) {
    absl::MutexLock lock(&mutex_);
    return Strikes(Fault::kSyncFails, file) ? IOStatus::IOError("planted") : IOStatus::OK();
  }

  IOStatus OnRead(const std::string& file) {
    absl::MutexLock lock(&mutex_);
    return Strikes(Fault::kReadFails, file) ? IOStatus::IOError("planted") : IOStatus::OK();
  }

  void Synced(const std::string& file, uint64_t bytes) {
    absl::MutexLock lock(&mutex_);
    synced_bytes_[file] = bytes;
  }

  void DropUnsynced() {
    absl::MutexLock lock(&mutex_);
    for (const auto& [file, bytes] : synced_bytes_) {
      std::error_code gone;
      if (std::filesystem::exists(file, gone)) std::filesystem::resize_file(file, bytes);
    }
  }

 private:
  bool Strikes(Fault fault, const std::string& file) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return fault_ == fault && absl::EndsWith(file, suffix_);
  }

  absl::Mutex mutex_;
  Fault fault_ ABSL_GUARDED_BY(mutex_) = Fault::kNone;
  std::string suffix_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, uint64_t> synced_bytes_ ABSL_GUARDED_BY(mutex_);
};

class FaultyWritableFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  FaultyWritableFile(std::unique_ptr<rocksdb::FSWritableFile> file, std::string name,
                     std::shared_ptr<Faults> faults)
      : FSWritableFileOwnerWrapper(std::move(file)),
        name_(std::move(name)),
        faults_(std::move(faults)) {
    if (is_log()) faults_->Synced(name_, 0);
  }

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* debug) override {
    IOStatus status = faults_->OnWrite(name_);
    if (status.ok()) status = FSWritableFileOwnerWrapper::Append(data, options, debug);
    if (status.ok()) bytes_ += data.size();
    return status;
  }

  IOStatus Append(const Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& /*verification*/,
                  IODebugContext* debug) override {
    return Append(data, options, debug);
  }

  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    IOStatus status = faults_->OnSync(name_);
    if (status.ok()) status = FSWritableFileOwnerWrapper::Sync(options, debug);
    if (status.ok() && is_log()) faults_->Synced(name_, bytes_);
    return status;
  }

  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Sync(options, debug);
  }

 private:
  bool is_log() const { return absl::EndsWith(name_, kLogSuffix); }

  const std::string name_;
  const std::shared_ptr<Faults> faults_;
  uint64_t bytes_ = 0;
};

class FaultyReadFile final : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  FaultyReadFile(std::unique_ptr<rocksdb::FSRandomAccessFile> file, std::string name,
                 std::shared_ptr<Faults> faults)
      : FSRandomAccessFileOwnerWrapper(std::move(file)),
        name_(std::move(name)),
        faults_(std::move(faults)) {}

  IOStatus Read(uint64_t offset, size_t size, const IOOptions& options, Slice* result,
                char* scratch, IODebugContext* debug) const override {
    IOStatus status = faults_->OnRead(name_);
    if (!status.ok()) return status;
    return FSRandomAccessFileOwnerWrapper::Read(offset, size, options, result, scratch, debug);
  }

  IOStatus MultiRead(rocksdb::FSReadRequest* requests, size_t count, const IOOptions& options,
                     IODebugContext* debug) override {
    const IOStatus status = faults_->OnRead(name_);
    if (status.ok()) {
      return FSRandomAccessFileOwnerWrapper::MultiRead(requests, count, options, debug);
    }
    for (size_t i = 0; i < count; ++i) requests[i].status = status;
    return status;
  }

 private:
  const std::string name_;
  const std::shared_ptr<Faults> faults_;
};

}  // namespace

class FaultEnv::FileSystem final : public rocksdb::FileSystemWrapper {
 public:
  FileSystem() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}

  const char* Name() const override { return "FaultEnv::FileSystem"; }
  Faults& faults() { return *faults_; }

  IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* file,
                           IODebugContext* debug) override {
    IOStatus status = FileSystemWrapper::NewWritableFile(name, options, file, debug);
    if (status.ok()) {
      *file = std::make_unique<FaultyWritableFile>(std::move(*file), name, faults_);
    }
    return status;
  }

  IOStatus NewRandomAccessFile(const std::string& name, const rocksdb::FileOptions& options,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                               IODebugContext* debug) override {
    IOStatus status = FileSystemWrapper::NewRandomAccessFile(name, options, file, debug);
    if (status.ok()) *file = std::make_unique<FaultyReadFile>(std::move(*file), name, faults_);
    return status;
  }

 private:
  const std::shared_ptr<Faults> faults_ = std::make_shared<Faults>();
};

FaultEnv::FaultEnv()
    : file_system_(std::make_shared<FileSystem>()), env_(rocksdb::NewCompositeEnv(file_system_)) {}

FaultEnv::~FaultEnv() = default;

void FaultEnv::Set(Fault fault, std::string suffix) {
  file_system_->faults().Set(fault, std::move(suffix));
}

void FaultEnv::DropUnsynced() { file_system_->faults().DropUnsynced(); }

}  // namespace idempotency::keystore
