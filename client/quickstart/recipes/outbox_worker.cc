// An outbox: what is to be sent is written in the same transaction as the change it tells of, with
// a key of its own, and a worker sends it later. A worker that dies between sending a row and
// noting that it was sent leaves the next one in doubt; the key answers that.
//
// Eight threads share one batching connection: their calls travel together.
#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "example.h"
#include "idempotency/client.h"
#include "idempotency/fingerprint.h"
#include "idempotency/keys.h"

namespace {

constexpr size_t kRows = 200;
constexpr size_t kThreads = 8;

struct Row {
  std::string key;  // made when the row is written
  std::string message;
  bool sent = false;
};

// Stands in for the gateway: it counts, and recognises nothing.
class Gateway {
 public:
  idempotency::EffectResult Send(const std::string& message) {
    absl::MutexLock lock(&mutex_);
    messages_.insert(message);
    return idempotency::EffectResult::Answered({.body = "sent"});
  }
  size_t sent() {
    absl::MutexLock lock(&mutex_);
    return messages_.size();
  }

 private:
  absl::Mutex mutex_;
  std::multiset<std::string> messages_ ABSL_GUARDED_BY(mutex_);
};

void SendRow(const idempotency::Client& client, Gateway& gateway, Row& row) {
  const idempotency::RunResult result =
      client.Run({.id = {"outbox", "mail", row.key},
                  .fingerprint = idempotency::FingerprintBytes("SEND", "mail", row.message)},
                 [&](idempotency::Attempt&) { return gateway.Send(row.message); });
  row.sent = result.has_answer();
}

// `dies_after`: how many rows it sends before it dies, without noting one of them.
void Work(const idempotency::Client& client, Gateway& gateway, std::vector<Row>& outbox,
          size_t dies_after) {
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (size_t row = next++; row < std::min(outbox.size(), dies_after); row = next++) {
        if (!outbox[row].sent) SendRow(client, gateway, outbox[row]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main(int argc, char** argv) {
  const idempotency::Client client(idempotency::MakeConnection(
      {.target = Flag(argc, argv, "target", "127.0.0.1:7420"), .batching = true}));
  std::vector<Row> outbox;
  for (size_t i = 0; i < kRows; ++i) {
    outbox.push_back({idempotency::RandomKey(), "message " + std::to_string(i)});
  }

  Gateway gateway;
  std::vector<Row> lost = outbox;  // what the first worker knows dies with it
  Work(client, gateway, lost, kRows / 2);
  Say("the first worker sent " + std::to_string(gateway.sent()) + " and noted none");
  Work(client, gateway, outbox, kRows);
  Say("the second went over all " + std::to_string(kRows) + ": " + std::to_string(gateway.sent()) +
      " were sent in all");
  Require(gateway.sent() == kRows, "every message is sent once");
  for (const Row& row : outbox) Require(row.sent, "every row is noted: " + row.message);
  return 0;
}
