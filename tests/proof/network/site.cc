#include "tests/proof/network/site.h"

#include <signal.h>

#include <fstream>

#include "absl/time/time.h"
#include "tests/proof/network/spaces.h"

namespace idempotency::proof::network {
namespace {

constexpr size_t kGroups = 4;
constexpr size_t kEtcdMembers = 3;
// Between two blows, on average.
constexpr uint64_t kPeaceAlone = 2'000;
constexpr uint64_t kPeaceShared = 400;
// While a server stands still.
constexpr uint64_t kAnswersOfAPause = 60;
constexpr absl::Duration kPatience = absl::Seconds(60);
// A server that finds no leader ends.
constexpr int kStartTries = 5;

// Connections live for some hundred calls.
Fate DrawFate(Random& random) {
  Fate fate;
  fate.after_bytes = 500 + random.Below(100'000);
  fate.shared = random.Percent(8);
  const auto hold = [&](uint64_t least, uint64_t most) {
    fate.hold = std::chrono::milliseconds(least + random.Below(most - least));
  };
  const uint64_t draw = random.Below(100);
  if (draw < 42) {
    fate.trouble = Trouble::kDelay;
    // A few come after the caller has given up.
    random.OneIn(12) ? hold(300, 500) : hold(1, 30);
  } else if (draw < 53) {
    fate.trouble = Trouble::kDrop;
  } else if (draw < 64) {
    fate.trouble = Trouble::kCutRequest;
  } else if (draw < 75) {
    fate.trouble = Trouble::kCutReply;
  } else if (draw < 86) {
    fate.trouble = Trouble::kReset;
  } else if (draw < 94) {
    fate.trouble = Trouble::kSwallowReplies;
    hold(20, 350);
  } else {
    fate.trouble = Trouble::kBlackHole;
    hold(20, 350);
    if (random.OneIn(3)) fate.after_bytes = 0;
  }
  return fate;
}

}  // namespace

// One server, and the proxy in front of it.
struct Site::Door {
  Door(const Site& site, size_t number, const std::vector<std::string>& flags)
      : random(site.options_.seed, 1 + 100 * number),
        daemon(site.options_.program, flags),
        proxy(kGroups, [this, &site](uint64_t) {
          return site.options_.troubled && !site.calm_ ? DrawFate(random) : Fate{};
        }) {}

