// The service's log: one JSON object a line.
//
//   Log log({.level = LogLevel::kInfo});
//   log.Write(LogLevel::kInfo, "started", {{"port", 7420}, {"engine", "rocksdb"}});
//   -> {"time":"2026-01-31T12:00:00.000Z","level":"info","event":"started","port":7420,...}
//
// Writing is asynchronous and bounded: where the sink is slow, closed or stuck the oldest lines
// are dropped and counted, and no caller ever waits. Bodies, progress, credentials and keys are
// never given to it.
//
// Thread safety: all methods may be called from any thread.
#ifndef IDEMPOTENCY_SERVICE_LOG_H_
#define IDEMPOTENCY_SERVICE_LOG_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

namespace idempotency::service {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError };

// "debug", "info", "warning" or "error".
std::optional<LogLevel> ParseLogLevel(std::string_view name);

// A name and a text, a number or a truth value. An empty text leaves the field out.
struct LogField {
  LogField(std::string_view field_name, std::string_view text) : name(field_name), value(text) {}
  LogField(std::string_view field_name, const char* text)
      : name(field_name), value(std::string_view(text)) {}
  LogField(std::string_view field_name, const std::string& text)
      : name(field_name), value(std::string_view(text)) {}
  template <typename Number, typename = std::enable_if_t<std::is_integral_v<Number>>>
  LogField(std::string_view field_name, Number number) : name(field_name) {
    if constexpr (std::is_same_v<Number, bool>) {
      value = number;
    } else {
      value = static_cast<int64_t>(number);
    }
  }

  std::string_view name;  // plain ASCII
  std::variant<std::string_view, int64_t, bool> value;
};

class Log {
 public:
  struct Options {
    LogLevel level = LogLevel::kInfo;
    int fd = 2;  // not owned
    size_t max_queued_lines = 8192;
  };

  explicit Log(Options options);
  // Writes what is queued, as far as the sink takes it at once.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  bool Enabled(LogLevel level) const;
  void Write(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});

  // Writes what is queued, as far as the sink takes it at once, for where the process ends without
  // destroying this.
  void Finish();

  // Lines that were lost because the sink did not take them.
  uint64_t dropped() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Appends `text` as a JSON string with its quotes; what is not UTF-8 becomes U+FFFD.
void AppendJsonString(std::string_view text, std::string* out);

// What of a line of gRPC's own may be logged: not the value of a caller's metadata, which it
// repeats where it cannot parse it.
std::string_view WithoutMetadataValue(std::string_view grpc_line);

// The trace id of a W3C traceparent; empty where it is not one.
std::string_view TraceIdOf(std::string_view traceparent);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_LOG_H_
