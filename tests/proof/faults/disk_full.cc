// A real file system that runs full under the server: new reservations are refused while there is
// still room, running operations can be completed (the ballast makes room for them), everything
// goes on once there is space again; and where not one block is left, nothing is acknowledged any
// more, the process exits, and the next start finds all that was.
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "grpcpp/grpcpp.h"
#include "idempotency/v1/admin_service.grpc.pb.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "keystore/clock.h"
#include "tests/proof/crash/daemon.h"
#include "tests/proof/crash/loop_volume.h"
#include "tests/proof/crash/program.h"

namespace idempotency::proof {
namespace {

constexpr char kUsage[] =
    "usage: idempotency_disk_full [--seed=N] [--floor=N] [--seconds=N]\n"
    "\n"
    "Fills the disk of idempotencyd, and gives the room back. Needs root and loop devices; "
    "without\n"
    "them it says so, and ends with 77.\n"
    "\n"
    "  --floor=N     fewer rounds than this are a failure (1)\n"
    "  --seconds=N   go on for so long (PROOF_SECONDS in the environment); else until the floor\n";

constexpr int kSkipped = 77;
constexpr int kExitEngineDead = 70;
constexpr uint64_t kMegabyte = uint64_t{1} << 20;
constexpr uint64_t kVolumeBytes = 700 * kMegabyte;
// Below 128 MiB free new keys are refused, below a quarter of that the ballast goes.
constexpr uint64_t kLittle = 80 * kMegabyte;
constexpr uint64_t kVeryLittle = 8 * kMegabyte;
constexpr core::Duration kPatience = std::chrono::seconds(20);

struct Call {
  Call() { context.set_deadline(std::chrono::system_clock::time_point::max()); }
  grpc::ClientContext context;
};

template <typename Request>
Request ForKey(const std::string& key) {
  Request request;
  request.mutable_id()->set_namespace_("payments");
  request.mutable_id()->set_scope("acct_1");
  request.mutable_id()->set_key(key);
  return request;
}

// One client, and what it was told.
class Client {
 public:
  void Connect(const Daemon& daemon) {
    stub_ = v1::IdempotencyService::NewStub(daemon.Connect());
    admin_ = v1::IdempotencyAdminService::NewStub(daemon.Connect());
  }

  // A key that nobody has asked for yet.
  grpc::Status ReserveNew() {
    const std::string key = "order-" + std::to_string(++keys_);
    auto request = ForKey<v1::ReserveRequest>(key);
    request.mutable_fingerprint()->set_algorithm("sha256/bytes-1");
    request.mutable_fingerprint()->set_digest(std::string(32, 'f'));
    request.set_attempt_id("attempt-" + key + "-0123456789");
    request.mutable_lease_duration()->set_seconds(3600);
    v1::ReserveResponse response;
    Call call;
    grpc::Status status = stub_->Reserve(&call.context, request, &response);
    if (status.ok()) tokens_[key] = response.lease().fencing_token();
    return status;
  }
  // One of the reserved keys.
  grpc::Status CompleteOne(size_t body_bytes) {
    const auto [key, token] = *tokens_.begin();
    auto request = ForKey<v1::CompleteRequest>(key);
    request.set_fencing_token(token);
    request.set_verdict(v1::VERDICT_SUCCEEDED);
    request.mutable_response()->set_body(key + std::string(body_bytes, '.'));
    v1::CompleteResponse response;
    Call call;
    grpc::Status status = stub_->Complete(&call.context, request, &response);
    if (status.ok()) {
      bodies_[key] = request.response().body();
      tokens_.erase(key);
    }
    return status;
  }
  size_t reserved() const { return tokens_.size(); }

  // "" or the first fact that is not there. `in_doubt`: the last completion has no answer.
  std::string Check() {
    for (const auto& [key, body] : bodies_) {
      const v1::Operation found = Inspect(key);
      if (found.state() != v1::OPERATION_STATE_COMPLETE || found.response().body() != body) {
        return key + " is not complete any more";
      }
    }
    for (const auto& [key, token] : tokens_) {
      const v1::OperationState state = Inspect(key).state();
      if (state != v1::OPERATION_STATE_PENDING && state != v1::OPERATION_STATE_COMPLETE) {
        return key + " is not held any more";
      }
    }
    return {};
  }

 private:
  v1::Operation Inspect(const std::string& key) {
    v1::InspectOperationResponse found;
    Call call;
    (void)admin_->InspectOperation(&call.context, ForKey<v1::InspectOperationRequest>(key), &found);
    return found.operation();
  }

