#include "keystore/engine/log_ahead.h"

#include <rocksdb/file_system.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace idempotency::keystore {
namespace {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

constexpr uint64_t kPageBytes = 4096;

// 000012.log: RocksDB's own log, LOG, is another.
bool IsLog(std::string_view path) {
  constexpr std::string_view kSuffix = ".log";
  std::string_view name = path.substr(path.rfind('/') + 1);
  if (name.size() <= kSuffix.size() || name.substr(name.size() - kSuffix.size()) != kSuffix) {
    return false;
  }
  name.remove_suffix(kSuffix.size());
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; });
}

// The clock of the one below, and its files through ours.
class EnvAbove final : public rocksdb::EnvWrapper {
 public:
  EnvAbove(rocksdb::Env& below, const std::shared_ptr<rocksdb::FileSystem>& files)
      : EnvWrapper(rocksdb::NewCompositeEnv(files)) {
    file_system_ = files;
    system_clock_ = below.GetSystemClock();
  }
};

}  // namespace

// Which logs are open, and who writes where in them.
class LogAhead::Zeros {
 public:
  // One log. `handle` is the thread's while a piece is under way; the rest is guarded by mutex_.
  struct Log {
    std::string path;
    std::unique_ptr<rocksdb::FSRandomRWFile> handle;
    uint64_t written = 0;
    uint64_t claimed = 0;  // from the beginning; the writer alone moves it
    uint64_t zeroed = 0;   // there are none behind this
    uint64_t piece_begin = 0;
    uint64_t piece_end = 0;  // the same: none is under way
    bool hungry = false;
    bool given_up = false;

    bool has_piece() const { return piece_begin != piece_end; }
  };

  explicit Zeros(LogAheadOptions options)
      : options_(std::move(options)),
        piece_bytes_(std::clamp(options_.bytes / 2, kPageBytes, kZeroPieceBytes)),
        thread_([this] { Run(); }) {}

  ~Zeros() {
    {
      absl::MutexLock lock(&mutex_);
      closing_ = true;
    }
    thread_.join();
  }

