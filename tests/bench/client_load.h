// Callers that use the C++ client library as a service would: a thread each, in blocking calls
// of one shared Connection.
#ifndef IDEMPOTENCY_TESTS_BENCH_CLIENT_LOAD_H_
#define IDEMPOTENCY_TESTS_BENCH_CLIENT_LOAD_H_

#include <memory>
#include <vector>

#include "idempotency/connection.h"
#include "tests/bench/load.h"

namespace idempotency::bench {

// Thread safety: as Load.
class ClientLoad final : public Load {
 public:
  explicit ClientLoad(Plan* plan);
  ~ClientLoad() override;

 private:
  struct CallerThread;

  void Open() override;
  void Send(Slot* slot) override;
  void Close() override;

  void Serve(CallerThread* thread);
  void MakeCall(CallerThread* thread);

  std::vector<std::shared_ptr<Connection>> connections_;
  std::vector<std::unique_ptr<CallerThread>> callers_;
};

}  // namespace idempotency::bench

#endif  // IDEMPOTENCY_TESTS_BENCH_CLIENT_LOAD_H_