  Random random;  // of the proxy's thread
  Daemon daemon;
  TroubledProxy proxy;
};

Site::Site(const SiteOptions& options) : options_(options), random_(options.seed, 2) {
  if (options.store == Store::kEtcd) {
    etcd_.emplace(kEtcdMembers,
                  std::vector<std::string>{"--heartbeat-interval=50", "--election-timeout=500"});
  }
  if (options.store == Store::kPostgres) postgres_.emplace();
  const std::vector<std::string> flags = Flags();
  for (size_t i = 0; i < options.servers; ++i) {
    doors_.push_back(std::make_unique<Door>(*this, i, flags));
  }
  if (options.blows == Blows::kNone) return;
  met_["killed server"] = 0;
  if (options.blows == Blows::kAll) met_["drained server"] = 0;
  if (options.blows == Blows::kAll && shared()) met_["stopped server"] = met_["killed store"] = 0;
}

Site::~Site() = default;

std::vector<std::string> Site::Flags() {
  std::ofstream(directory_.file("config.yaml")) << SpacesAsYaml();
  std::vector<std::string> flags{"--config=" + directory_.file("config.yaml"),
                                 "--log_level=warning"};
  if (options_.store == Store::kRocksDb) {
    flags.push_back("--data_dir=" + directory_.file("store"));
    flags.insert(flags.end(), {"--ballast_mb=0", "--memtable_mb=4"});
  } else {
    // One machine has one clock.
    flags.emplace_back("--clock_skew_ms=0");
  }
  if (etcd_.has_value()) {
    flags.insert(flags.end(), {"--engine=etcd", "--etcd_endpoints=" + etcd_->endpoints_flag()});
  }
  if (postgres_.has_value()) {
    flags.insert(flags.end(),
                 {"--engine=postgres", "--postgres_uri=" + postgres_->TcpUri("proof")});
  }
  flags.insert(flags.end(), options_.more_flags.begin(), options_.more_flags.end());
  return flags;
}

std::string Site::Start() {
  std::string wrong;
  for (size_t i = 0; i < doors_.size() && wrong.empty(); ++i) wrong = StartServer(i);
  return wrong;
}

std::string Site::StartServer(size_t which) {
  Door& door = *doors_[which];
  std::string wrong = door.daemon.Start();
  for (int i = 1; i < kStartTries && !wrong.empty() && shared(); ++i) {
    door.daemon.Kill();
    wrong = door.daemon.Start();
  }
  if (wrong.empty()) door.proxy.SetUpstream(door.daemon.port());
  return wrong;
}

// --- Bad things ----------------------------------------------------------------------------------

std::string Site::Disturb(Board& board) {
  if (options_.blows == Blows::kNone) return {};
  const size_t which = random_.Below(doors_.size());
  if (options_.blows == Blows::kKills) return Kill(which);
  switch (blows_++ % (shared() ? 4 : 2)) {
    case 0:
      return Kill(which);
    case 1:
      return Drain(which);
    case 2:
      return Pause(which, board);
    default:
      return HurtStore(board);
  }
}

std::string Site::Kill(size_t which) {
  ++met_["killed server"];
  doors_[which]->proxy.SetUpstream(0);
  doors_[which]->daemon.Kill();
  return StartServer(which);
}

std::string Site::Drain(size_t which) {
  ++met_["drained server"];
  Door& door = *doors_[which];
  door.proxy.SetUpstream(0);
  door.daemon.Signal(SIGTERM);
  const int code = door.daemon.Wait();
  if (code == 0) return StartServer(which);
  return "drained with exit code " + std::to_string(code) + "\n" + door.daemon.Log();
}

// The others go on.
std::string Site::Pause(size_t which, Board& board) {
  ++met_["stopped server"];
  doors_[which]->daemon.Signal(SIGSTOP);
  const bool answered = board.WaitForAnswers(board.answers() + kAnswersOfAPause, kPatience);
  doors_[which]->daemon.Signal(SIGCONT);
  return answered || !board.wrong().empty() ? "" : "the other servers answer nothing";
}

std::string Site::HurtStore(Board& board) {
  ++met_["killed store"];
  if (etcd_.has_value()) {
    EtcdMember& member = etcd_->member(random_.Below(etcd_->size()));
    member.Kill();
    // Before it is back the others have to do.
    const bool answered = board.WaitForAnswers(board.answers() + kAnswersOfAPause, kPatience);
    member.Start();
    return answered || !board.wrong().empty() ? "" : "two of three members of etcd answer nothing";
  }
  postgres_->Kill();
  postgres_->Start();
  const bool answered = board.WaitForAnswers(board.answers() + kAnswersOfAPause, kPatience);
  return answered || !board.wrong().empty() ? "" : "PostgreSQL is back, and nothing is answered";
}

// --- What is to be known of it -------------------------------------------------------------------

std::vector<int> Site::ports() const {
  std::vector<int> ports;
  for (const auto& door : doors_) ports.push_back(door->proxy.port());
  return ports;
}

std::vector<int> Site::own_ports() const {
  std::vector<int> ports;
  for (const auto& door : doors_) ports.push_back(door->daemon.port());
  return ports;
}

uint64_t Site::DrawPeace() {
  const uint64_t peace = shared() ? kPeaceShared : kPeaceAlone;
  return peace / 2 + random_.Below(peace);
}

uint64_t Site::connections() const {
  uint64_t connections = 0;
  for (const auto& door : doors_) connections += door->proxy.connections();
  return connections;
}

std::map<std::string, uint64_t> Site::met() const {
  std::map<std::string, uint64_t> met;
  for (const auto& [what, count] : met_) met["network: " + what] = count;
  for (const auto& door : doors_) {
    for (size_t i = 1; i < kTroubles; ++i) {
      const auto trouble = static_cast<Trouble>(i);
      met["network: " + std::string(Name(trouble))] += door->proxy.met(trouble);
    }
    met["network: shared fate"] += door->proxy.shared();
  }
  return met;
}

}  // namespace idempotency::proof::network
