// The directory of a durable store: made if it is missing, looked over, and locked against a
// second process (and a second engine in this one) for as long as this object lives.
//
//   LOCK               held while the store is open
//   db/                RocksDB's own; db.lost-N: what was there before a loss was accepted
//   epoch-a, epoch-b   epoch_files.h
//   WATERMARK          watermark.h
//   ballast            ballast.h
//   CLOCK              the high-water mark of the service's clock; not looked at here
//
// Thread safety: immutable once open.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_DATA_DIRECTORY_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_DATA_DIRECTORY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace idempotency::keystore {

class DataDirectory {
 public:
  // FAILED_PRECONDITION where it is locked, has no parent, is no directory, or holds somebody
  // else's files; then nothing in it was changed. UNAVAILABLE for I/O errors.
  static absl::StatusOr<std::unique_ptr<DataDirectory>> Open(const std::string& path);
  ~DataDirectory();
  DataDirectory(const DataDirectory&) = delete;
  DataDirectory& operator=(const DataDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string db_path() const { return path_ + "/db"; }
  std::string watermark_path() const { return path_ + "/WATERMARK"; }
  std::string ballast_path() const { return path_ + "/ballast"; }
  // A RocksDB has been created in db_path().
  bool HasDb() const;

 private:
  DataDirectory(std::string path, int lock_fd) : path_(std::move(path)), lock_fd_(lock_fd) {}

  const std::string path_;
  const int lock_fd_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_DATA_DIRECTORY_H_
