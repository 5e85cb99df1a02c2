// A receiver of webhooks: every event is delivered at least once, often twice at the same time, and
// handled once. The sender's id of the event is the key; the namespace (WEBHOOK_INBOX) needs no
// fingerprint, remembers an event for longer than its sender tries, and lets a crashed handler run
// again.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "example.h"
#include "idempotency/client.h"
#include "idempotency/http_edge.h"
#include "idempotency/keys.h"

namespace {

// The whole of a receiver; `handle` is what must not happen twice.
idempotency::HttpAnswer Receive(const idempotency::Client& client, const std::string& sender,
                                const std::vector<std::string_view>& event_id_field,
                                const idempotency::EffectFunction& handle) {
  const idempotency::KeyField field = idempotency::ParseKeyField(event_id_field);
  if (field.problem != idempotency::KeyProblem::kNone) {
    return idempotency::AnswerKeyProblem(field.problem);
  }
  // The sender as it was authenticated, never as the request names it.
  return idempotency::AnswerRun(client.Run({.id = {"webhooks", sender, field.key}}, handle,
                                           {.classify = idempotency::ClassifyHttp}));
}

}  // namespace

int main(int argc, char** argv) {
  const idempotency::Client client(
      idempotency::MakeConnection({.target = Flag(argc, argv, "target", "127.0.0.1:7420")}));
  const std::string event_id = "evt_" + idempotency::RandomKey();
  std::atomic<int> handled{0};
  const auto handle = [&](idempotency::Attempt&) {
    ++handled;
    return idempotency::EffectResult::Answered(
        {.status = idempotency::CachedResponse::HttpStatus{204}});
  };

  std::vector<std::thread> deliveries;
  std::atomic<int> accepted{0};
  for (int i = 0; i < 5; ++i) {
    deliveries.emplace_back([&] {
      const idempotency::HttpAnswer answer = Receive(client, "stripe", {event_id}, handle);
      if (answer.status == 204) ++accepted;
    });
  }
  for (std::thread& delivery : deliveries) delivery.join();
  Say("5 deliveries at once: " + std::to_string(accepted) + " answered 204, handled " +
      std::to_string(handled) + " time");
  Require(handled == 1 && accepted == 5, "all are answered, and one is handled");

  const idempotency::HttpAnswer nameless = Receive(client, "stripe", {}, handle);
  Require(nameless.status == 400, "an event without an id is refused");
  const idempotency::HttpAnswer other = Receive(client, "another sender", {event_id}, handle);
  Require(other.status == 204 && handled == 2, "ids of two senders do not meet");
  return 0;
}
