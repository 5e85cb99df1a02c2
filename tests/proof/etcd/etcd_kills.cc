// Three members of etcd, of which the leader is killed with -9 again and again, and two
// idempotencyd on them under the load of eight clients, one of which is killed now and then as
// well: every acknowledged fact is there in the end, whichever server is asked, and no key is held
// twice.
#include <atomic>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/grpcpp.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "keystore/engine/etcd/etcd_client.h"
#include "tests/proof/crash/daemon.h"
#include "tests/proof/crash/program.h"
#include "tests/proof/sim/random.h"
#include "tests/support/becomes_true.h"
#include "tests/support/etcd_process.h"

namespace idempotency::proof {
namespace {

constexpr char kUsage[] =
    "usage: idempotency_etcd_kills [--seed=N] [--floor=N] [--seconds=N]\n"
    "\n"
    "Kills the leader of an etcd of three members, under load, and checks what was acknowledged.\n"
    "\n"
    "  --seed=N      of the clients' choices (1)\n"
    "  --floor=N     fewer kills than this are a failure (20)\n"
    "  --seconds=N   go on for so long (PROOF_SECONDS in the environment); else until the floor\n";

constexpr int kClients = 8;
constexpr uint64_t kSharedKeys = 50;
// A server is killed, too, at every so many kills of the leader.
constexpr int kServerKills = 4;
constexpr uint64_t kCallsBetweenKills = 150;
constexpr int kStartTries = 5;

template <typename Request>
Request ForKey(const std::string& key) {
  Request request;
  request.mutable_id()->set_namespace_("payments");
  request.mutable_id()->set_scope("acct_1");
  request.mutable_id()->set_key(key);
  return request;
}

v1::ReserveRequest ReserveOf(const std::string& key, const std::string& who) {
  auto request = ForKey<v1::ReserveRequest>(key);
  request.mutable_fingerprint()->set_algorithm("sha256/bytes-1");
  request.mutable_fingerprint()->set_digest(std::string(32, 'f'));
  request.set_attempt_id("attempt-of-" + who + "-0123456789");
  request.mutable_lease_duration()->set_seconds(3600);
  return request;
}

// Who holds what, of all clients together.
class Grants {
 public:
  // False where somebody else was granted the key, or the same one with another token.
  bool Add(const std::string& key, const std::string& who, uint64_t token) {
    absl::MutexLock lock(&mutex_);
    const auto [grant, first] = grants_.try_emplace(key, who, token);
    return first || grant->second == std::pair(who, token);
  }

 private:
  absl::Mutex mutex_;
  std::map<std::string, std::pair<std::string, uint64_t>> grants_ ABSL_GUARDED_BY(mutex_);
};

// The two servers, of which one may be down.
class Servers {
 public:
  explicit Servers(const std::vector<std::string>& flags) {
    for (int i = 0; i < 2; ++i) {
      daemons_.push_back(std::make_unique<Daemon>(Daemon::Program(), flags));
    }
  }
  std::string Start(size_t which) {
    const std::string wrong = daemons_[which]->Start();
    absl::MutexLock lock(&mutex_);
    channels_[which] = wrong.empty() ? daemons_[which]->Connect() : nullptr;
    return wrong;
  }
  void Kill(size_t which) { daemons_[which]->Kill(); }
  std::shared_ptr<grpc::Channel> Channel(size_t which) {
    absl::MutexLock lock(&mutex_);
    return channels_[which];
  }

 private:
  std::vector<std::unique_ptr<Daemon>> daemons_;
  absl::Mutex mutex_;
  std::map<size_t, std::shared_ptr<grpc::Channel>> channels_ ABSL_GUARDED_BY(mutex_);
};

class Client {
 public:
  Client(uint64_t seed, int number, Servers* servers, Grants* grants,
         std::atomic<uint64_t>* acknowledged)
      : random_(seed, static_cast<uint64_t>(number)),
        name_("client" + std::to_string(number)),
        servers_(*servers),
        grants_(*grants),
        acknowledged_(*acknowledged) {}

  void Run(const std::atomic<bool>& stop) {
    for (int i = 0; !stop && broken_.empty(); ++i) {
      if (random_.OneIn(4)) {
        Claim("shared-" + std::to_string(random_.Below(kSharedKeys)));
      } else {
        Own(name_ + "-" + std::to_string(i), stop);
      }
    }
  }

