#include "service/audit_log.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "openssl/sha.h"
#include "service/key_check.h"

namespace idempotency::service {
namespace {

// A sink that takes nothing for so long has failed.
constexpr int kSinkPatienceMs = 1000;
constexpr mode_t kFileMode = 0640;
constexpr std::string_view kEnded = "act_ended";

std::string FormatTime(core::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ",
                          absl::FromUnixMillis(time.time_since_epoch().count()),
                          absl::UTCTimeZone());
}

void AppendField(std::string_view name, std::string_view text, std::string* line) {
  if (text.empty()) return;
  line->append(",\"").append(name).append("\":");
  AppendJsonString(text, line);
}

// What a caller has chosen: told by its digest where it may be what belongs into no file. Whoever
// knows the text can still find it.
void AppendChosen(std::string_view name, std::string_view text, std::string* line) {
  const std::string_view looks_like = LooksSensitive(text);
  if (looks_like.empty()) return AppendField(name, text, line);
  AppendField(name,
              absl::StrCat("withheld: looks like ",
                           absl::string_view(looks_like.data(), looks_like.size())),
              line);
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  AppendField(std::string(name) + "_sha256",
              absl::BytesToHexString({reinterpret_cast<char*>(digest), sizeof(digest)}), line);
}

}  // namespace

// A descriptor to append to. Thread safety: none.
class AuditLog::Sink {
 public:
  static absl::StatusOr<std::unique_ptr<Sink>> Open(const std::string& path) {
    if (path == kStderr) return std::unique_ptr<Sink>(new Sink(STDERR_FILENO, false));
    const int fd =
        open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, kFileMode);
    if (fd < 0) {
      return absl::UnavailableError(absl::StrCat(
          "--audit_log=", path, " cannot be opened (", std::string(strerrordesc_np(errno)),
          "); name a file that this process may append to, or ", kStderr, "."));
    }
    return std::unique_ptr<Sink>(new Sink(fd, true));
  }

  ~Sink() {
    if (owned_) close(fd_);
  }
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  // False: not all of it is there, or none. `durable`: it has to survive the machine's end.
  bool Write(std::string_view text, bool durable) {
    // What is left of a line that was cut off must not run into this one.
    if (cut_off_ && !WriteAll("\n")) return false;
    cut_off_ = false;
    if (!WriteAll(text)) return false;
    return !durable || !is_file_ || fdatasync(fd_) == 0;
  }

 private:
  Sink(int fd, bool owned) : fd_(fd), owned_(owned) {
    struct stat status {};
    is_file_ = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  }

  bool Ready() const {
    pollfd output{fd_, POLLOUT, 0};
    int ready = 0;
    do {
      ready = poll(&output, 1, kSinkPatienceMs);
    } while (ready < 0 && errno == EINTR);
    return ready > 0 && (output.revents & POLLOUT) != 0;
  }

  // Of a pipe not more at once than it takes without blocking.
  bool WriteAll(std::string_view text) {
    while (!text.empty()) {
      if (!Ready()) return false;
      const size_t size = is_file_ ? text.size() : std::min<size_t>(text.size(), PIPE_BUF);
      const ssize_t written = write(fd_, text.data(), size);
      if (written < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (written < 0) return false;
      text.remove_prefix(static_cast<size_t>(written));
      cut_off_ = !text.empty();
    }
    return true;
  }

  const int fd_;
  const bool owned_;
  bool is_file_ = false;
  bool cut_off_ = false;
};

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(Options options) {
  absl::StatusOr<std::unique_ptr<Sink>> sink = Sink::Open(options.path);
  if (!sink.ok()) return sink.status();
  return std::unique_ptr<AuditLog>(new AuditLog(std::move(options), *std::move(sink)));
}

AuditLog::AuditLog(Options options, std::unique_ptr<Sink> sink)
    : options_(std::move(options)),
      run_(absl::StrCat(options_.now().time_since_epoch().count())),
      sink_(std::move(sink)),
      // Room for every act that may be open.
      carrier_(std::make_unique<Worker>(kMaxAuditedActs)),
      thread_([this] { Loop(); }) {}

AuditLog::~AuditLog() {
  {
    absl::MutexLock lock(&mutex_);
    QueueUntold(true);
    stopping_ = true;
  }
  thread_.join();
  carrier_.reset();
}

