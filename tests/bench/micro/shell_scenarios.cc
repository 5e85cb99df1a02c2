// The key store's shell: lanes, over memory and over RocksDB.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "keystore/clock.h"
#include "keystore/engine/memory_engine.h"
#include "keystore/key_store.h"
#include "tests/bench/micro/ingredients.h"
#include "tests/bench/micro/scenario.h"
#include "tests/bench/micro/scratch_store.h"

namespace idempotency::bench {
namespace {

using keystore::KeyStore;
using keystore::Reply;
using keystore::ReplyCallback;
using keystore::Request;

constexpr size_t kBatches[] = {1, 32, 256};
// A memory engine keeps everything; after so many keys it begins anew.
constexpr uint64_t kMaxKeysInMemory = 65'536;
// How many keys are replayed, in turn. At most what one SubmitAll may queue.
constexpr size_t kReplayed = 4096;

using Requests = std::vector<std::pair<Request, ReplyCallback>>;

Request RequestOf(uint64_t number, core::Command command) {
  return {.key = KeyOf(number), .command = std::move(command), .policy = DefaultPolicy()};
}

// A key store over an engine of its own.
class Service {
 public:
  Service(const Settings& settings, bool durable) {
    if (durable) store_.emplace(settings);
    keystore::Engine& engine = durable ? static_cast<keystore::Engine&>(store_->engine()) : memory_;
    keys_ = std::make_unique<KeyStore>(&engine, &clock_, nullptr);
  }

  // As one message, or a unary call where it is but one. Every answer has come at the end.
  void Send(Requests requests) {
    if (requests.size() == 1) {
      keys_->Submit(std::move(requests[0].first), std::move(requests[0].second));
    } else {
      keys_->SubmitAll(std::move(requests));
    }
  }

 private:
  std::optional<ScratchStore> store_;
  keystore::MemoryEngine memory_;
  keystore::ManualClock clock_{kNow};
  std::unique_ptr<KeyStore> keys_;
};

// --- Answers, each required to be the one expected ----------------------------------------------

ReplyCallback IntoToken(uint64_t* token) {
  return [token](const Reply& reply) {
    const auto* answer = std::get_if<core::ReserveAnswer>(&reply.answer);
    Require(answer != nullptr && answer->outcome == core::ReserveOutcome::kAcquired,
            "a fresh key was not acquired");
    *token = answer->lease->token;
  };
}

ReplyCallback CountCompleted(size_t* count) {
  return [count](const Reply& reply) {
    Require(std::holds_alternative<core::CompleteAnswer>(reply.answer),
            "an operation was not completed");
    ++*count;
  };
}

ReplyCallback CountReplayed(size_t* count) {
  return [count](const Reply& reply) {
    const auto* answer = std::get_if<core::ReserveAnswer>(&reply.answer);
    Require(answer != nullptr && answer->outcome == core::ReserveOutcome::kCompleted,
            "a complete operation was not replayed");
    ++*count;
  };
}

// Reserve and Complete of a batch of keys, each verb in one message.
class LifeCycle {
 public:
  explicit LifeCycle(size_t batch) : tokens_(batch) {}

  void Prepare(uint64_t first) {
    completed_ = 0;
    reserves_.clear();
    completes_.clear();
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const uint64_t number = first + i;
      reserves_.emplace_back(RequestOf(number, ReserveOf(number)), IntoToken(&tokens_[i]));
      completes_.emplace_back(RequestOf(number, CompleteOf(number, 0)),
                              CountCompleted(&completed_));
    }
  }

  void Run(Service& service) {
    service.Send(std::move(reserves_));
    for (size_t i = 0; i < tokens_.size(); ++i) {
      std::get<core::CompleteCommand>(completes_[i].first.command).token = tokens_[i];
    }
    service.Send(std::move(completes_));
    Require(completed_ == tokens_.size(), "an answer is missing");
  }

 private:
  std::vector<uint64_t> tokens_;
  Requests reserves_;
  Requests completes_;
  size_t completed_ = 0;
};

// --- Scenarios ----------------------------------------------------------------------------------

class LifeCycleScenario : public Scenario {
 public:
  LifeCycleScenario(const Settings& settings, size_t batch, bool durable)
      : Scenario(batch), settings_(settings), durable_(durable), life_cycle_(batch) {}

  void Prepare() override {
    if (service_ == nullptr || (!durable_ && in_service_ >= kMaxKeysInMemory)) {
      service_ = std::make_unique<Service>(settings_, durable_);
      in_service_ = 0;
    }
    life_cycle_.Prepare(number_);
    number_ += operations();
    in_service_ += operations();
  }
  void Run() override { life_cycle_.Run(*service_); }

 private:
  const Settings settings_;
  const bool durable_;
  std::unique_ptr<Service> service_;
  uint64_t in_service_ = 0;
  uint64_t number_ = 0;
  LifeCycle life_cycle_;
};

// Reserve of keys that are complete.
class ReplayScenario : public Scenario {
 public:
  ReplayScenario(const Settings& settings, size_t batch, bool durable)
      : Scenario(batch), service_(settings, durable) {
    LifeCycle life_cycle(kReplayed);
    life_cycle.Prepare(0);
    life_cycle.Run(service_);
  }

  void Prepare() override {
    requests_.clear();
    replayed_ = 0;
    for (size_t i = 0; i < operations(); ++i, ++number_) {
      requests_.emplace_back(RequestOf(number_ % kReplayed, ReserveOf(number_ % kReplayed)),
                             CountReplayed(&replayed_));
    }
  }
  void Run() override {
    service_.Send(std::move(requests_));
    Require(replayed_ == operations(), "an answer is missing");
  }

 private:
  Service service_;
  uint64_t number_ = 0;
  Requests requests_;
  size_t replayed_ = 0;
};

template <typename Kind>
void AddBatches(ScenarioEntries& entries, const std::string& name, bool durable) {
  for (const size_t batch : kBatches) {
    entries.push_back({name + "/" + std::to_string(batch), [=](const Settings& settings) {
                         return std::unique_ptr<Scenario>(
                             std::make_unique<Kind>(settings, batch, durable));
                       }});
  }
}

}  // namespace

void AddShellScenarios(ScenarioEntries& entries) {
  AddBatches<LifeCycleScenario>(entries, "shell_memory/life_cycle", false);
  AddBatches<ReplayScenario>(entries, "shell_memory/replay", false);
  AddBatches<LifeCycleScenario>(entries, "shell_rocksdb/life_cycle", true);
  AddBatches<ReplayScenario>(entries, "shell_rocksdb/replay", true);
}

}  // namespace idempotency::bench
