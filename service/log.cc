#include "service/log.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <mutex>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "service/text.h"
#include "spdlog/async.h"
#include "spdlog/async_logger.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/base_sink.h"

namespace idempotency::service {
namespace {

// A sink that takes nothing for so long has the line dropped.
constexpr int kSinkPatienceMs = 1000;

// Writes to a descriptor that somebody else may have left full or closed: never for longer than
// the patience, and only on the log's own thread.
class PatientSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit PatientSink(int fd) : fd_(fd) {}

  // From now on a sink that does not take a line at once gets no more.
  void Hurry() { hurry_.store(true, std::memory_order_relaxed); }
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }
  // Until the first flush, or no longer.
  void AwaitFlush() {
    finished_.WaitForNotificationWithTimeout(absl::Milliseconds(kSinkPatienceMs));
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    std::string_view rest(line.data(), line.size());
    // What is left of a line that was cut off must not run into this one.
    if (cut_off_ && !WriteAll("\n")) return Drop();
    cut_off_ = false;
    if (!WriteAll(rest)) Drop();
  }
  // On the log's own thread, when what was queued before is written.
  void flush_() override {
    if (!finished_.HasBeenNotified()) finished_.Notify();
  }

 private:
  void Drop() { dropped_.fetch_add(1, std::memory_order_relaxed); }

  bool Ready() {
    if (given_up_) return false;
    pollfd output{fd_, POLLOUT, 0};
    const bool hurry = hurry_.load(std::memory_order_relaxed);
    int ready = 0;
    do {
      ready = poll(&output, 1, hurry ? 0 : kSinkPatienceMs);
    } while (ready < 0 && errno == EINTR);
    if (ready <= 0 && hurry) given_up_ = true;
    return ready > 0 && (output.revents & POLLOUT) != 0;
  }

  // Not more than a pipe that is ready takes without blocking.
  bool WriteAll(std::string_view text) {
    while (!text.empty()) {
      if (!Ready()) return false;
      const ssize_t written = write(fd_, text.data(), std::min<size_t>(text.size(), PIPE_BUF));
      if (written < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (written < 0) return false;
      text.remove_prefix(static_cast<size_t>(written));
      cut_off_ = !text.empty();
    }
    return true;
  }

  const int fd_;
  std::atomic<bool> hurry_{false};
  std::atomic<uint64_t> dropped_{0};
  absl::Notification finished_;
  bool given_up_ = false;
  bool cut_off_ = false;
};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

struct AppendValue {
  std::string* out;
  void operator()(std::string_view text) const { AppendJsonString(text, out); }
  void operator()(int64_t number) const { out->append(std::to_string(number)); }
  void operator()(bool truth) const { out->append(truth ? "true" : "false"); }
};

void AppendFields(std::initializer_list<LogField> fields, std::string* out) {
  for (const LogField& field : fields) {
    const auto* text = std::get_if<std::string_view>(&field.value);
    if (text != nullptr && text->empty()) continue;
    out->append(",\"").append(field.name).append("\":");
    std::visit(AppendValue{out}, field.value);
  }
}

// Bytes of the UTF-8 character at the start of `text`; 0 where there is none.
size_t CharacterAt(std::string_view text) {
  for (size_t bytes = 1; bytes <= std::min<size_t>(4, text.size()); ++bytes) {
    if (FindTextFault(text.substr(0, bytes)) != TextFault::kNotUtf8) return bytes;
  }
  return 0;
}

bool IsHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

class Log::Impl {
 public:
  explicit Impl(const Options& options)
      : sink_(std::make_shared<PatientSink>(options.fd)),
        pool_(std::make_shared<spdlog::details::thread_pool>(options.max_queued_lines, 1)),
        logger_(std::make_shared<spdlog::async_logger>(
            "idempotencyd", sink_, pool_, spdlog::async_overflow_policy::overrun_oldest)) {
    logger_->set_level(ToSpdlog(options.level));
    logger_->set_formatter(std::make_unique<spdlog::pattern_formatter>(
        R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","event":%v})",
        spdlog::pattern_time_type::utc, "\n"));
  }

  ~Impl() {
    sink_->Hurry();
    logger_.reset();
    pool_.reset();
  }

  bool Enabled(LogLevel level) const { return logger_->should_log(ToSpdlog(level)); }
  void Write(LogLevel level, std::string_view line) {
    logger_->log(ToSpdlog(level), spdlog::string_view_t(line.data(), line.size()));
  }
  uint64_t dropped() const { return sink_->dropped() + pool_->overrun_counter(); }
  void Finish() {
    sink_->Hurry();
    logger_->flush();
    sink_->AwaitFlush();
  }

 private:
  std::shared_ptr<PatientSink> sink_;
  std::shared_ptr<spdlog::details::thread_pool> pool_;
  std::shared_ptr<spdlog::async_logger> logger_;
};

Log::Log(Options options) : impl_(std::make_unique<Impl>(options)) {}
Log::~Log() = default;

bool Log::Enabled(LogLevel level) const { return impl_->Enabled(level); }

void Log::Write(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  if (!Enabled(level)) return;
  std::string line;
  AppendJsonString(event, &line);
  AppendFields(fields, &line);
  impl_->Write(level, line);
}

uint64_t Log::dropped() const { return impl_->dropped(); }

void Log::Finish() { impl_->Finish(); }

std::optional<LogLevel> ParseLogLevel(std::string_view name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "info") return LogLevel::kInfo;
  if (name == "warning") return LogLevel::kWarning;
  if (name == "error") return LogLevel::kError;
  return std::nullopt;
}

void AppendJsonString(std::string_view text, std::string* out) {
  constexpr char kHex[] = "0123456789abcdef";
  out->push_back('"');
  while (!text.empty()) {
    const size_t bytes = CharacterAt(text);
    const auto lead = static_cast<unsigned char>(text.front());
    if (bytes == 0) {
      out->append("\\ufffd");
    } else if (lead < 0x20 || lead == 0x7F) {
      out->append("\\u00").append({kHex[lead >> 4], kHex[lead & 0xF]});
    } else {
      if (lead == '"' || lead == '\\') out->push_back('\\');
      out->append(text.substr(0, bytes));
    }
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  out->push_back('"');
}

std::string_view WithoutMetadataValue(std::string_view grpc_line) {
  constexpr std::string_view kValue = " value=";
  return grpc_line.substr(0, grpc_line.find(kValue));
}

std::string_view TraceIdOf(std::string_view traceparent) {
  // version "-" trace-id "-" parent-id "-" flags, in lower-case hexadecimal digits.
  constexpr size_t kTraceIdAt = 3;
  constexpr size_t kTraceIdDigits = 32;
  constexpr size_t kShortest = 55;
  if (traceparent.size() < kShortest || traceparent[2] != '-' || traceparent[35] != '-') return {};
  const std::string_view trace_id = traceparent.substr(kTraceIdAt, kTraceIdDigits);
  return IsHex(trace_id) ? trace_id : std::string_view();
}

}  // namespace idempotency::service