  std::shared_ptr<Log> Open(const std::string& path,
                            std::unique_ptr<rocksdb::FSRandomRWFile> handle)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    auto log = std::make_shared<Log>();
    log->path = path;
    log->handle = std::move(handle);
    absl::MutexLock lock(&mutex_);
    logs_[path] = log;
    return log;
  }

  // A new log begins, and nothing is written to the older ones any more. Every zero in them is
  // synced when this returns: what a power cut made of one that is not would be damage in a log
  // that others follow.
  void LeaveAll() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    for (const auto& [path, log] : logs_) {
      log->given_up = true;
      log->hungry = false;
    }
    const auto all_idle = [this] {
      mutex_.AssertHeld();
      return std::none_of(logs_.begin(), logs_.end(),
                          [](const auto& entry) { return entry.second->has_piece(); });
    };
    mutex_.Await(absl::Condition(&all_idle));
  }

  // The next `bytes` are the writer's, once this returns.
  void Claim(Log& log, uint64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    log.claimed += bytes;
    if (!log.given_up && log.zeroed < log.claimed + options_.bytes / 2) log.hungry = true;
    const auto is_free = [&log] { return !log.has_piece() || log.piece_begin >= log.claimed; };
    mutex_.Await(absl::Condition(&is_free));
  }

  // Of what was claimed. What could not be written in full may be there in part: nothing is
  // written behind it.
  void Wrote(Log& log, uint64_t bytes, bool ok) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (ok) {
      log.written += bytes;
    } else {
      log.given_up = true;
      log.hungry = false;
    }
  }

  uint64_t WrittenOf(const Log& log) const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return log.written;
  }

  // Of a log that is open.
  std::optional<uint64_t> WrittenAt(const std::string& path) const ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    const auto log = logs_.find(path);
    if (log == logs_.end()) return std::nullopt;
    return log->second->written;
  }

  // No zero is written from here on. What the log is to be cut to; nullopt where it is as it would
  // be without zeros, or a write has failed, so that it stays as a crash leaves it.
  std::optional<uint64_t> Stop(Log& log) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    log.given_up = true;
    log.hungry = false;
    const auto is_idle = [&log] { return !log.has_piece(); };
    mutex_.Await(absl::Condition(&is_idle));
    const auto open = logs_.find(log.path);
    if (open != logs_.end() && open->second.get() == &log) logs_.erase(open);
    if (log.handle != nullptr) log.handle->Close(IOOptions(), nullptr).PermitUncheckedError();
    log.handle = nullptr;
    if (log.zeroed <= log.written || log.claimed != log.written) return std::nullopt;
    return log.written;
  }

  // Once, since whatever it is, it will be so again.
  void Complain(std::string_view why) ABSL_LOCKS_EXCLUDED(mutex_) {
    {
      absl::MutexLock lock(&mutex_);
      if (std::exchange(complained_, true) || !options_.log) return;
    }
    options_.log(kLogWarning,
                 absl::StrCat("no zeros ahead of the store's log, whose syncs take longer without "
                              "them: ",
                              std::string(why)));
  }

 private:
  void Run() {
    const std::string zeros(piece_bytes_, '\0');
    while (const std::shared_ptr<Log> log = NextPiece()) EndPiece(*log, WritePiece(*log, zeros));
  }

  std::shared_ptr<Log> Hungry() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto hungry = std::find_if(logs_.begin(), logs_.end(),
                                     [](const auto& entry) { return entry.second->hungry; });
    return hungry == logs_.end() ? nullptr : hungry->second;
  }

  // Waits for it; null: it is over.
  std::shared_ptr<Log> NextPiece() ABSL_LOCKS_EXCLUDED(mutex_) {
    const auto is_due = [this] {
      mutex_.AssertHeld();
      return closing_ || Hungry() != nullptr;
    };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&is_due));
    if (closing_) return nullptr;
    std::shared_ptr<Log> log = Hungry();
    log->piece_begin = std::max(log->zeroed, log->claimed);
    log->piece_end = (log->piece_begin + piece_bytes_) / kPageBytes * kPageBytes;
    return log;
  }

  IOStatus WritePiece(Log& log, const std::string& zeros) {
    if (options_.has_room && !options_.has_room()) return IOStatus::NoSpace("there is little room");
    const Slice piece(zeros.data(), log.piece_end - log.piece_begin);
    IOStatus status = log.handle->Write(log.piece_begin, piece, IOOptions(), nullptr);
    if (status.ok()) status = log.handle->Sync(IOOptions(), nullptr);
    return status;
  }

  void EndPiece(Log& log, const IOStatus& status) ABSL_LOCKS_EXCLUDED(mutex_) {
    if (!status.ok()) Complain(status.ToString());
    absl::MutexLock lock(&mutex_);
    // Also where it failed: some of it may be there.
    log.zeroed = log.piece_end;
    log.piece_begin = log.piece_end;
    if (!status.ok()) log.given_up = true;
    if (log.given_up || log.zeroed >= log.claimed + options_.bytes) log.hungry = false;
  }

  const LogAheadOptions options_;
  const uint64_t piece_bytes_;
  mutable absl::Mutex mutex_;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool complained_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, std::shared_ptr<Log>> logs_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses all of the above
};