std::string AuditLog::TextOf(std::string_view kind, std::string_view id, const AuditEntry& entry,
                             std::string_view result, uint64_t count) const {
  std::string line = "{\"time\":\"" + FormatTime(options_.now()) + "\"";
  AppendField("audit", kind, &line);
  AppendField("id", id, &line);
  AppendField("action", entry.action, &line);
  AppendField("who", entry.who, &line);
  AppendField("peer", entry.peer, &line);
  AppendChosen("namespace", entry.name_space, &line);
  AppendChosen("scope", entry.scope, &line);
  AppendChosen("key", entry.key, &line);
  AppendChosen("actor", entry.actor, &line);
  AppendChosen("reason", entry.reason, &line);
  // What the process itself was asked for has no caller, and is a path more often than not.
  if (kind == kEnded) {
    AppendChosen("detail", entry.detail, &line);
  } else {
    AppendField("detail", entry.detail, &line);
  }
  AppendField("trace_id", entry.trace_id, &line);
  AppendField("result", result, &line);
  if (count > 0) absl::StrAppend(&line, ",\"count\":", count);
  return line + "}\n";
}

void AuditLog::Begin(const AuditEntry& entry, Then then) {
  {
    absl::MutexLock lock(&mutex_);
    if (!stopping_ && acts_open_ < kMaxAuditedActs) {
      ++acts_open_;
      Act act{absl::StrCat(run_, "-", ++acts_), std::string(entry.action), std::string(entry.who)};
      std::string text = TextOf("act", act.id, entry, "begins");
      return Queue({AuditLine::kAct, std::move(text), std::move(act), std::move(then)});
    }
  }
  options_.metrics->OnAudit(AuditLine::kAct, false);
  std::move(then)(std::nullopt);
}

std::optional<AuditLog::Act> AuditLog::BeginAndWait(const AuditEntry& entry) {
  std::optional<Act> begun;
  absl::Notification done;
  Begin(entry, [&](std::optional<Act> act) {
    begun = std::move(act);
    done.Notify();
  });
  done.WaitForNotification();
  return begun;
}

void AuditLog::End(const Act& act, std::string_view result, std::string_view detail) {
  AuditEntry entry;
  entry.action = act.action;
  entry.who = act.who;
  entry.detail = detail;
  absl::MutexLock lock(&mutex_);
  Queue({AuditLine::kResult, TextOf(kEnded, act.id, entry, result)});
}

void AuditLog::Deny(const AuditEntry& entry, std::string_view result) {
  const DenialStory story{std::string(entry.who), std::string(entry.action),
                          std::string(entry.name_space)};
  absl::MutexLock lock(&mutex_);
  if (!denials_.Admit(story, options_.now())) return;
  Queue({AuditLine::kDenial, TextOf("denial", {}, entry, result)});
}

void AuditLog::TellUntold() {
  absl::MutexLock lock(&mutex_);
  QueueUntold(false);
}

void AuditLog::QueueUntold(bool anyhow) {
  for (const UntoldDenials& untold : denials_.TakeUntold(options_.now(), anyhow)) {
    AuditEntry entry;
    entry.action = untold.story.action;
    entry.who = untold.story.who;
    entry.name_space = untold.story.name_space;
    Queue({AuditLine::kDenial, TextOf("denials_counted", {}, entry, {}, untold.count)});
  }
}

void AuditLog::Queue(Line line) {
  // Acts have a bound of their own.
  if (line.kind != AuditLine::kAct && queue_.size() >= kMaxQueuedAuditLines) {
    return options_.metrics->OnAudit(line.kind, false);
  }
  queue_.push_back(std::move(line));
}

absl::Status AuditLog::Reopen() {
  if (options_.path == kStderr) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<Sink>> sink = Sink::Open(options_.path);
  if (!sink.ok()) return sink.status();
  absl::MutexLock lock(&sink_mutex_);
  sink_ = *std::move(sink);
  return absl::OkStatus();
}

void AuditLog::Flush() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &AuditLog::IsWritten));
}

void AuditLog::Loop() {
  for (;;) {
    std::vector<Line> lines;
    {
      absl::MutexLock lock(&mutex_);
      writing_ = false;
      mutex_.Await(absl::Condition(this, &AuditLog::HasWork));
      if (queue_.empty()) return;
      writing_ = true;
      std::swap(lines, queue_);
    }
    Write(std::move(lines));
  }
}

// All that is there with one call, and one sync for all acts among it.
void AuditLog::Write(std::vector<Line> lines) {
  std::string text;
  bool any_act = false;
  for (const Line& line : lines) {
    text += line.text;
    any_act |= line.kind == AuditLine::kAct;
  }
  bool written = false;
  {
    absl::MutexLock lock(&sink_mutex_);
    written = sink_->Write(text, any_act);
  }
  for (Line& line : lines) {
    options_.metrics->OnAudit(line.kind, written);
    if (line.kind == AuditLine::kAct) Carry(std::move(line), written);
  }
}

void AuditLog::Carry(Line line, bool written) {
  const bool taken = carrier_->Run([this, line = std::move(line), written]() mutable {
    {
      absl::MutexLock lock(&mutex_);
      --acts_open_;
    }
    std::move(line.then)(written ? std::optional(std::move(line.act)) : std::nullopt);
  });
  // There is room for as many as may be open.
  static_cast<void>(taken);
}

}  // namespace idempotency::service
