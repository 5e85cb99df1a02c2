// Many of the largest answers asked for at once: the server shows them part by part, and its memory
// stays far below what they are together.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "grpc/support/time.h"
#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "keystore/core/limits.h"
#include "service/front/held_answers.h"
#include "tests/bench/clock.h"
#include "tests/proof/crash/daemon.h"
#include "tests/proof/crash/program.h"
#include "tests/proof/overload/process.h"
#include "tests/support/temp_directory.h"

namespace idempotency::proof {
namespace {

constexpr char kUsage[] =
    "usage: idempotency_large_answers [--floor=N] [--control]\n"
    "\n"
    "Stores answers of 3 MiB in idempotencyd, asks for all of them in one batch and then in calls "
    "of\n"
    "their own, and looks at its memory.\n"
    "\n"
    "  --floor=N     how many answers (300)\n"
    "  --control     holds the peak against a bound that no server could keep: not to notice it "
    "is\n"
    "                the failure\n";

constexpr size_t kAnswerBytes = size_t{3} * 1024 * 1024;
// What the server's bounds let it hold at once, however slowly it goes on: one read of the store
// (core::kMaxReadBytes, and 32 keys more: keystore/README.md) as it is stored, as records, and as
// much again that the allocator keeps between two of them; the answers that are made and not sent
// yet; and what a server has without answers.
constexpr size_t kReadBytes = core::kMaxReadBytes + 32 * kAnswerBytes;
constexpr size_t kRestBytes = size_t{64} * 1024 * 1024;
constexpr double kMebibyte = 1024.0 * 1024.0;
constexpr double kMostMib =
    static_cast<double>(3 * kReadBytes + service::kMaxHeldAnswerBytes + kRestBytes) / kMebibyte;
constexpr double kNoServerMib = 1;
constexpr int64_t kCallSeconds = 60;
constexpr int64_t kPauseNanos = 100 * bench::kNanosPerMilli;

gpr_timespec Deadline() {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_seconds(kCallSeconds, GPR_TIMESPAN));
}

struct Call {
  Call() { context.set_deadline(Deadline()); }
  grpc::ClientContext* get() { return &context; }
  grpc::ClientContext context;
};

v1::ReserveRequest ReserveOf(size_t number) {
  v1::ReserveRequest request;
  request.mutable_id()->set_namespace_("large");
  request.mutable_id()->set_scope("acct_1");
  request.mutable_id()->set_key("large-" + std::to_string(number));
  request.mutable_fingerprint()->set_algorithm("sha256/bytes-1");
  request.mutable_fingerprint()->set_digest(std::string(32, 'f'));
  request.set_attempt_id("attempt-0123456789abcdef");
  return request;
}

class LargeAnswers {
 public:
  explicit LargeAnswers(size_t count)
      : count_(count),
        daemon_(Daemon::Program(),
                {"--data_dir=" + directory_.file("store"), "--ballast_mb=0", "--memtable_mb=8",
                 "--block_cache_mb=8", "--config=" + directory_.file("config.yaml")}) {
    std::ofstream(directory_.file("config.yaml"))
        << "namespaces:\n  large: {max_response_bytes: " << kAnswerBytes << "}\n";
  }

  std::string Store() {
    std::string wrong = daemon_.Start();
    if (!wrong.empty()) return wrong;
    stub_ = v1::IdempotencyService::NewStub(daemon_.Connect());
    for (size_t i = 0; i < count_; ++i) {
      v1::ReserveResponse reserved;
      const grpc::Status granted = Reserve(ReserveOf(i), &reserved);
      v1::CompleteRequest request;
      *request.mutable_id() = ReserveOf(i).id();
      request.set_fencing_token(reserved.lease().fencing_token());
      request.set_verdict(v1::VERDICT_SUCCEEDED);
      request.mutable_response()->set_body(std::string(kAnswerBytes, 'x'));
      v1::CompleteResponse completed;
      const grpc::Status status = stub_->Complete(Call().get(), request, &completed);
      if (!granted.ok() || !status.ok()) return granted.error_message() + status.error_message();
    }
    return "";
  }

  // One answer fits, the others ask to be asked for by themselves.
  std::string AskInOneBatch() {
    v1::BatchRequest request;
    for (size_t i = 0; i < count_; ++i) *request.add_commands()->mutable_reserve() = ReserveOf(i);
    v1::BatchResponse response;
    const grpc::Status status = stub_->Batch(Call().get(), request, &response);
    if (!status.ok()) return "the batch: " + status.error_message();
    const auto& results = response.results();
    const auto shown = std::count_if(results.begin(), results.end(), [](const v1::Result& result) {
      return result.reserve().operation().response().body().size() == kAnswerBytes;
    });
    return shown == 1 ? "" : std::to_string(shown) + " answers in a batch";
  }

