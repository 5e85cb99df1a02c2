#include "service/process/setup.h"

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <ostream>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "grpc/support/log.h"
#include "service/process/exit_codes.h"
#include "service/process/flag_options.h"
#include "service/response.h"

namespace idempotency::service {
namespace {

// gRPC has one log for the process. Set while there is a log to write it to.
std::atomic<Log*> grpc_log{nullptr};

void WriteGrpcLog(gpr_log_func_args* line) {
  Log* const log = grpc_log;
  if (log == nullptr) return;
  const LogLevel level = line->severity == GPR_LOG_SEVERITY_ERROR  ? LogLevel::kWarning
                         : line->severity == GPR_LOG_SEVERITY_INFO ? LogLevel::kInfo
                                                                   : LogLevel::kDebug;
  log->Write(level, "grpc", {{"line", WithoutMetadataValue(line->message)}});
}

}  // namespace

Setup::Setup(Flags flags, RandomBytes random_bytes, std::ostream* errors)
    : flags_(std::move(flags)),
      random_bytes_(random_bytes),
      errors_(errors),
      log_(Log::Options{ParseLogLevel(flags_.log_level).value_or(LogLevel::kInfo)}) {
  grpc_log = &log_;
  gpr_set_log_function(&WriteGrpcLog);
}

Setup::~Setup() { grpc_log = nullptr; }

std::string ClockMarkPath(const std::string& data_dir) { return absl::StrCat(data_dir, "/CLOCK"); }

std::string Setup::clock_mark_path() const {
  return keeps_files() ? ClockMarkPath(flags_.data_dir) : std::string();
}

absl::Status Setup::ReadConfig() {
  auto config = ConfigHolder::Open(flags_.config);
  if (!config.ok()) return absl::InvalidArgumentError(config.status().message());
  config_ = std::move(*config);
  return absl::OkStatus();
}

absl::Status Setup::OpenAudit() {
  if (audit_ != nullptr) return absl::OkStatus();
  AuditLog::Options options;
  options.path = flags_.audit_log;
  options.now = [] { return keystore::ReadKernelTime().wall; };
  options.metrics = &metrics_;
  auto audit = AuditLog::Open(std::move(options));
  if (!audit.ok()) return audit.status();
  audit_ = std::move(*audit);
  return absl::OkStatus();
}

absl::StatusOr<AuditLog::Act> Setup::BeginAct(std::string_view action, std::string_view detail) {
  if (absl::Status status = OpenAudit(); !status.ok()) return status;
  const std::string who = absl::StrCat("process:uid=", getuid());
  AuditEntry entry;
  entry.action = action;
  entry.who = who;
  entry.detail = detail;
  std::optional<AuditLog::Act> act = audit_->BeginAndWait(entry);
  if (act) return *std::move(act);
  return absl::UnavailableError(absl::StrCat(
      "the audit cannot be written, and so nothing was done: mend --audit_log=", flags_.audit_log,
      "."));
}

void Setup::StartClock() {
  core::Time high_water;
  if (keeps_files()) {
    const absl::Status status = keystore::ClockMark(clock_mark_path()).Load(&high_water);
    // Without it time is the wall clock's; no lease depends on it.
    if (!status.ok()) {
      log_.Write(LogLevel::kWarning, "clock_mark_unreadable",
                 {{"error", std::string(status.message())}});
    }
  }
  clock_ = std::make_unique<keystore::GuardedClock>(high_water);
  if (flags_.trust_clock) clock_->Confirm();
}

keystore::EngineOptions Setup::StoreOptions() {
  // Who has named no directory gets one. A named one must have its parent, or a volume that
  // is not mounted would go unnoticed.
  if (keeps_files() && flags_.data_dir == Flags().data_dir) {
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
  options.log_ahead_bytes = static_cast<size_t>(flags_.log_ahead_mb) * kMebibyte;
  options.accept_loss = static_cast<uint64_t>(flags_.accept_loss);
  options.response_keys = flags_.response_keys;
  options.lost_response_keys = absl::StrSplit(flags_.lost_response_keys, ',', absl::SkipEmpty());
  // What is moved must not lack what is only sealed; and stays as it is meanwhile.
  const bool moves = !flags_.transfer.empty();
  options.demand_response_keys = moves;
  options.random_bytes = random_bytes_;
  options.now = [this] { return clock_->Read(); };
  options.may_reclaim = [this, moves](std::string_view name_space) {
    return may_reclaim_ && !moves && config_ != nullptr && config_->Get()->Accepts(name_space);
  };
  options.without_body = &WithoutBody;
  options.on_body_omitted = [this](std::string_view name_space) {
    metrics_.OnBodyOmitted(config_->Get()->PolicyFor(name_space)->tally.row);
  };
  options.log = [this](int level, std::string_view line) {
    log_.Write(static_cast<LogLevel>(level), "engine", {{"line", line}});
  };
  return options;
}

int Setup::CannotStart(const absl::Status& status) {
  if (absl::IsInvalidArgument(status)) {
    *errors_ << "idempotencyd: " << std::string(status.message()) << std::endl;
    return kExitWrongUsage;
  }
  log_.Write(LogLevel::kError, "cannot_start", {{"error", std::string(status.message())}});
  return kExitCannotStart;
}

}  // namespace idempotency::service