  std::unique_ptr<v1::IdempotencyService::Stub> stub_;
  std::unique_ptr<v1::IdempotencyAdminService::Stub> admin_;
  std::map<std::string, uint64_t> tokens_;
  std::map<std::string, std::string> bodies_;
  uint64_t keys_ = 0;
};

// Asks again and again, as clients do, until it is so.
bool Becomes(const std::function<bool()>& so) {
  const core::Duration end = keystore::ReadKernelTime().boot + kPatience;
  while (!so()) {
    if (keystore::ReadKernelTime().boot > end) return false;
    std::this_thread::yield();
  }
  return true;
}

bool IsFull(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
}

class Round {
 public:
  Round()
      : volume_(kVolumeBytes),
        daemon_(Daemon::Program(), {"--data_dir=" + volume_.file("store"), "--ballast_mb=32",
                                    "--memtable_mb=1", "--log_level=warning"}) {}

  std::string Make() { return volume_.Make(); }

  std::string Play() {
    std::string wrong = daemon_.Start();
    if (!wrong.empty()) return wrong;
    client_.Connect(daemon_);
    for (int i = 0; i < 900; ++i) {
      if (!client_.ReserveNew().ok()) return "a reservation fails though there is room";
    }
    for (const auto& step : {&Round::Little, &Round::VeryLittle, &Round::RoomAgain,
                             &Round::NothingLeft, &Round::StartAgain}) {
      wrong = (this->*step)();
      if (!wrong.empty()) return wrong + "\n" + daemon_.Log();
    }
    return {};
  }

 private:
  std::string CompleteSome(int count, size_t body_bytes) {
    for (int i = 0; i < count; ++i) {
      const grpc::Status status = client_.CompleteOne(body_bytes);
      if (!status.ok()) return "a completion is refused: " + status.error_message();
    }
    return {};
  }

  std::string Little() {
    if (!volume_.Fill("first", volume_.FreeBytes() - kLittle)) return "cannot fill the disk";
    if (!Becomes([this] { return IsFull(client_.ReserveNew()); })) {
      return "new keys are granted on a disk that is nearly full";
    }
    return CompleteSome(50, 1000);
  }

  std::string VeryLittle() {
    if (!volume_.Fill("second", volume_.FreeBytes() - kVeryLittle)) return "cannot fill the disk";
    std::error_code error;
    const bool given_up = Becomes([&] {
      (void)client_.ReserveNew();
      return !std::filesystem::exists(volume_.file("store/ballast"), error);
    });
    if (!given_up) return "the ballast is not given up";
    // What it has made room for is not given to new keys.
    if (!IsFull(client_.ReserveNew())) return "the ballast's room is given to a new key";
    return CompleteSome(100, 100'000);
  }

  std::string RoomAgain() {
    std::filesystem::remove(volume_.file("first"));
    std::filesystem::remove(volume_.file("second"));
    if (!Becomes([this] { return client_.ReserveNew().ok(); })) {
      return "new keys are refused though there is room again";
    }
    return CompleteSome(20, 1000);
  }

  std::string NothingLeft() {
    volume_.FillUp("all");
    grpc::Status status = grpc::Status::OK;
    while (status.ok() && client_.reserved() > 1) {
      // What it gives up goes at once, too.
      volume_.FillUp("all");
      status = client_.CompleteOne(100'000);
    }
    if (status.error_code() != grpc::StatusCode::UNAVAILABLE) {
      return "not UNAVAILABLE where nothing can be written: " + status.error_message();
    }
    if (client_.CompleteOne(10).ok() || client_.ReserveNew().ok()) {
      return "acknowledged after a failed write";
    }
    const int code = daemon_.Wait();
    return code == kExitEngineDead ? "" : "exit code " + std::to_string(code);
  }

  std::string StartAgain() {
    std::filesystem::remove(volume_.file("all"));
    std::string wrong = daemon_.Start();
    if (!wrong.empty()) return wrong;
    client_.Connect(daemon_);
    wrong = client_.Check();
    if (!wrong.empty()) return wrong;
    if (!Becomes([this] { return client_.ReserveNew().ok(); })) return "nothing is granted again";
    daemon_.Signal(SIGTERM);
    const int code = daemon_.Wait();
    return code == 0 ? "" : "exit code " + std::to_string(code);
  }

  LoopVolume volume_;
  Daemon daemon_;
  Client client_;
};

int Prove(const Settings& settings) {
  Tally tally(settings);
  do {
    Round round;
    if (const std::string why = round.Make(); !why.empty()) {
      std::printf("SKIPPED: %s\n0 passed, 0 failed\n", why.c_str());
      return kSkipped;
    }
    const std::string wrong = round.Play();
    if (wrong.empty()) {
      tally.Passed();
    } else {
      tally.Failed(wrong);
    }
  } while (tally.GoesOn());
  return tally.Summary("full disks");
}

}  // namespace
}  // namespace idempotency::proof

int main(int argc, char** argv) {
  using namespace idempotency::proof;
  return Prove(ReadSettings(argc, argv, kUsage, {.floor = 1}));
}
