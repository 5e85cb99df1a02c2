#include "tests/proof/replicas/fleet.h"

#include <poll.h>
#include <signal.h>

#include <fstream>
#include <iterator>

#include "grpc/support/time.h"
#include "tests/proof/sim/random.h"
#include "tests/support/becomes_true.h"

namespace idempotency::proof {
namespace {

constexpr int kClients = 8;
constexpr uint64_t kSharedKeys = 50;
constexpr char kNamespace[] = "payments";
// Longer than any test.
constexpr int kLeaseSeconds = 36'000;
// Longer than a healthy store takes; one whose answers do not come is asked again.
constexpr int kCallSeconds = 10;
constexpr int kAgainMs = 5;

bool IsGranted(const v1::ReserveResponse& response) {
  return response.outcome() == v1::RESERVE_OUTCOME_ACQUIRED ||
         response.outcome() == v1::RESERVE_OUTCOME_ALREADY_HELD;
}

gpr_timespec InSeconds(int seconds) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(seconds, GPR_TIMESPAN));
}

// Whether every thread of the process is stopped, or is no more.
bool IsStopped(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  const std::string stat(std::istreambuf_iterator<char>(in), {});
  const size_t name_end = stat.rfind(") ");
  return name_end == std::string::npos || stat[name_end + 2] == 'T';
}

}  // namespace

v1::ReserveRequest ReserveFor(const std::string& name_space, const std::string& key,
                              const std::string& who, int lease_seconds) {
  auto request = RequestFor<v1::ReserveRequest>(name_space, key);
  request.mutable_fingerprint()->set_algorithm("sha256/bytes-1");
  request.mutable_fingerprint()->set_digest(std::string(32, 'f'));
  request.set_attempt_id("attempt-of-" + who + "-0123456789");
  request.mutable_lease_duration()->set_seconds(lease_seconds);
  return request;
}

v1::CompleteRequest CompleteFor(const std::string& name_space, const std::string& key,
                                uint64_t token, const std::string& body) {
  auto request = RequestFor<v1::CompleteRequest>(name_space, key);
  request.set_fencing_token(token);
  request.set_verdict(v1::VERDICT_SUCCEEDED);
  request.mutable_response()->set_body(body);
  return request;
}

void GiveUpAfter(int seconds, grpc::ClientContext* context) {
  context->set_deadline(InSeconds(seconds));
}

bool IsAnswered(const grpc::Status& status) {
  return status.error_code() != grpc::StatusCode::UNAVAILABLE &&
         status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED;
}

grpc::Status UntilAnswered(int seconds,
                           const std::function<grpc::Status(grpc::ClientContext*)>& ask) {
  const gpr_timespec until = InSeconds(seconds);
  grpc::Status status;
  BecomesTrue([&] {
    grpc::ClientContext context;
    context.set_deadline(until);
    status = ask(&context);
    return IsAnswered(status) || gpr_time_cmp(gpr_now(GPR_CLOCK_MONOTONIC), until) >= 0;
  });
  return status;
}

// --- The servers ---------------------------------------------------------------------------------

Fleet::Fleet(size_t servers, const std::vector<std::string>& flags) {
  for (size_t i = 0; i < servers; ++i) {
    daemons_.push_back(std::make_unique<Daemon>(Daemon::Program(), flags));
  }
}

std::string Fleet::Start(size_t which) {
  const std::string wrong = daemons_[which]->Start();
  absl::MutexLock lock(&mutex_);
  channels_[which] = wrong.empty() ? daemons_[which]->Connect() : nullptr;
  return wrong;
}

std::string Fleet::StartAll() {
  std::string wrong;
  for (size_t i = 0; i < size() && wrong.empty(); ++i) wrong = Start(i);
  return wrong;
}

void Fleet::Freeze(size_t which) {
  daemons_[which]->Signal(SIGSTOP);
  BecomesTrue([&] { return IsStopped(daemons_[which]->pid()); });
}

void Fleet::Thaw(size_t which) { daemons_[which]->Signal(SIGCONT); }

std::shared_ptr<grpc::Channel> Fleet::Channel(size_t which) const {
  absl::MutexLock lock(&mutex_);
  const auto found = channels_.find(which);
  return found == channels_.end() ? nullptr : found->second;
}

// --- One client ----------------------------------------------------------------------------------

bool Holders::Add(const std::string& key, const std::string& who, uint64_t token) {
  absl::MutexLock lock(&mutex_);
  const auto [holder, first] = holders_.try_emplace(key, who, token);
  return first || holder->second == std::pair(who, token);
}

class CrowdClient {
 public:
  CrowdClient(uint64_t seed, int number, const Fleet* fleet, Holders* holders,
              std::atomic<uint64_t>* acknowledged)
      : random_(seed, static_cast<uint64_t>(number)),
        name_("client" + std::to_string(number)),
        fleet_(*fleet),
        holders_(*holders),
        acknowledged_(*acknowledged) {}

