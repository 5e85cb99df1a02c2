#include "keystore/engine/rocksdb_logger.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace idempotency::keystore {
namespace {

// Longer lines are cut.
constexpr size_t kMaxLineBytes = 2048;

int LevelOf(rocksdb::InfoLogLevel level) {
  switch (level) {
    case rocksdb::InfoLogLevel::WARN_LEVEL:
      return kLogWarning;
    case rocksdb::InfoLogLevel::ERROR_LEVEL:
    case rocksdb::InfoLogLevel::FATAL_LEVEL:
      return kLogError;
    case rocksdb::InfoLogLevel::DEBUG_LEVEL:
    case rocksdb::InfoLogLevel::INFO_LEVEL:
    case rocksdb::InfoLogLevel::HEADER_LEVEL:
    case rocksdb::InfoLogLevel::NUM_INFO_LOG_LEVELS:
      return kLogDebug;
  }
  return kLogDebug;
}

}  // namespace

void RocksDbLogger::Logv(rocksdb::InfoLogLevel level, const char* format, va_list arguments) {
  if (level >= GetInfoLogLevel()) Forward(LevelOf(level), format, arguments);
}

void RocksDbLogger::Logv(const char* format, va_list arguments) {
  Forward(kLogDebug, format, arguments);
}

void RocksDbLogger::LogHeader(const char* format, va_list arguments) {
  Forward(kLogDebug, format, arguments);
}

void RocksDbLogger::Forward(int level, const char* format, va_list arguments) {
  char buffer[kMaxLineBytes];
  const int length = std::vsnprintf(buffer, sizeof(buffer), format, arguments);
  if (length < 0) return;
  std::string_view line(buffer, std::min(static_cast<size_t>(length), sizeof(buffer) - 1));
  while (!line.empty() && line.back() == '\n') line.remove_suffix(1);
  std::string prefixed("rocksdb: ");
  prefixed.append(line);
  log_(level, prefixed);
}

}  // namespace idempotency::keystore