  // What it was told, asked of one server; "" or what is wrong.
  std::string Check(size_t server) {
    for (const auto& [key, fact] : facts_) {
      const v1::ReserveRequest request = ReserveOf(key, "the judge");
      v1::ReserveResponse response;
      grpc::Status status;
      // A member has just come back, and may be about to lead.
      BecomesTrue([&] {
        status = Reserve(server, request, &response);
        return status.ok();
      });
      if (!status.ok()) return key + " cannot be asked for: " + status.error_message();
      const auto expected =
          fact.completed ? v1::RESERVE_OUTCOME_COMPLETED : v1::RESERVE_OUTCOME_IN_PROGRESS;
      const bool perhaps = fact.perhaps && response.outcome() == v1::RESERVE_OUTCOME_COMPLETED;
      if (response.outcome() != expected && !perhaps) {
        return key + " is lost: " + response.ShortDebugString();
      }
      if (fact.completed && response.operation().response().body() != "answer to " + key) {
        return key + " has another answer";
      }
    }
    return {};
  }

  const std::string& broken() const { return broken_; }
  size_t facts() const { return facts_.size(); }

 private:
  struct Fact {
    bool completed = false;
    // It was asked to complete, and nobody answered.
    bool perhaps = false;
  };

  grpc::Status Reserve(size_t server, const v1::ReserveRequest& request,
                       v1::ReserveResponse* response) {
    const auto channel = servers_.Channel(server);
    if (channel == nullptr) return {grpc::StatusCode::UNAVAILABLE, "down"};
    grpc::ClientContext context;
    return v1::IdempotencyService::NewStub(channel)->Reserve(&context, request, response);
  }

  size_t AnyServer() { return random_.Below(2); }

  void Claim(const std::string& key) {
    v1::ReserveResponse response;
    if (!Reserve(AnyServer(), ReserveOf(key, name_), &response).ok()) return;
    ++acknowledged_;
    const bool granted = response.outcome() == v1::RESERVE_OUTCOME_ACQUIRED ||
                         response.outcome() == v1::RESERVE_OUTCOME_ALREADY_HELD;
    if (granted && !grants_.Add(key, name_, response.lease().fencing_token())) {
      broken_ = key + " was granted twice: " + response.ShortDebugString();
    }
  }

  // A key of its own: the same message until it is answered, by whichever server.
  void Own(const std::string& key, const std::atomic<bool>& stop) {
    v1::ReserveResponse response;
    while (!Reserve(AnyServer(), ReserveOf(key, name_), &response).ok()) {
      if (stop) return;
      WaitABit(5);
    }
    ++acknowledged_;
    if (response.outcome() != v1::RESERVE_OUTCOME_ACQUIRED &&
        response.outcome() != v1::RESERVE_OUTCOME_ALREADY_HELD) {
      broken_ = key + " is not granted: " + response.ShortDebugString();
      return;
    }
    if (!grants_.Add(key, name_, response.lease().fencing_token())) {
      broken_ = key + " is held with another token";
      return;
    }
    Fact& fact = facts_[key];
    if (random_.OneIn(5)) return;  // it stays open
    fact.perhaps = true;
    while (!stop && broken_.empty() && !Complete(key, response.lease().fencing_token(), fact)) {
      WaitABit(5);
    }
  }

  bool Complete(const std::string& key, uint64_t token, Fact& fact) {
    auto request = ForKey<v1::CompleteRequest>(key);
    request.set_fencing_token(token);
    request.set_verdict(v1::VERDICT_SUCCEEDED);
    request.mutable_response()->set_body("answer to " + key);
    v1::CompleteResponse response;
    const auto channel = servers_.Channel(AnyServer());
    if (channel == nullptr) return false;
    grpc::ClientContext context;
    const grpc::Status status =
        v1::IdempotencyService::NewStub(channel)->Complete(&context, request, &response);
    if (status.ok()) {
      ++acknowledged_;
      fact.completed = true;
      fact.perhaps = false;
    } else if (status.error_code() == grpc::StatusCode::FAILED_PRECONDITION ||
               status.error_code() == grpc::StatusCode::NOT_FOUND ||
               status.error_code() == grpc::StatusCode::ABORTED) {
      broken_ = key + " cannot be completed by its owner: " + status.error_message();
    }
    return status.ok();
  }

