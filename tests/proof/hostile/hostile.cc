// Hostile peers beside well-behaved clients, against the real server. See the README above.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "tests/bench/clock.h"
#include "tests/proof/crash/daemon.h"
#include "tests/proof/crash/program.h"
#include "tests/proof/hostile/attacks.h"
#include "tests/proof/hostile/bystanders.h"

namespace idempotency::proof {
namespace {

using bench::kNanosPerMilli;
using bench::MonotonicNanos;

constexpr char kUsage[] =
    "usage: idempotency_hostile [--seed=N] [--floor=N] [--seconds=N] [--small] [--control]\n"
    "                           [--only=ATTACK,...]\n"
    "\n"
    "Attacks idempotencyd, one way after the other, while well-behaved clients work. After each:\n"
    "memory, descriptors, a new client, what was acknowledged. The floor counts attacks.\n"
    "\n"
    "  --small     short ones, as a test that may run beside others, or under the sanitizers: "
    "what\n"
    "              they take in memory, time and sockets is told, and not judged\n"
    "  --control   the limits are off, and it must be noticed\n"
    "  --only=A,B  only these\n";

// What the server gets, so that they can be used up.
constexpr rlim_t kDescriptors = 512;
// ConnectionsWithin(512) of service/listener.
constexpr int kConnections = 128;
constexpr int kConnectionsOfPeer = 64;
constexpr double kMostGrowthMib = 64;
constexpr double kMostSlower = 3;
// Below this nobody has been hurt: a call that meets a compaction or the scheduler of a busy
// machine takes as long.
constexpr int64_t kHarmlessNanos = 20 * kNanosPerMilli;
constexpr int kThreads = 3;
// Of the control: as good as none.
constexpr char kNoLimit[] = "1000000000";

// Set for the process that is to become the server: it has fewer descriptors than we.
constexpr char kBecomeServer[] = "HOSTILE_SERVER";

struct Sizes {
  int rounds;
  int64_t round_nanos;
  size_t checked;
  int64_t first_answer_nanos;
  // A machine that does something else for a while is no finding: measured again, so often at most.
  int tries;
  // Memory, time and sockets that stay open.
  bool judged;
};
constexpr Sizes kSmall{1, 350 * kNanosPerMilli, 100, 60 * bench::kNanosPerSecond, 1, false};
constexpr Sizes kFull{3, 900 * kNanosPerMilli, 1'000, bench::kNanosPerSecond, 3, true};
constexpr Sizes kControl{3, 900 * kNanosPerMilli, 1'000, bench::kNanosPerSecond, 1, true};

// --- What /proc says -----------------------------------------------------------------------------

std::string ProcOf(pid_t pid, const char* name) {
  return "/proc/" + std::to_string(pid) + "/" + name;
}

double MibIn(pid_t pid, const std::string& name) {
  std::ifstream status(ProcOf(pid, "status"));
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(name + ":", 0) == 0) return std::atof(line.c_str() + name.size() + 1) / 1024;
  }
  return -1;
}

// From here on VmHWM is the most since now.
void ForgetPeak(pid_t pid) { std::ofstream(ProcOf(pid, "clear_refs")) << "5"; }

constexpr char kFromThisHost[] = "0100007F";  // 127.0.0.1, lowest byte first
constexpr char kEstablished[] = "01";

struct TcpSocket {
  std::string remote;
  std::string state;
};

// Every one of this host, by "socket:[INODE]".
std::map<std::string, TcpSocket> TcpSockets() {
  std::map<std::string, TcpSocket> sockets;
  std::ifstream table("/proc/net/tcp");
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string number, local, remote, state, queues, timer, retransmits, user, timeout, inode;
    fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >>
        timeout >> inode;
    sockets["socket:[" + inode + "]"] = {remote, state};
  }
  return sockets;
}

// The server's sockets, in words, but for connections of the well-behaved that are up: they may
// connect again at any time. Attackers come from other addresses, or have closed what is not.
std::vector<std::string> OtherSocketsOf(pid_t pid) {
  std::vector<std::string> others;
  std::error_code error;
  const std::map<std::string, TcpSocket> all = TcpSockets();
  for (const auto& entry : std::filesystem::directory_iterator(ProcOf(pid, "fd"), error)) {
    const std::string target = std::filesystem::read_symlink(entry, error).string();
    if (target.rfind("socket:", 0) != 0) continue;
    const auto found = all.find(target);
    const TcpSocket socket = found == all.end() ? TcpSocket{"nobody", "none"} : found->second;
    if (socket.state == kEstablished && socket.remote.rfind(kFromThisHost, 0) == 0) continue;
    others.push_back("descriptor " + entry.path().filename().string() + " to " + socket.remote +
                     ", state " + socket.state);
  }
  return others;
}

// --- One attack ----------------------------------------------------------------------------------

int64_t Median(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// -1, no answer, is longer than any.
int64_t Longest(const std::vector<int64_t>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return *least < 0 ? -1 : *most;
}

struct Measured {
  int64_t quiet_p99 = 0;
  int64_t attacked_p99 = 0;
  double growth_mib = 0;
  int64_t first_answer = -1;
  int64_t first_answer_during = -1;
  uint64_t sent = 0;
  std::vector<std::string> errors;

  bool slow() const {
    return attacked_p99 >
           std::max<int64_t>(kHarmlessNanos,
                             static_cast<int64_t>(kMostSlower * static_cast<double>(quiet_p99)));
  }
};

class Field {
 public:
  Field(const Daemon& daemon, Bystanders* bystanders, const Sizes& sizes, uint64_t seed)
      : daemon_(daemon), bystanders_(bystanders), sizes_(sizes), seed_(seed) {}

  // "" or what is wrong; prints what was measured.
  std::string Try(const Attack& attack) {
    const double before = MibIn(daemon_.pid(), "VmRSS");
    const size_t sockets = OtherSocketsOf(daemon_.pid()).size();
    Measured measured;
    for (int i = 0; i < sizes_.tries; ++i) {
      measured = Measure(attack, before);
      const bool answers =
          measured.first_answer >= 0 && (attack.takes_all || measured.first_answer_during >= 0);
      if (!measured.slow() && answers) break;
    }
    std::printf(
        "%-20s p99 %6.2f ms, quiet %6.2f; +%5.1f MiB; first answer %5.1f ms, during %5.1f; "
        "%" PRIu64 " sent\n",
        attack.name, Ms(measured.attacked_p99), Ms(measured.quiet_p99), measured.growth_mib,
        Ms(measured.first_answer), Ms(measured.first_answer_during), measured.sent);
    std::fflush(stdout);
    return Judge(attack, measured, sockets);
  }

 private:
  static double Ms(int64_t nanos) {
    return static_cast<double>(nanos) / static_cast<double>(kNanosPerMilli);
  }

  // Quiet and attacked rounds in turn.
  Measured Measure(const Attack& attack, double before_mib) {
    Measured measured;
    std::vector<int64_t> quiet;
    std::vector<int64_t> attacked;
    std::vector<int64_t> during;
    ForgetPeak(daemon_.pid());
    for (int round = 0; round < sizes_.rounds; ++round) {
      quiet.push_back(
          Round([&] { bench::SleepUntil(MonotonicNanos() + sizes_.round_nanos); }, &measured));
      const Scene scene{daemon_.port(), MonotonicNanos() + sizes_.round_nanos, NextHost(),
                        kConnections};
      attacked.push_back(Round(
          [&] {
            std::thread attacker([&] { measured.sent += attack.run(scene); });
            bench::SleepUntil(MonotonicNanos() + sizes_.round_nanos / 2);
            during.push_back(FirstAnswerNanos(daemon_, bench::kNanosPerSecond));
            attacker.join();
          },
          &measured));
      measured.first_answer = FirstAnswerNanos(daemon_, sizes_.first_answer_nanos);
    }
    measured.quiet_p99 = Median(quiet);
    measured.attacked_p99 = Median(attacked);
    measured.first_answer_during = Longest(during);
    measured.growth_mib = MibIn(daemon_.pid(), "VmHWM") - before_mib;
    return measured;
  }

  // Bystanders come from 127.0.0.1; seeds begin at different places.
  int NextHost() { return static_cast<int>(256 * (1 + seed_++ % 60'000)); }

  template <typename What>
  int64_t Round(What what, Measured* measured) {
    bystanders_->Take();
    what();
    const Seen seen = bystanders_->Take();
    measured->errors.insert(measured->errors.end(), seen.errors.begin(), seen.errors.end());
    // Nobody was answered: as slow as can be.
    return seen.calls > 0 ? seen.p99_nanos : sizes_.round_nanos * 10;
  }

  std::string Judge(const Attack& attack, const Measured& measured, size_t sockets) {
    if (measured.sent == 0) return "it has not come to anything";
    if (!measured.errors.empty()) return "a call of a bystander failed: " + measured.errors.front();
    if (measured.first_answer < 0) return "a new client was not answered in time after it";
    const std::string wrong = sizes_.judged ? JudgeRates(attack, measured) : "";
    if (!wrong.empty()) return wrong;
    const std::string left = LeftOpen(sockets);
    if (!left.empty() && sizes_.judged) return left;
    if (!left.empty()) std::printf("%s\n", left.c_str());
    return bystanders_->Check(daemon_, sizes_.checked);
  }

  // What is still open of connections that have ended; there were so many others before.
  std::string LeftOpen(size_t before) const {
    const int64_t patience = MonotonicNanos() + 60 * bench::kNanosPerSecond;
    for (;;) {
      const std::vector<std::string> others = OtherSocketsOf(daemon_.pid());
      if (others.size() <= before) return "";
      if (MonotonicNanos() > patience) {
        std::string text = "sockets of ended connections are still open:";
        for (const std::string& other : others) text += "\n  " + other;
        return text;
      }
      bench::SleepUntil(MonotonicNanos() + 20 * kNanosPerMilli);
    }
  }

  static std::string JudgeRates(const Attack& attack, const Measured& measured) {
    if (measured.slow()) return "bystanders are more than three times as slow";
    if (measured.growth_mib >= kMostGrowthMib) {
      return "memory grew by " + std::to_string(measured.growth_mib) + " MiB";
    }
    if (!attack.takes_all && measured.first_answer_during < 0) {
      return "a new client of another address was not answered while it went on";
    }
    return "";
  }

  const Daemon& daemon_;
  Bystanders* const bystanders_;
  const Sizes sizes_;
  uint64_t seed_;
};

// --- All of them ---------------------------------------------------------------------------------

std::vector<std::string> FlagsOf(const std::string& store, bool control) {
  std::vector<std::string> flags{"--data_dir=" + store, "--ballast_mb=0", "--log_level=warning",
                                 "--handshake_timeout_s=2"};
  if (control) {
    for (const char* name : {"max_connections", "max_connections_per_peer", "max_cancelled_calls",
                             "max_streams_per_connection"}) {
      flags.push_back("--" + std::string(name) + "=" + kNoLimit);
    }
  } else {
    flags.push_back("--max_connections_per_peer=" + std::to_string(kConnectionsOfPeer));
  }
  return flags;
}

// Something large to ask for.
std::string StoreLargeAnswer(const Daemon& daemon) {
  const auto stub = v1::IdempotencyService::NewStub(daemon.Connect());
  grpc::ClientContext reserving;
  v1::ReserveResponse reserved;
  grpc::Status status = stub->Reserve(&reserving, ReserveOf(kLargeKey, "1"), &reserved);
  if (!status.ok()) return status.error_message();
  v1::CompleteRequest request;
  *request.mutable_id() = IdOf(kLargeKey);
  request.set_fencing_token(reserved.lease().fencing_token());
  request.set_verdict(v1::VERDICT_SUCCEEDED);
  request.mutable_response()->set_body(std::string(kLargeBytes, 'x'));
  grpc::ClientContext completing;
  v1::CompleteResponse completed;
  status = stub->Complete(&completing, request, &completed);
  return status.ok() ? "" : status.error_message();
}

// With the limits off, these must be noticed.
const std::vector<std::string> kControls = {"one_address", "rapid_reset_calls"};

bool IsWanted(const Settings& settings, const Attack& attack) {
  const bool control = settings.has("control");
  if (settings.has("only")) {
    const std::string names = "," + settings.others.at("only") + ",";
    return names.find("," + std::string(attack.name) + ",") != std::string::npos;
  }
  return !control || std::find(kControls.begin(), kControls.end(), attack.name) != kControls.end();
}

void TryAll(const Settings& settings, const Daemon& daemon, Bystanders* bystanders, Tally* tally) {
  const bool control = settings.has("control");
  const Sizes& sizes = control ? kControl : settings.has("small") ? kSmall : kFull;
  Field field(daemon, bystanders, sizes, settings.seed);
  do {
    for (const Attack& attack : Attacks()) {
      if (!IsWanted(settings, attack)) continue;
      const std::string wrong = field.Try(attack);
      if (wrong.empty() == control) {
        tally->Failed(std::string(attack.name) + " (" + attack.what +
                      "): " + (control ? "not noticed, though there are no limits" : wrong));
      } else {
        if (control) std::printf("noticed: %s\n", wrong.c_str());
        tally->Passed();
      }
    }
  } while (settings.seconds > 0 && tally->GoesOn());
}

int Run(int argc, char** argv) {
  Settings defaults;
  defaults.floor = Attacks().size();
  for (const char* name : {"small", "control", "only"}) defaults.others[name] = "";
  Settings settings = ReadSettings(argc, argv, kUsage, defaults);
  if (settings.has("control")) settings.floor = kControls.size();
  if (settings.has("only")) {
    settings.floor = static_cast<uint64_t>(
        std::count_if(Attacks().begin(), Attacks().end(),
                      [&](const Attack& attack) { return IsWanted(settings, attack); }));
  }
  const TempDirectory directory;
  setenv(kBecomeServer, Daemon::Program().c_str(), 1);
  Daemon daemon(BesideThis("idempotency_hostile"),
                FlagsOf(directory.file("store"), settings.has("control")));
  Tally tally(settings);
  std::string wrong = daemon.Start();
  unsetenv(kBecomeServer);
  if (wrong.empty()) wrong = StoreLargeAnswer(daemon);
  if (wrong.empty()) {
    Bystanders bystanders(daemon, kThreads);
    if (!bystanders.AwaitAll()) tally.Failed("bystanders are not answered though nothing goes on");
    TryAll(settings, daemon, &bystanders, &tally);
    bystanders.Stop();
    std::printf("%zu operations of bystanders\n", bystanders.completed());
    wrong = settings.has("control") ? "" : bystanders.Check(daemon, bystanders.completed());
  }
  if (!wrong.empty()) tally.Failed(wrong);
  daemon.Signal(SIGTERM);
  const int code = daemon.Wait();
  if (code != 0)
    tally.Failed("the server ended with " + std::to_string(code) + ":\n" + daemon.Log());
  return tally.Summary("attacks");
}

// Instead of all that: the server, with few descriptors.
int BecomeServer(const char* server, char** argv) {
  const rlimit few{kDescriptors, kDescriptors};
  if (setrlimit(RLIMIT_NOFILE, &few) != 0) return 126;
  execv(server, argv);
  return 127;
}

}  // namespace
}  // namespace idempotency::proof

int main(int argc, char** argv) {
  if (const char* server = std::getenv(idempotency::proof::kBecomeServer)) {
    return idempotency::proof::BecomeServer(server, argv);
  }
  return idempotency::proof::Run(argc, argv);
}
