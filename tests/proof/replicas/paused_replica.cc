// Two or three idempotencyd on one store, of which one is stopped (SIGSTOP) while owners report
// through it, until the leases have lapsed and others have acquired the keys through another
// server, and then goes on: each report that comes so late is refused, and leaves nothing but its
// trace. What is not answered is reported again, word for word.
#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "idempotency/v1/admin_service.grpc.pb.h"
#include "tests/proof/crash/program.h"
#include "tests/proof/replicas/fleet.h"
#include "tests/support/becomes_true.h"
#include "tests/support/etcd_process.h"
#include "tests/support/postgres_process.h"
#include "tests/support/temp_directory.h"

namespace idempotency::proof {
namespace {

constexpr char kUsage[] =
    "usage: idempotency_paused_replica --engine=etcd|postgres [--seed=N] [--floor=N] "
    "[--seconds=N]\n"
    "\n"
    "Stops one of several servers across a lapse, and checks that what comes late is fenced.\n"
    "\n"
    "  --engine=E    which store they share\n"
    "  --seed=N      who is stopped first (1)\n"
    "  --floor=N     fewer rounds than this are a failure (12)\n"
    "  --seconds=N   go on for so long (PROOF_SECONDS in the environment); else until the floor\n";

constexpr size_t kServers = 3;
constexpr char kNamespace[] = "rerun";
constexpr int kOwners = 16;
constexpr int kLeaseSeconds = 1;
constexpr int kLongLeaseSeconds = 36'000;
// Longer than anything is stopped.
constexpr int kPatienceSeconds = 300;
constexpr int kAskSeconds = 10;

// What an owner reports late.
enum class Report : uint8_t { kComplete, kRelease, kRenew, kMark };

struct Owner {
  std::string key;
  Report report = Report::kComplete;
  // It was sent when nothing of the server ran any more: it cannot have been in time.
  bool surely_late = false;
  uint64_t token = 0;
  // How often it was sent, and the last answer.
  uint64_t sent = 0;
  grpc::Status answer;
  std::string reason;
};

std::string ReasonOf(const grpc::ClientContext& context) {
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto reason = trailers.find("idempotency-reason");
  if (reason == trailers.end()) return {};
  return {reason->second.data(), reason->second.size()};
}

// The store, whichever it is.
class Store {
 public:
  explicit Store(const std::string& engine) {
    if (engine == "postgres") {
      postgres_ = std::make_unique<PostgresServer>();
      flags_ = {"--engine=postgres", "--postgres_uri=" + postgres_->TcpUri("proof")};
    } else {
      etcd_ = std::make_unique<EtcdCluster>(1);
      flags_ = {"--engine=etcd", "--etcd_endpoints=" + etcd_->endpoints_flag()};
    }
    // Where the outcome of an attempt is unknown, the next one may begin.
    const std::string config = directory_.file("config.yaml");
    std::ofstream(config) << "namespaces:\n  - name: " << kNamespace
                          << "\n    unknown_outcome: RERUN\n";
    flags_.push_back("--config=" + config);
    flags_.emplace_back("--log_level=error");
  }
  const std::vector<std::string>& flags() const { return flags_; }

 private:
  const TempDirectory directory_;
  std::unique_ptr<PostgresServer> postgres_;
  std::unique_ptr<EtcdCluster> etcd_;
  std::vector<std::string> flags_;
};

// One pause, of one of the first `servers`.
class Pause {
 public:
  Pause(Fleet* fleet, size_t servers, size_t paused, const std::string& name)
      : fleet_(*fleet), servers_(servers), paused_(paused) {
    for (int i = 0; i < kOwners; ++i) {
      Owner owner;
      owner.key = name + "-" + std::to_string(i);
      owner.report = static_cast<Report>(i % 4);
      owner.surely_late = i >= kOwners / 4;
      owners_.push_back(owner);
    }
  }

  // "" or what is wrong.
  std::string Run() {
    std::string wrong = Acquire();
    if (!wrong.empty()) return wrong;
    std::vector<std::thread> reports = SendReports(false);
    fleet_.Freeze(paused_);
    for (std::thread& late : SendReports(true)) reports.push_back(std::move(late));
    for (Owner& owner : owners_) {
      if (wrong.empty()) wrong = Challenge(owner);
    }
    fleet_.Thaw(paused_);
    for (std::thread& report : reports) report.join();
    for (Owner& owner : owners_) {
      if (wrong.empty()) wrong = Judge(owner);
    }
    for (size_t i = 0; wrong.empty() && i < servers_; ++i) wrong = Look(i);
    return wrong;
  }

