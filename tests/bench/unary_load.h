// Unary calls, and Batch, which is one of many commands: completion queues, bytes in and out.
#ifndef IDEMPOTENCY_TESTS_BENCH_UNARY_LOAD_H_
#define IDEMPOTENCY_TESTS_BENCH_UNARY_LOAD_H_

#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "tests/bench/load.h"

namespace idempotency::bench {

// Thread safety: as Load.
class UnaryLoad : public Load {
 public:
  explicit UnaryLoad(Plan* plan);
  ~UnaryLoad() override;

 protected:
  // For other systems that speak gRPC: what stands for Reserve there.
  virtual const char* ReserveMethod() const;
  virtual void AppendRequest(const Caller& caller, std::string* out) const;
  // False where the bytes are not such an answer.
  virtual bool ScanAnswer(const Caller& caller, std::string_view bytes, Answer* answer) const;

 private:
  struct Call;
  struct Connection;

  void Open() override;
  void Send(Slot* slot) override;
  void Close() override;

  bool is_batch() const { return options().api == Api::kBatch; }
  void Serve(grpc::CompletionQueue* queue);
  void OnDone(Call* call, bool ok);
  void OnResults(Call* call, std::string_view bytes, int64_t now);

  std::vector<std::unique_ptr<grpc::CompletionQueue>> queues_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::unique_ptr<Call>> calls_;
  std::vector<std::thread> threads_;
};

}  // namespace idempotency::bench

#endif  // IDEMPOTENCY_TESTS_BENCH_UNARY_LOAD_H_
