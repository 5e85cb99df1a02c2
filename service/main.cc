// idempotencyd: which program the command line asks for. What each does is in process/; what is
// served is in server.h.
#include <openssl/rand.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "service/config.h"
#include "service/flags.h"
#include "service/offline_progress.h"
#include "service/process/daemon.h"
#include "service/process/exit_codes.h"
#include "service/process/process.h"
#include "service/process/setup.h"
#include "service/process/store_programs.h"

namespace idempotency::service {
namespace {

#ifndef IDEMPOTENCY_VERSION
#define IDEMPOTENCY_VERSION "unknown"
#endif

// What responses are sealed with must not be guessed: rather no service than a bad one.
void FillWithRandomBytes(char* bytes, size_t size) {
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes), static_cast<int>(size)) != 1) abort();
}

int Complain(const absl::Status& wrong_usage) {
  std::cerr << "idempotencyd: " << std::string(wrong_usage.message()) << std::endl;
  return kExitWrongUsage;
}

// Where how far it is may be drawn; null: nowhere.
std::ostream* TerminalOf(const Flags& flags) {
  const bool terminal = isatty(STDERR_FILENO) == 1;
  return DrawsProgress(flags.progress, terminal, std::getenv("TERM")) ? &std::cerr : nullptr;
}

int CheckConfig(const std::string& path) {
  const auto config = Config::Load(path);
  if (!config.ok()) return Complain(config.status());
  if (const absl::Status status = CheckCredentialFiles(**config); !status.ok()) {
    return Complain(status);
  }
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
  if (!flags->core_dumps) KeepMemoryPrivate();
  // Before there is a thread.
  if (std::getenv("MALLOC_ARENA_MAX") == nullptr) ShareFreedMemory();
  const sigset_t signals = BlockSignals();
  Setup setup(*flags, &FillWithRandomBytes, &std::cerr);
  std::ostream* const terminal = TerminalOf(*flags);
  if (!flags->verify_backup.empty()) return VerifyBackup(&setup, terminal);
  if (!flags->restore_backup.empty()) return RestoreBackup(&setup, terminal);
  if (flags->rewrap) return Rewrap(&setup, terminal);
  return Daemon(&setup, signals, IDEMPOTENCY_VERSION).Run();
}

}  // namespace
}  // namespace idempotency::service

int main(int argc, char** argv) {
  // Debian's abseil is built to follow the order of all locks; the tests do that for us.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return idempotency::service::Main(argc, argv);
}