// A log as RocksDB writes it.
class LogAhead::File final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  File(std::unique_ptr<rocksdb::FSWritableFile> file, std::shared_ptr<Zeros> zeros,
       std::shared_ptr<Zeros::Log> log)
      : FSWritableFileOwnerWrapper(std::move(file)),
        zeros_(std::move(zeros)),
        log_(std::move(log)) {}
  ~File() override { zeros_->Stop(*log_); }

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* debug) override {
    zeros_->Claim(*log_, data.size());
    return Wrote(data, target()->Append(data, options, debug));
  }
  IOStatus Append(const Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& verification,
                  IODebugContext* debug) override {
    zeros_->Claim(*log_, data.size());
    return Wrote(data, target()->Append(data, options, verification, debug));
  }
  IOStatus PositionedAppend(const Slice&, uint64_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::NotSupported("a log is appended to");
  }
  IOStatus PositionedAppend(const Slice&, uint64_t, const IOOptions&,
                            const rocksdb::DataVerificationInfo&, IODebugContext*) override {
    return IOStatus::NotSupported("a log is appended to");
  }
  // RocksDB writes nothing behind it.
  IOStatus Truncate(uint64_t size, const IOOptions& options, IODebugContext* debug) override {
    zeros_->Stop(*log_);
    return target()->Truncate(size, options, debug);
  }
  IOStatus Close(const IOOptions& options, IODebugContext* debug) override {
    if (const std::optional<uint64_t> size = zeros_->Stop(*log_); size.has_value()) {
      const IOStatus cut = target()->Truncate(*size, options, debug);
      // As after a crash, then.
      if (!cut.ok()) zeros_->Complain(cut.ToString());
    }
    return target()->Close(options, debug);
  }
  uint64_t GetFileSize(const IOOptions& /*options*/, IODebugContext* /*debug*/) override {
    return zeros_->WrittenOf(*log_);
  }
  // The wrapper keeps these two to itself.
  void SetIOPriority(rocksdb::Env::IOPriority priority) override {
    target()->SetIOPriority(priority);
  }
  rocksdb::Env::IOPriority GetIOPriority() override { return target()->GetIOPriority(); }

 private:
  IOStatus Wrote(const Slice& data, IOStatus status) {
    zeros_->Wrote(*log_, data.size(), status.ok());
    return status;
  }

  const std::shared_ptr<Zeros> zeros_;
  const std::shared_ptr<Zeros::Log> log_;
};

class LogAhead::FileSystem final : public rocksdb::FileSystemWrapper {
 public:
  FileSystem(const std::shared_ptr<rocksdb::FileSystem>& below, std::shared_ptr<Zeros> zeros)
      : FileSystemWrapper(below), zeros_(std::move(zeros)) {}

  const char* Name() const override { return "idempotency.LogAhead"; }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* file,
                           IODebugContext* debug) override {
    if (!IsLog(path)) return target()->NewWritableFile(path, options, file, debug);
    zeros_->LeaveAll();
    IOStatus status = target()->NewWritableFile(path, options, file, debug);
    if (!status.ok() || (*file)->use_direct_io()) return status;
    std::unique_ptr<rocksdb::FSRandomRWFile> handle;
    const IOStatus opened = target()->NewRandomRWFile(path, options, &handle, debug);
    if (opened.ok()) {
      *file =
          std::make_unique<File>(std::move(*file), zeros_, zeros_->Open(path, std::move(handle)));
    } else {
      zeros_->Complain(opened.ToString());
    }
    return status;
  }
  IOStatus GetFileSize(const std::string& path, const IOOptions& options, uint64_t* size,
                       IODebugContext* debug) override {
    const std::optional<uint64_t> written = zeros_->WrittenAt(path);
    if (!written.has_value()) return target()->GetFileSize(path, options, size, debug);
    *size = *written;
    return IOStatus::OK();
  }

 private:
  const std::shared_ptr<Zeros> zeros_;
};

LogAhead::LogAhead(rocksdb::Env* below, LogAheadOptions options)
    : zeros_(std::make_shared<Zeros>(std::move(options))),
      env_(std::make_unique<EnvAbove>(
          *below, std::make_shared<FileSystem>(below->GetFileSystem(), zeros_))) {}

LogAhead::~LogAhead() = default;

}  // namespace idempotency::keystore
