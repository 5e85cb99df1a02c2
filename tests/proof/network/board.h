// The keys that all clients work on, and everything that they have asked and were told. A few keys
// are open at a time; one that has been asked enough makes room for a fresh one, so that the
// orders to search stay few.
//
//   Draft draft = board.Draw(random, Kinds::kAll);
//   const Ticket ticket = board.Send(draft, "client 3");
//   ... the call ...
//   board.Hear(ticket, outcome);
//
// Thread safety: all methods may be called from any thread.
#ifndef IDEMPOTENCY_TESTS_PROOF_NETWORK_BOARD_H_
#define IDEMPOTENCY_TESTS_PROOF_NETWORK_BOARD_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "tests/proof/network/call.h"
#include "tests/proof/network/draw.h"
#include "tests/proof/network/wire.h"
#include "tests/proof/sim/random.h"

namespace idempotency::proof::network {

// What is to be asked, of which key.
struct Draft {
  size_t key = 0;
  Request request;
};

struct Ticket {
  size_t key = 0;
  size_t call = 0;
};

struct BoardOptions {
  // Keys of different boards have different names.
  std::string name;
  size_t open_keys = 24;
  size_t calls_a_key = 48;
  // Several servers answer.
  bool shared = false;
};

class Board {
 public:
  explicit Board(BoardOptions options);

  Draft Draw(Random& random, Kinds kinds) ABSL_LOCKS_EXCLUDED(mutex_);
  // Behind: a call on the same stream and key that the server applies first.
  Ticket Send(const Draft& draft, std::string by, std::optional<size_t> behind = std::nullopt)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Hear(const Ticket& ticket, Outcome outcome) ABSL_LOCKS_EXCLUDED(mutex_);
  // Something that no call of a key shows.
  void Wrong(const std::string& what) ABSL_LOCKS_EXCLUDED(mutex_);
  // An answer that is of no key.
  void HearOther() { CountAnswer("namespace"); }

  // Until so many calls are answered; false: it took too long, or something is wrong.
  bool WaitForAnswers(uint64_t count, absl::Duration patience) ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t answers() const ABSL_LOCKS_EXCLUDED(mutex_);
  uint64_t lost() const ABSL_LOCKS_EXCLUDED(mutex_);
  std::string wrong() const ABSL_LOCKS_EXCLUDED(mutex_);
  // How often each answer was met: "ACQUIRED", "error STALE_FENCING_TOKEN", ...
  std::map<std::string, uint64_t> met() const ABSL_LOCKS_EXCLUDED(mutex_);
  // How often calls were not answered, by what they ended with; for people.
  std::map<std::string, uint64_t> unanswered() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The last look at every key.
  std::vector<Draft> LastLooks() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Everything. To be called last.
  std::vector<KeyHistory> Take() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Key {
    Known known;
    KeyHistory history;
  };

  size_t Open() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountAnswer(std::string_view answer) ABSL_LOCKS_EXCLUDED(mutex_);
  void Learn(Key& key, size_t call) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const BoardOptions options_;
  mutable absl::Mutex mutex_;
  std::vector<Key> keys_ ABSL_GUARDED_BY(mutex_);
  std::vector<size_t> open_ ABSL_GUARDED_BY(mutex_);
  Moment now_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t answers_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t lost_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string wrong_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, uint64_t> met_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, uint64_t> unanswered_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::proof::network

#endif  // IDEMPOTENCY_TESTS_PROOF_NETWORK_BOARD_H_
