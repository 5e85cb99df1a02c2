// Commands in messages on Pipeline streams, one stream a connection.
#ifndef IDEMPOTENCY_TESTS_BENCH_PIPELINE_LOAD_H_
#define IDEMPOTENCY_TESTS_BENCH_PIPELINE_LOAD_H_

#include <memory>
#include <thread>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "tests/bench/load.h"

namespace idempotency::bench {

// Thread safety: as Load.
class PipelineLoad final : public Load {
 public:
  explicit PipelineLoad(Plan* plan);
  ~PipelineLoad() override;

 private:
  struct Message;
  class Stream;

  void Open() override;
  void Send(Slot* slot) override;
  void Close() override;

  void Serve(grpc::CompletionQueue* queue);
  // Results from the service, of any messages of the stream.
  void OnResults(std::string_view bytes);
  // The stream has ended early, so that nothing of this message will be answered.
  void OnLost(Message* message, const std::string& why);

  std::vector<std::unique_ptr<grpc::CompletionQueue>> queues_;
  std::vector<std::unique_ptr<Message>> messages_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::thread> threads_;
};

}  // namespace idempotency::bench

#endif  // IDEMPOTENCY_TESTS_BENCH_PIPELINE_LOAD_H_
