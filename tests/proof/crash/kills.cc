// The real server, killed with -9 under the load of eight clients, again and again on one store:
// every acknowledged fact is there when it is started again, and no key is held twice.
#include <signal.h>

#include <atomic>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/proof/crash/daemon.h"
#include "tests/proof/crash/load.h"
#include "tests/proof/crash/program.h"
#include "tests/proof/sim/random.h"
#include "tests/support/temp_directory.h"

namespace idempotency::proof {
namespace {

constexpr char kUsage[] =
    "usage: idempotency_kills [--seed=N] [--floor=N] [--seconds=N] [--jobs=N] [--control]\n"
    "\n"
    "Kills idempotencyd under load, and checks what it has kept. IDEMPOTENCYD in the environment\n"
    "names another binary than the one beside this program.\n"
    "\n"
    "  --seed=N      of the clients' choices (1)\n"
    "  --floor=N     fewer kills than this are a failure (300)\n"
    "  --seconds=N   go on for so long (PROOF_SECONDS in the environment); else until the floor\n"
    "  --jobs=N      how many servers at once, each with its own store and clients (1)\n"
    "  --control     a server that says that it syncs and does not: not to notice is the failure\n";

// Small memtables, so that the kills meet flushes and compactions; zeros ahead of the log, which
// the kills of `network` go without.
std::vector<std::string> Flags(const TempDirectory& directory) {
  return {"--data_dir=" + directory.file("store"), "--ballast_mb=0", "--memtable_mb=1",
          "--log_ahead_mb=8", "--log_level=warning"};
}

class Kills {
 public:
  Kills(uint64_t seed, const std::string& program)
      : random_(seed), load_(seed), daemon_(program, Flags(directory_)) {}

  // "" or what is wrong.
  std::string Next() {
    std::string wrong = Restart(false);
    if (!wrong.empty()) return wrong;
    return load_.Run(daemon_, 20 + random_.Below(400), [this] { daemon_.Kill(); });
  }
  std::string Finish() {
    std::string wrong = Restart(true);
    if (!wrong.empty()) return wrong;
    daemon_.Signal(SIGTERM);
    const int code = daemon_.Wait();
    return code == 0 ? "" : "exit code " + std::to_string(code) + "\n" + daemon_.Log();
  }
  const Load& load() const { return load_; }

 private:
  std::string Restart(bool everything) {
    std::string wrong = daemon_.Start();
    return wrong.empty() ? load_.Check(daemon_, everything) : wrong;
  }

  TempDirectory directory_;
  Random random_;
  Load load_;
  Daemon daemon_;
};

int Prove(const Settings& settings) {
  Tally tally(settings);
  std::atomic<uint64_t> acknowledged{0};
  std::atomic<size_t> operations{0};
  InTurns(JobsOf(settings, 1), [&](uint64_t number) {
    Kills kills(settings.seed + number, Daemon::Program());
    std::string wrong;
    while (wrong.empty() && tally.GoesOn()) {
      wrong = kills.Next();
      if (wrong.empty()) tally.Passed();
    }
    if (wrong.empty()) wrong = kills.Finish();
    if (!wrong.empty()) tally.Failed(wrong);
    acknowledged += kills.load().acknowledged();
    operations += kills.load().facts();
    return false;
  });
  std::printf("%" PRIu64 " acknowledged calls, %zu operations\n", acknowledged.load(),
              operations.load());
  return tally.Summary("kills");
}

int Control(const Settings& settings) {
  Kills kills(settings.seed, BesideThis("idempotency_forgetful_server"));
  for (int kill = 1; kill <= 20; ++kill) {
    const std::string wrong = kills.Next();
    if (wrong.empty()) continue;
    std::printf("noticed after %d kills: %s\n1 passed, 0 failed\n", kill - 1, wrong.c_str());
    return 0;
  }
  std::printf("FAILED: a server that does not sync was not noticed\n0 passed, 1 failed\n");
  return 1;
}

}  // namespace
}  // namespace idempotency::proof

int main(int argc, char** argv) {
  using namespace idempotency::proof;
  const Settings settings =
      ReadSettings(argc, argv, kUsage, {.floor = 300, .others = {{"control", ""}, {"jobs", ""}}});
  return settings.has("control") ? Control(settings) : Prove(settings);
}