  uint64_t fenced() const { return fenced_; }
  // How many reports had to be sent again.
  uint64_t again() const { return again_; }

 private:
  // What came of a key at last.
  struct End {
    uint64_t token = 0;
    // Zero: the owner's own report had come first.
    uint64_t challenger = 0;
  };

  std::unique_ptr<v1::IdempotencyService::Stub> Stub(size_t server) const {
    return v1::IdempotencyService::NewStub(fleet_.Channel(server));
  }
  size_t Other() const { return (paused_ + 1) % servers_; }

  std::string Acquire() {
    for (Owner& owner : owners_) {
      const auto request = ReserveFor(kNamespace, owner.key, "the owner", kLeaseSeconds);
      v1::ReserveResponse response;
      const std::string wrong = Ask(paused_, request, &response);
      if (!wrong.empty()) return owner.key + ": " + wrong;
      owner.token = response.lease().fencing_token();
    }
    return {};
  }

  // Each waits for its answer on a thread of its own.
  std::vector<std::thread> SendReports(bool late) {
    std::vector<std::thread> threads;
    for (Owner& owner : owners_) {
      if (owner.surely_late == late) threads.emplace_back([&] { Send(owner); });
    }
    return threads;
  }

  // Where its server, or the store, could not say what became of it, the owner says the same again.
  void Send(Owner& owner) const {
    owner.answer = UntilAnswered(kPatienceSeconds, [&](grpc::ClientContext* context) {
      ++owner.sent;
      const grpc::Status answer = SendOnce(owner, context);
      owner.reason = ReasonOf(*context);
      return answer;
    });
  }

  grpc::Status SendOnce(const Owner& owner, grpc::ClientContext* context) const {
    const auto stub = Stub(paused_);
    if (owner.report == Report::kComplete) {
      v1::CompleteResponse response;
      return stub->Complete(
          context, CompleteFor(kNamespace, owner.key, owner.token, "by the owner"), &response);
    }
    if (owner.report == Report::kRelease) {
      auto request = RequestFor<v1::ReleaseRequest>(kNamespace, owner.key);
      request.set_fencing_token(owner.token);
      v1::ReleaseResponse response;
      return stub->Release(context, request, &response);
    }
    if (owner.report == Report::kRenew) {
      auto request = RequestFor<v1::RenewRequest>(kNamespace, owner.key);
      request.set_fencing_token(owner.token);
      request.mutable_lease_duration()->set_seconds(kLeaseSeconds);
      v1::RenewResponse response;
      return stub->Renew(context, request, &response);
    }
    auto request = RequestFor<v1::MarkUnresolvedRequest>(kNamespace, owner.key);
    request.set_fencing_token(owner.token);
    request.set_cause(v1::UNRESOLVED_CAUSE_TIMEOUT);
    v1::MarkUnresolvedResponse response;
    return stub->MarkUnresolved(context, request, &response);
  }

  // Through another server, as soon as the lease has lapsed; and completes.
  std::string Challenge(Owner& owner) {
    const auto request = ReserveFor(kNamespace, owner.key, "the challenger", kLongLeaseSeconds);
    v1::ReserveResponse response;
    std::string wrong;
    const bool settled = BecomesTrue([&] {
      wrong = Ask(Other(), request, &response);
      return !wrong.empty() || response.outcome() == v1::RESERVE_OUTCOME_ACQUIRED ||
             response.outcome() == v1::RESERVE_OUTCOME_ALREADY_HELD ||
             response.outcome() == v1::RESERVE_OUTCOME_COMPLETED;
    });
    if (!wrong.empty()) return owner.key + ": " + wrong;
    if (!settled) return owner.key + " is never to be had: " + response.ShortDebugString();
    End end{.token = owner.token};
    if (response.outcome() != v1::RESERVE_OUTCOME_COMPLETED) {
      end.challenger = response.lease().fencing_token();
      if (end.challenger <= owner.token) return owner.key + ": a token that does not rise";
    } else if (owner.surely_late) {
      return owner.key + " is completed by an owner whose server stands still";
    }
    ends_.push_back(end);
    return {};
  }

  // What the owner was told, once its server went on.
  std::string Judge(const Owner& owner) {
    const End& end = ends_[static_cast<size_t>(&owner - owners_.data())];
    if (end.challenger == 0) {
      return owner.answer.ok() ? "" : owner.key + ": completed, and told " + owner.reason;
    }
    const bool fenced = owner.reason == "STALE_FENCING_TOKEN";
    fenced_ += fenced ? 1 : 0;
    again_ += owner.sent - 1;
    // One that was sent before may have been in time; to complete would have kept others away.
    const bool in_time =
        owner.answer.ok() && !owner.surely_late && owner.report != Report::kComplete;
    // Or its server had read the record, and looked at the clock when it went on: refused as well.
    const bool lapsed = owner.reason == "LEASE_LAPSED" && !owner.surely_late;
    if (fenced || in_time || lapsed) return {};
    return owner.key + ": a late report is told \"" + owner.reason + "\" " +
           owner.answer.error_message();
  }

