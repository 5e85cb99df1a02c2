// idempotencyd: the service as a process. Flags, signals and exit codes are here; what is served
// is in server.h.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "grpc/support/log.h"
#include "keystore/clock.h"
#include "keystore/engine/open_engine.h"
#include "service/config.h"
#include "service/flags.h"
#include "service/listen_address.h"
#include "service/log.h"
#include "service/metrics.h"
#include "service/server.h"

namespace idempotency::service {
namespace {

constexpr int kExitStopped = 0;
constexpr int kExitCannotStart = 1;
constexpr int kExitWrongUsage = 2;
constexpr int kExitEngineDead = 70;
// Accepted commands were still running when the drain had to end. All that was acknowledged is
// durable; the rest is unknown to its callers, who send it again.
constexpr int kExitNotDrained = 71;

constexpr size_t kMebibyte = size_t{1024} * 1024;
// Shorter than what supervisors usually grant between SIGTERM and SIGKILL.
constexpr absl::Duration kDrainTimeout = absl::Seconds(25);

#ifndef IDEMPOTENCY_VERSION
#define IDEMPOTENCY_VERSION "unknown"
#endif

// Raised by ourselves, to wake the thread that waits for signals.
constexpr int kEngineDeadSignal = SIGUSR2;

// Blocks the signals that are waited for, in this thread and all that it starts.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, kEngineDeadSignal}) {
    sigaddset(&signals, signal);
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // A log that nobody reads any more, or a client that has gone, is no reason to die; and a file
  // that may not grow is an error of the store, which knows what to do.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  return signals;
}

// A second SIGTERM or Ctrl-C ends the process at once. Nothing else that may come does: not a
// reload, and not the news that the engine has died, which the exit code tells.
void LetSignalsEndTheDrain() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

int Complain(const absl::Status& wrong_usage) {
  std::cerr << "idempotencyd: " << std::string(wrong_usage.message()) << std::endl;
  return kExitWrongUsage;
}

// gRPC has one log for the process. Set while there is a log to write it to.
std::atomic<Log*> grpc_log{nullptr};

void WriteGrpcLog(gpr_log_func_args* line) {
  Log* const log = grpc_log;
  if (log == nullptr) return;
  const LogLevel level = line->severity == GPR_LOG_SEVERITY_ERROR  ? LogLevel::kWarning
                         : line->severity == GPR_LOG_SEVERITY_INFO ? LogLevel::kInfo
                                                                   : LogLevel::kDebug;
  log->Write(level, "grpc", {{"line", line->message}});
}

// Ends the process where stopping takes too long: everything acknowledged is durable.
class Watchdog {
 public:
  Watchdog()
      : thread_([this] {
          if (!done_.WaitForNotificationWithTimeout(kDrainTimeout)) _exit(kExitNotDrained);
        }) {}
  ~Watchdog() {
    done_.Notify();
    thread_.join();
  }

 private:
  absl::Notification done_;
  std::thread thread_;
};

class Daemon {
 public:
  explicit Daemon(Flags flags)
      : flags_(std::move(flags)),
        signals_(BlockSignals()),
        log_(Log::Options{ParseLogLevel(flags_.log_level).value_or(LogLevel::kInfo)}) {
    grpc_log = &log_;
    gpr_set_log_function(&WriteGrpcLog);
  }
  ~Daemon() { grpc_log = nullptr; }
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  int Run() {
    if (const absl::Status status = Start(); !status.ok()) {
      // Whoever typed a wrong flag reads words; whoever supervises the process reads its log.
      if (absl::IsInvalidArgument(status)) return Complain(status);
      log_.Write(LogLevel::kError, "cannot_start", {{"error", std::string(status.message())}});
      return kExitCannotStart;
    }
    const int exit_code = WaitForEnd();
    LetSignalsEndTheDrain();
    Watchdog watchdog;
    server_->Drain();
    server_.reset();
    const int last_word = engine_dead_ ? kExitEngineDead : exit_code;
    log_.Write(LogLevel::kInfo, "stopped", {{"exit_code", last_word}});
    return last_word;
  }

 private:
  absl::Status Start() {
    auto config = ConfigHolder::Open(flags_.config);
    if (!config.ok()) return absl::InvalidArgumentError(config.status().message());
    config_ = std::move(*config);
    if (auto address = CheckListenAddress(flags_.listen); !address.ok()) return address.status();
    StartClock();
    auto engine = OpenStore();
    if (!engine.ok()) return engine.status();
    auto server = Server::Start(Parts(std::move(*engine)), Options());
    if (!server.ok()) return server.status();
    server_ = std::move(*server);
    log_.Write(LogLevel::kInfo, "started",
               {{"version", IDEMPOTENCY_VERSION},
                {"listen", flags_.listen},
                {"port", server_->port()},
                {"engine", flags_.engine},
                {"data_dir", KeepsFiles() ? flags_.data_dir : std::string()},
                {"config", flags_.config},
                {"pid", getpid()}});
    return WritePortFile();
  }

  bool KeepsFiles() const { return flags_.engine != "memory"; }
  std::string ClockMarkPath() const {
    return KeepsFiles() ? absl::StrCat(flags_.data_dir, "/CLOCK") : std::string();
  }

