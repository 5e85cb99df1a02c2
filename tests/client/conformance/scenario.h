// Plays one scenario of tests/vectors/conformance.json through the client.
#ifndef IDEMPOTENCY_TESTS_CLIENT_CONFORMANCE_SCENARIO_H_
#define IDEMPOTENCY_TESTS_CLIENT_CONFORMANCE_SCENARIO_H_

#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "idempotency/client.h"
#include "idempotency/connection.h"
#include "tests/client/conformance/faulty_connection.h"
#include "tests/client/conformance/script.h"
#include "tests/client/conformance/served.h"

namespace idempotency::testing {

// Thread safety: Play on one thread; it begins others for what is done in the background.
class Scenario {
 public:
  using Emit = std::function<void(Json line)>;

  // number: in the script's list, from 0. `data` and `served` must outlive it.
  Scenario(const Served& served, size_t number, const Json& data, Emit emit);

  void Play();

 private:
  struct Background {
    size_t number = 0;
    const Json* step = nullptr;
    std::future<Json> seen;
  };

  void EmitLine(size_t number, const Json& step, Json seen);
  // Which of the different tokens it is, in the order in which the trace shows them.
  void NumberToken(Json* shown);
  // What the line of the step has.
  Json Do(size_t number, const Json& step);
  Json Reserve(const Json& step);
  Json Renew(const Json& step);
  Json Complete(const Json& step);
  Json Release(const Json& step);
  Json MarkUnresolved(const Json& step);
  Json Get(const Json& step);
  Json Resolve(const Json& step);
  Json List(const Json& step);
  Json Batch(const Json& step);
  Json Await(const Json& step);
  Json Run(size_t number, const Json& step);
  EffectResult Effect(size_t number, const Json& effect, Attempt& attempt);

  OperationId IdOf(const Json& step) const;
  uint64_t TokenOf(const Json& step) ABSL_LOCKS_EXCLUDED(mutex_);
  void Save(const std::string& name, uint64_t token) ABSL_LOCKS_EXCLUDED(mutex_);
  std::string AttemptOf(const Json& step) ABSL_LOCKS_EXCLUDED(mutex_);
  ReserveRequest ReserveOf(const Json& step) ABSL_LOCKS_EXCLUDED(mutex_);
  RunRequest RequestOf(const Json& step) const;
  const std::shared_ptr<Connection>& ConnectionOf(const Json& step) const;

  const Served& served_;
  const size_t number_;
  const Json& data_;
  const Emit emit_;
  std::map<std::string, Background> background_;
  std::vector<uint64_t> shown_tokens_;

  absl::Mutex mutex_;
  std::map<std::string, uint64_t> leases_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> attempts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTS_CLIENT_CONFORMANCE_SCENARIO_H_
