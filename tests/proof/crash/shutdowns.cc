// The real thing: the server on a real file system that is shut down under it, as a power cut
// leaves it. It acknowledges nothing more and exits; mounted again, everything is there that it
// had acknowledged before.
#include <signal.h>

#include <cstdio>
#include <string>

#include "tests/proof/crash/daemon.h"
#include "tests/proof/crash/load.h"
#include "tests/proof/crash/loop_volume.h"
#include "tests/proof/crash/program.h"
#include "tests/proof/sim/random.h"

namespace idempotency::proof {
namespace {

constexpr char kUsage[] =
    "usage: idempotency_shutdowns [--seed=N] [--floor=N] [--seconds=N]\n"
    "\n"
    "Shuts down the ext4 file system under idempotencyd, mounts it again, and checks. Needs root\n"
    "and loop devices; without them it says so, and ends with 77.\n"
    "\n"
    "  --seed=N      of the clients' choices (1)\n"
    "  --floor=N     fewer shutdowns than this are a failure (5)\n"
    "  --seconds=N   go on for so long (PROOF_SECONDS in the environment); else until the floor\n";

constexpr int kSkipped = 77;
constexpr int kExitEngineDead = 70;
constexpr uint64_t kVolumeBytes = uint64_t{1} << 30;

class Shutdowns {
 public:
  explicit Shutdowns(const Settings& settings)
      : random_(settings.seed),
        load_(settings.seed),
        volume_(kVolumeBytes),
        daemon_(Daemon::Program(), {"--data_dir=" + volume_.file("store"), "--ballast_mb=0",
                                    "--memtable_mb=1", "--log_level=warning"}) {}

  std::string Make() { return volume_.Make(); }

  // "" or what is wrong.
  std::string Next() {
    std::string wrong = Restart(false);
    if (!wrong.empty()) return wrong;
    bool down = false;
    // A sync that is under way in that moment may say that it has worked, and has not: after a
    // power cut nobody would hear of it.
    wrong = load_.Run(
        daemon_, 200 + random_.Below(3000), [&] { down = volume_.ShutDown(); },
        Load::Hearing::kUntilEnd);
    if (!wrong.empty()) return wrong;
    if (!down) return "the file system was not shut down";
    const int code = daemon_.Wait();
    if (code != kExitEngineDead) return "exit code " + std::to_string(code) + "\n" + daemon_.Log();
    if (!volume_.Unmount() || !volume_.Mount()) return "cannot be mounted again";
    return {};
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

  Random random_;
  Load load_;
  LoopVolume volume_;
  Daemon daemon_;
};

int Prove(const Settings& settings) {
  Shutdowns shutdowns(settings);
  if (const std::string why = shutdowns.Make(); !why.empty()) {
    std::printf("SKIPPED: %s\n0 passed, 0 failed\n", why.c_str());
    return kSkipped;
  }
  Tally tally(settings);
  std::string wrong;
  while (wrong.empty() && tally.GoesOn()) {
    wrong = shutdowns.Next();
    if (wrong.empty()) tally.Passed();
  }
  if (wrong.empty()) wrong = shutdowns.Finish();
  if (!wrong.empty()) tally.Failed(wrong);
  std::printf("%llu acknowledged calls, %zu operations\n",
              static_cast<unsigned long long>(shutdowns.load().acknowledged()),
              shutdowns.load().facts());
  return tally.Summary("shutdowns of a file system");
}

}  // namespace
}  // namespace idempotency::proof

int main(int argc, char** argv) {
  using namespace idempotency::proof;
  return Prove(ReadSettings(argc, argv, kUsage, {.floor = 5}));
}
