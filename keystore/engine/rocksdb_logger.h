// RocksDB's log lines, handed on. Every use of RocksDB sets one: the default logger writes a
// file of its own, and Debian's build aborts when that file cannot be written.
//
// Thread safety: RocksDB logs from any of its threads.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_LOGGER_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_LOGGER_H_

#include <rocksdb/env.h>

#include <cstdarg>
#include <utility>

#include "keystore/engine/engine_log.h"

namespace idempotency::keystore {

class RocksDbLogger final : public rocksdb::Logger {
 public:
  explicit RocksDbLogger(LogFunction log)
      : rocksdb::Logger(rocksdb::InfoLogLevel::INFO_LEVEL), log_(std::move(log)) {}
  ~RocksDbLogger() override { Close().PermitUncheckedError(); }

  // What RocksDB calls information is detail to whoever operates the service: level debug.
  void Logv(rocksdb::InfoLogLevel level, const char* format, va_list arguments) override;
  void Logv(const char* format, va_list arguments) override;
  void LogHeader(const char* format, va_list arguments) override;

 protected:
  rocksdb::Status CloseImpl() override { return rocksdb::Status::OK(); }

 private:
  void Forward(int level, const char* format, va_list arguments);

  const LogFunction log_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_ROCKSDB_LOGGER_H_