  // All servers know of the same: the challenger holds it, or has completed it, and of a completion
  // that came late there is one trace.
  std::string Look(size_t server) {
    const auto admin = v1::IdempotencyAdminService::NewStub(fleet_.Channel(server));
    for (size_t i = 0; i < owners_.size(); ++i) {
      const Owner& owner = owners_[i];
      const End& end = ends_[i];
      if (end.challenger == 0) continue;
      if (server == 0) {
        const std::string wrong = CompleteAsChallenger(owner.key, end.challenger);
        if (!wrong.empty()) return wrong;
      }
      v1::InspectOperationResponse found;
      const grpc::Status status =
          UntilAnswered(kPatienceSeconds, [&](grpc::ClientContext* context) {
            return admin->InspectOperation(
                context, RequestFor<v1::InspectOperationRequest>(kNamespace, owner.key), &found);
          });
      if (!status.ok()) return owner.key + ": " + status.error_message();
      if (found.fencing_token() != end.challenger ||
          found.operation().response().body() != "by the challenger") {
        return owner.key + " is another: " + found.ShortDebugString();
      }
      const auto& history = found.operation().history();
      const auto traces = std::count_if(history.begin(), history.end(), [](const v1::Event& event) {
        return event.kind() == v1::EVENT_KIND_LATE_COMPLETION;
      });
      if (traces != (owner.report == Report::kComplete ? 1 : 0)) {
        return owner.key + " has " + std::to_string(traces) + " traces of late completions";
      }
    }
    return {};
  }

  std::string CompleteAsChallenger(const std::string& key, uint64_t token) const {
    v1::CompleteResponse response;
    // Through the one that stood still.
    const grpc::Status status = UntilAnswered(kPatienceSeconds, [&](grpc::ClientContext* context) {
      return Stub(paused_)->Complete(
          context, CompleteFor(kNamespace, key, token, "by the challenger"), &response);
    });
    return status.ok() ? "" : key + " cannot be completed: " + status.error_message();
  }

  // Until the store answers.
  std::string Ask(size_t server, const v1::ReserveRequest& request,
                  v1::ReserveResponse* response) const {
    grpc::Status status;
    BecomesTrue([&] {
      grpc::ClientContext context;
      GiveUpAfter(kAskSeconds, &context);
      status = Stub(server)->Reserve(&context, request, response);
      return IsAnswered(status);
    });
    return status.error_message();
  }

  Fleet& fleet_;
  const size_t servers_;
  const size_t paused_;
  std::vector<Owner> owners_;
  std::vector<End> ends_;
  uint64_t fenced_ = 0;
  uint64_t again_ = 0;
};

int Prove(const Settings& settings, const std::string& engine) {
  Tally tally(settings);
  const Store store(engine);
  Fleet fleet(kServers, store.flags());
  std::string wrong = fleet.StartAll();
  uint64_t fenced = 0;
  uint64_t again = 0;
  for (uint64_t number = 0; wrong.empty() && tally.GoesOn(); ++number) {
    // Of two and of three in turn.
    const size_t servers = 2 + number % 2;
    Pause pause(&fleet, servers, (settings.seed + number / 2) % servers,
                "round" + std::to_string(number));
    wrong = pause.Run();
    fenced += pause.fenced();
    again += pause.again();
    if (wrong.empty()) tally.Passed();
  }
  if (!wrong.empty()) tally.Failed(wrong);
  std::printf("%" PRIu64 " late reports were fenced; %" PRIu64 " were sent again\n", fenced, again);
  if (fenced == 0) tally.Failed("nothing was ever fenced");
  return tally.Summary("pauses across a lapse");
}

}  // namespace
}  // namespace idempotency::proof

int main(int argc, char** argv) {
  using namespace idempotency::proof;
  const Settings settings =
      ReadSettings(argc, argv, kUsage, {.floor = 12, .others = {{"engine", ""}}});
  const auto engine = settings.others.find("engine");
  const bool known =
      engine != settings.others.end() && (engine->second == "etcd" || engine->second == "postgres");
  if (!known) std::fprintf(stderr, "%s", kUsage);
  return known ? Prove(settings, engine->second) : 2;
}