  void StartClock() {
    core::Time high_water;
    if (KeepsFiles()) {
      const absl::Status status = keystore::ClockMark(ClockMarkPath()).Load(&high_water);
      // Without it time is the wall clock's; no lease depends on it.
      if (!status.ok()) {
        log_.Write(LogLevel::kWarning, "clock_mark_unreadable",
                   {{"error", std::string(status.message())}});
      }
    }
    clock_ = std::make_unique<keystore::GuardedClock>(high_water);
    if (flags_.trust_clock) clock_->Confirm();
  }

  absl::StatusOr<std::unique_ptr<keystore::Engine>> OpenStore() {
    // Who has named no directory gets one. A named one must have its parent, or a volume that
    // is not mounted would go unnoticed.
    if (flags_.data_dir == Flags().data_dir) {
      std::error_code ignored;  // the engine says what is wrong
      std::filesystem::create_directories(std::filesystem::path(flags_.data_dir).parent_path(),
                                          ignored);
    }
    keystore::EngineOptions options;
    options.engine = flags_.engine;
    options.data_dir = flags_.data_dir;
    options.block_cache_bytes = static_cast<size_t>(flags_.block_cache_mb) * kMebibyte;
    options.memtable_bytes = static_cast<size_t>(flags_.memtable_mb) * kMebibyte;
    options.ballast_bytes = static_cast<size_t>(flags_.ballast_mb) * kMebibyte;
    options.now = [this] { return clock_->Read(); };
    options.may_reclaim = [this](std::string_view name_space) {
      return config_->Get()->Accepts(name_space);
    };
    options.log = [this](int level, std::string_view line) {
      log_.Write(static_cast<LogLevel>(level), "engine", {{"line", line}});
    };
    return keystore::OpenEngine(std::move(options));
  }

  ServerParts Parts(std::unique_ptr<keystore::Engine> engine) {
    ServerParts parts;
    parts.engine = std::move(engine);
    parts.clock = clock_.get();
    parts.config = config_.get();
    parts.log = &log_;
    parts.metrics = &metrics_;
    parts.on_engine_dead = [this] { NoteEngineDead(); };
    return parts;
  }

  ServerOptions Options() const {
    ServerOptions options;
    options.listen = flags_.listen;
    options.clock_mark_path = ClockMarkPath();
    return options;
  }

  // Appears whole or not at all: whoever waits for it may read it as soon as it is there.
  absl::Status WritePortFile() {
    if (flags_.port_file.empty()) return absl::OkStatus();
    const std::string aside = flags_.port_file + ".new";
    std::ofstream file(aside, std::ios::trunc);
    file << server_->port() << "\n";
    file.close();
    if (file.good() && rename(aside.c_str(), flags_.port_file.c_str()) == 0) {
      return absl::OkStatus();
    }
    return absl::UnavailableError(
        absl::StrCat("cannot write --port_file=", flags_.port_file, "; check its directory."));
  }

  void NoteEngineDead() {
    engine_dead_ = true;
    kill(getpid(), kEngineDeadSignal);
  }

  // Until something ends the service; the exit code says what.
  int WaitForEnd() {
    for (;;) {
      int signal = 0;
      sigwait(&signals_, &signal);
      if (engine_dead_) return kExitEngineDead;
      if (signal == SIGHUP) {
        Reload();
      } else if (signal != kEngineDeadSignal) {
        log_.Write(LogLevel::kInfo, "stopping", {{"signal", signal}});
        return kExitStopped;
      }
    }
  }

  void Reload() {
    if (const absl::Status status = config_->Reload(); !status.ok()) {
      log_.Write(LogLevel::kError, "reload_failed",
                 {{"error", std::string(status.message())},
                  {"next_step", "what held before goes on; correct the file and send SIGHUP"}});
      return;
    }
    log_.Write(LogLevel::kInfo, "reloaded", {{"config", flags_.config}});
  }

  const Flags flags_;
  const sigset_t signals_;
  Log log_;
  CountingMetrics metrics_;
  std::unique_ptr<ConfigHolder> config_;
  std::unique_ptr<keystore::GuardedClock> clock_;
  std::atomic<bool> engine_dead_{false};
  std::unique_ptr<Server> server_;
};

int CheckConfig(const std::string& path) {
  const auto config = Config::Load(path);
  if (!config.ok()) return Complain(config.status());
  std::cout << path << " is a valid configuration." << std::endl;
  return kExitStopped;
}

int Main(int argc, char** argv) {
  const absl::StatusOr<Flags> flags = ParseFlags(std::vector<std::string>(argv + 1, argv + argc));
  if (!flags.ok()) return Complain(flags.status());
  if (flags->help) {
    std::cout << HelpText();
    return kExitStopped;
  }
  if (flags->version) {
    std::cout << "idempotencyd " << IDEMPOTENCY_VERSION << std::endl;
    return kExitStopped;
  }
  if (flags->check_config) return CheckConfig(flags->config);
  return Daemon(*flags).Run();
}

}  // namespace
}  // namespace idempotency::service

int main(int argc, char** argv) { return idempotency::service::Main(argc, argv); }