  Random random_;
  const std::string name_;
  Servers& servers_;
  Grants& grants_;
  std::atomic<uint64_t>& acknowledged_;
  std::map<std::string, Fact> facts_;
  std::string broken_;
};

class Proof {
 public:
  explicit Proof(const Settings& settings)
      : settings_(settings),
        etcd_(3, {"--heartbeat-interval=50", "--election-timeout=500"}),
        servers_(
            {"--engine=etcd", "--etcd_endpoints=" + etcd_.endpoints_flag(), "--log_level=error"}) {
    for (size_t i = 0; i < etcd_.size(); ++i) {
      keystore::EtcdOptions one;
      one.endpoints = {etcd_.member(i).endpoint()};
      members_.push_back(*keystore::EtcdClient::Open(one, [](int, std::string_view) {}));
    }
    for (int i = 0; i < kClients; ++i) {
      clients_.push_back(
          std::make_unique<Client>(settings.seed, i, &servers_, &grants_, &acknowledged_));
    }
  }

  int Run() {
    Tally tally(settings_);
    std::string wrong = AwaitLeader() < 0 ? "etcd has no leader" : StartServer(0);
    if (wrong.empty()) wrong = StartServer(1);
    if (wrong.empty()) wrong = Load(&tally);
    for (size_t server = 0; wrong.empty() && server < 2; ++server) wrong = CheckAll(server);
    if (!wrong.empty()) tally.Failed(wrong);
    size_t facts = 0;
    for (const auto& client : clients_) facts += client->facts();
    std::printf("%" PRIu64 " acknowledged calls, %zu operations\n", acknowledged_.load(), facts);
    return tally.Summary("kills of the leader");
  }

 private:
  std::string Load(Tally* tally) {
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (const auto& client : clients_) threads.emplace_back([&] { client->Run(stop); });
    std::string wrong;
    for (int kill = 1; wrong.empty() && tally->GoesOn(); ++kill) {
      wrong = KillLeader(kill);
      if (wrong.empty()) tally->Passed();
    }
    stop = true;
    for (std::thread& thread : threads) thread.join();
    for (const auto& client : clients_) {
      if (wrong.empty()) wrong = client->broken();
    }
    return wrong;
  }

  // Once the load has got on; and waits until it gets on again.
  std::string KillLeader(int kill) {
    if (!AwaitCalls()) return "nothing is acknowledged any more";
    const int leader = AwaitLeader();
    if (leader < 0) return "etcd has no leader";
    etcd_.member(static_cast<size_t>(leader)).Kill();
    const size_t server = static_cast<size_t>(kill) / kServerKills % 2;
    const bool both = kill % kServerKills == 0;
    if (both) servers_.Kill(server);
    const bool got_on = AwaitCalls();
    etcd_.member(static_cast<size_t>(leader)).Start();
    if (!got_on) return "two of three members acknowledge nothing";
    return both ? StartServer(server) : std::string();
  }

  bool AwaitCalls() {
    const uint64_t until = acknowledged_ + kCallsBetweenKills;
    return BecomesTrue([&] { return acknowledged_ >= until; });
  }

  // -1: nobody, for minutes.
  int AwaitLeader() {
    int leader = -1;
    BecomesTrue([&] {
      for (size_t i = 0; i < members_.size() && leader < 0; ++i) {
        if (!etcd_.member(i).running()) continue;
        const auto status = members_[i]->StatusNow();
        const bool leads = status.ok() && status->leader() != 0 &&
                           status->leader() == status->header().member_id();
        if (leads) leader = static_cast<int>(i);
      }
      return leader >= 0;
    });
    return leader;
  }

  // A server that finds no leader ends: whoever watches over it starts it again.
  std::string StartServer(size_t which) {
    std::string wrong;
    for (int tries = 0; tries < kStartTries; ++tries) {
      wrong = servers_.Start(which);
      if (wrong.empty() || AwaitLeader() < 0) break;
      servers_.Kill(which);
    }
    return wrong;
  }

  std::string CheckAll(size_t server) {
    for (const auto& client : clients_) {
      const std::string wrong = client->Check(server);
      if (!wrong.empty()) return "server " + std::to_string(server) + ": " + wrong;
    }
    return {};
  }

  const Settings settings_;
  EtcdCluster etcd_;
  std::vector<std::unique_ptr<keystore::EtcdClient>> members_;
  Servers servers_;
  Grants grants_;
  std::atomic<uint64_t> acknowledged_{0};
  std::vector<std::unique_ptr<Client>> clients_;
};

}  // namespace
}  // namespace idempotency::proof

int main(int argc, char** argv) {
  using namespace idempotency::proof;
  return Proof(ReadSettings(argc, argv, kUsage, {.floor = 20})).Run();
}