  // All calls at once; each is answered, or told to come back, and comes back.
  std::string AskOneByOne() {
    std::vector<size_t> open(count_);
    for (size_t i = 0; i < count_; ++i) open[i] = i;
    for (size_t rounds = 0; !open.empty(); ++rounds) {
      if (rounds > count_) return "nothing is answered any more";
      std::string wrong = AskFor(&open);
      if (!wrong.empty()) return wrong;
    }
    return "";
  }

  std::string Log() const { return daemon_.Log(); }
  double peak_mib() const { return PeakOf(daemon_.pid()); }
  void ForgetPeak() { ForgetPeakOf(daemon_.pid()); }

 private:
  // Whoever is told OVERLOADED comes back: the store may stall where a disk is slow.
  grpc::Status Reserve(const v1::ReserveRequest& request, v1::ReserveResponse* response) {
    const int64_t patience = bench::MonotonicNanos() + kCallSeconds * bench::kNanosPerSecond;
    for (;;) {
      grpc::Status status = stub_->Reserve(Call().get(), request, response);
      if (status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED ||
          bench::MonotonicNanos() > patience) {
        return status;
      }
      bench::SleepUntil(bench::MonotonicNanos() + kPauseNanos);
    }
  }

  struct Question {
    size_t number = 0;
    Call call;
    v1::ReserveResponse response;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::ReserveResponse>> reader;
  };

  // Leaves in *open those that have to be asked for again.
  std::string AskFor(std::vector<size_t>* open) {
    grpc::CompletionQueue queue;
    std::vector<std::unique_ptr<Question>> questions;
    for (const size_t number : *open) {
      Question& question = *questions.emplace_back(std::make_unique<Question>());
      question.number = number;
      question.reader = stub_->AsyncReserve(question.call.get(), ReserveOf(number), &queue);
      question.reader->Finish(&question.response, &question.status, &question);
    }
    std::string wrong;
    std::vector<size_t> again;
    for (size_t i = 0; i < questions.size(); ++i) {
      void* tag = nullptr;
      bool ok = false;
      queue.Next(&tag, &ok);
      Question& question = *static_cast<Question*>(tag);
      if (question.status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
        again.push_back(question.number);
      } else if (!question.status.ok()) {
        wrong = "a replay: " + question.status.error_message();
      } else if (question.response.operation().response().body().size() != kAnswerBytes) {
        wrong = "a replay without its body";
      }
      // The client keeps none of them.
      question.response.Clear();
    }
    queue.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue.Next(&tag, &ok)) {
    }
    *open = std::move(again);
    return wrong;
  }

  const size_t count_;
  const TempDirectory directory_;
  Daemon daemon_;
  std::unique_ptr<v1::IdempotencyService::Stub> stub_;
};

int Prove(const Settings& settings) {
  Tally tally(settings);
  LargeAnswers answers(settings.floor);
  std::string wrong = answers.Store();
  const double most = settings.has("control") ? kNoServerMib : kMostMib;
  std::string above;
  const auto ask = [&](const char* how, std::string (LargeAnswers::*question)()) {
    if (!wrong.empty()) return;
    answers.ForgetPeak();
    wrong = (answers.*question)();
    const double peak = answers.peak_mib();
    std::printf("%s: peak %.0f MiB\n", how, peak);
    if (peak > most) above = std::string(how) + ": more than " + std::to_string(most) + " MiB";
  };
  ask("one batch", &LargeAnswers::AskInOneBatch);
  ask("one by one", &LargeAnswers::AskOneByOne);
  // What the server says of it: whether it cut the connection off, and why.
  if (!wrong.empty()) tally.Failed(wrong + "\n" + answers.Log());
  if (settings.has("control")) {
    const bool noticed = wrong.empty() && !above.empty();
    std::printf("%s\n%d passed, %d failed\n", above.c_str(), noticed ? 1 : 0, noticed ? 0 : 1);
    return noticed ? 0 : 1;
  }
  if (!above.empty()) tally.Failed(above);
  tally.Passed(settings.floor);
  return tally.Summary("answers");
}

}  // namespace
}  // namespace idempotency::proof

int main(int argc, char** argv) {
  using namespace idempotency::proof;
  return Prove(ReadSettings(argc, argv, kUsage, {.floor = 300, .others = {{"control", ""}}}));
}
