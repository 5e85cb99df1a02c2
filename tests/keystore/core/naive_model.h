// The state machine written a second time, from the tables of the design and not from
// transition.cc, so that it fails differently: it keeps no state but the list of everything
// that was accepted, and answers each command by reading that list from the start.
//
// Slow and simple on purpose. Answers are lines of text, in the form of core_text.h.
// Not thread-safe.
#ifndef IDEMPOTENCY_TESTS_KEYSTORE_CORE_NAIVE_MODEL_H_
#define IDEMPOTENCY_TESTS_KEYSTORE_CORE_NAIVE_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "keystore/core/command.h"
#include "keystore/core/policy.h"
#include "keystore/core/transition.h"

namespace idempotency::core {

class NaiveModel {
 public:
  struct Told {
    std::string answer;
    Effect effect = Effect::kKeep;
  };

  Told Apply(const Command& command, const Policy& policy, const Now& now, uint64_t token_floor);

  // What Text(Observe(record)) and HistoryText would say.
  std::string Show(const Now& now) const;
  std::string History(const Now& now) const;

 private:
  enum class What {
    kAcquired,
    kRenewed,
    kCompleted,
    kReleased,
    kMarked,
    kResolved,
    kLate,
    kDeleted
  };

  struct Happened {
    What what = What::kAcquired;
    Now now;
    Policy policy;
    Command command;
    uint64_t token = 0;
    Time lease_end;           // kAcquired, kRenewed: as far as this one alone gave it
    bool fresh = false;       // kAcquired: nothing was known of the key
    bool first = false;       // kAcquired: attempt 1 of an operation
    bool start_over = false;  // kAcquired: of an expired one
  };

  struct Ended {
    uint64_t token = 0;
    uint32_t attempt = 0;
    Digest attempt_id;
    EndVerb verb = EndVerb::kLapsed;
    Digest content;
    bool evidence = false;
  };

  // What is known at one moment, put together from the list.
  struct View {
    State state = State::kFreed;
    uint32_t attempt = 1;
    std::optional<Unknown> unknown;
    Time forget_time;
    Time response_end;
    Verdict verdict = Verdict::kNone;
    Response response;
    Resolution resolution = Resolution::kNone;
  };

  enum class Column { kLive, kLapsed, kMarked, kEnded, kSettled, kNotExecuted, kReleased, kOlder };

  // Positions in the list; `end` leaves out what is at or behind it.
  size_t LastAcquired(size_t end) const;
  size_t FirstOfOperation(size_t acquired) const;
  size_t FirstOfMemory() const;
  // The last of the attempt's ends (never a renewal or evidence) behind `acquired`; `end`: none.
  size_t LastEnding(size_t acquired, size_t end) const;

  Time Surely(size_t from, size_t end, const Now& now) const;
  Time LeaseEnd(size_t acquired, size_t end) const;
  bool Started(size_t acquired, size_t end) const;
  bool Lapsed(size_t acquired, size_t end, const Now& now) const;
  const Terms& TermsOf(size_t acquired) const;
  uint32_t Attempt(size_t acquired) const;
  Unknown LapsedUnknown(size_t acquired, size_t end) const;
  Unknown MarkedUnknown(size_t acquired, size_t mark) const;
  // What an operation that is unresolved at `end` does not know.
  Unknown UnknownAt(size_t end) const;
  const std::string& Worker(size_t acquired, size_t end) const;
  bool Dispatched(const View& view) const;
  std::optional<std::string> Progress(const View& view) const;
  std::string ProviderRequestId() const;
  Fingerprint Request() const;

  Now Held(Now now) const;
  std::optional<View> Look(const Now& now) const;
  View LookAt(const Now& now) const;
  // What `ending` has led to by `now`, by which the list was `end` long.
  void LookAtEnding(size_t ending, size_t end, const Now& now, View& view) const;
  void LookAtAnswer(size_t ending, size_t end, const Now& now, View& view) const;
  std::vector<Ended> EndedAttempts(const Now& now) const;
  Column ColumnOf(uint64_t token, const Now& now) const;

  std::string LeaseText(size_t acquired, const View& view, uint32_t attempt) const;
  std::string EndingText(const View& view, bool reveal) const;
  std::string MarkText(const View& view, const Policy& policy, const Now& now) const;

  std::string EventOf(size_t at) const;

  Happened Note(What what, const Command& command, const Policy& policy, const Now& now,
                uint64_t token) const;
  Told Acquire(const ReserveCommand& c, const Policy& policy, const Now& now, uint64_t floor,
               bool fresh, bool first, bool start_over, Time limit);
  Told Reserve(const ReserveCommand& c, const Policy& policy, const Now& now, uint64_t floor);
  Told ReserveAbsent(const ReserveCommand& c, const Policy& policy, const Now& now, uint64_t floor);
  Told ReserveUnresolved(const View& view, const ReserveCommand& c, const Policy& policy,
                         const Now& now, uint64_t floor);
  Told Verb(const Command& command, const Policy& policy, const Now& now);
  Told Renew(const RenewCommand& c, const Policy& policy, const Now& now);
  Told Late(const Command& command, const Policy& policy, const Now& now, uint64_t token);
  Told Finish(What what, const Command& command, const Policy& policy, const Now& now,
              uint64_t token);
  Told Get(const Fingerprint* shown, const Policy& policy, const Now& now) const;
  Told Resolve(const ResolveCommand& c, const Policy& policy, const Now& now);
  Told Delete(const DeleteCommand& c, const Policy& policy, const Now& now);

  std::vector<Happened> log_;
};

}  // namespace idempotency::core

#endif  // IDEMPOTENCY_TESTS_KEYSTORE_CORE_NAIVE_MODEL_H_