  void Run(const std::atomic<bool>& stop) {
    while (!stop && broken_.empty()) {
      if (random_.OneIn(4)) {
        Claim("shared-" + std::to_string(random_.Below(kSharedKeys)));
      } else {
        Own(name_ + "-" + std::to_string(next_key_++), stop);
      }
    }
  }

  // What it was told, asked of one server; "" or what is wrong.
  std::string Check(size_t server) const {
    for (const auto& [key, fact] : facts_) {
      const v1::ReserveRequest request = ReserveFor(kNamespace, key, "the judge", kLeaseSeconds);
      v1::ReserveResponse response;
      grpc::Status status;
      // The store may have just come back.
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
                       v1::ReserveResponse* response) const {
    const auto channel = fleet_.Channel(server);
    if (channel == nullptr) return {grpc::StatusCode::UNAVAILABLE, "down"};
    grpc::ClientContext context;
    GiveUpAfter(kCallSeconds, &context);
    return v1::IdempotencyService::NewStub(channel)->Reserve(&context, request, response);
  }

  size_t AnyServer() { return random_.Below(fleet_.size()); }

  void Claim(const std::string& key) {
    v1::ReserveResponse response;
    const auto request = ReserveFor(kNamespace, key, name_, kLeaseSeconds);
    if (!Reserve(AnyServer(), request, &response).ok()) return;
    ++acknowledged_;
    if (IsGranted(response) && !holders_.Add(key, name_, response.lease().fencing_token())) {
      broken_ = key + " was granted twice: " + response.ShortDebugString();
    }
  }

  // A key of its own: the same message until it is answered, by whichever server.
  void Own(const std::string& key, const std::atomic<bool>& stop) {
    v1::ReserveResponse response;
    const auto request = ReserveFor(kNamespace, key, name_, kLeaseSeconds);
    while (!Reserve(AnyServer(), request, &response).ok()) {
      if (stop) return;
      poll(nullptr, 0, kAgainMs);
    }
    ++acknowledged_;
    if (!IsGranted(response)) {
      broken_ = key + " is not granted: " + response.ShortDebugString();
      return;
    }
    if (!holders_.Add(key, name_, response.lease().fencing_token())) {
      broken_ = key + " is held with another token";
      return;
    }
    Fact& fact = facts_[key];
    if (random_.OneIn(5)) return;  // it stays open
    fact.perhaps = true;
    while (!stop && broken_.empty() && !Complete(key, response.lease().fencing_token(), fact)) {
      poll(nullptr, 0, kAgainMs);
    }
  }

  bool Complete(const std::string& key, uint64_t token, Fact& fact) {
    const auto channel = fleet_.Channel(AnyServer());
    if (channel == nullptr) return false;
    grpc::ClientContext context;
    GiveUpAfter(kCallSeconds, &context);
    v1::CompleteResponse response;
    const grpc::Status status = v1::IdempotencyService::NewStub(channel)->Complete(
        &context, CompleteFor(kNamespace, key, token, "answer to " + key), &response);
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
  const Fleet& fleet_;
  Holders& holders_;
  std::atomic<uint64_t>& acknowledged_;
  std::map<std::string, Fact> facts_;
  uint64_t next_key_ = 0;
  std::string broken_;
};

// --- All of them ---------------------------------------------------------------------------------

Crowd::Crowd(uint64_t seed, const Fleet* fleet) : fleet_(fleet) {
  for (int i = 0; i < kClients; ++i) {
    clients_.push_back(std::make_unique<CrowdClient>(seed, i, fleet, &holders_, &acknowledged_));
  }
}

Crowd::~Crowd() { Stop(); }

void Crowd::Start() {
  stop_ = false;
  for (const auto& client : clients_) {
    threads_.emplace_back([this, one = client.get()] {
      one->Run(stop_);
      if (!one->broken().empty()) somebody_broke_ = true;
    });
  }
}

std::string Crowd::Stop() {
  stop_ = true;
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  for (const auto& client : clients_) {
    if (!client->broken().empty()) return client->broken();
  }
  return {};
}

bool Crowd::AwaitCalls(uint64_t more) const {
  const uint64_t until = acknowledged_ + more;
  BecomesTrue([&] { return acknowledged_ >= until || somebody_broke_; });
  return acknowledged_ >= until && !somebody_broke_;
}

std::string Crowd::Check(size_t server) const {
  for (const auto& client : clients_) {
    const std::string wrong = client->Check(server);
    if (!wrong.empty()) return "server " + std::to_string(server) + ": " + wrong;
  }
  return {};
}

std::string Crowd::CheckAll() const {
  std::string wrong;
  for (size_t i = 0; i < fleet_->size() && wrong.empty(); ++i) wrong = Check(i);
  return wrong;
}

size_t Crowd::facts() const {
  size_t facts = 0;
  for (const auto& client : clients_) facts += client->facts();
  return facts;
}

}  // namespace idempotency::proof
