// The state machine of one operation: pure, total, std only.
//
//   Step(what is stored, command, policy, now, token floor) -> answer and what to store
//
// It asks nobody for the time, does no I/O and keeps nothing, so that the same arguments give
// the same decision on any replica, in any simulation, for ever. Commands are idempotent:
// stepping one again on the record it produced gives the answer its sender needs and changes
// nothing, which is also how an unknown commit is settled.
#ifndef IDEMPOTENCY_KEYSTORE_CORE_TRANSITION_H_
#define IDEMPOTENCY_KEYSTORE_CORE_TRANSITION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "keystore/core/command.h"
#include "keystore/core/outcome.h"
#include "keystore/core/policy.h"
#include "keystore/core/record.h"
#include "keystore/core/time.h"

namespace idempotency::core {

struct Absent {
  friend bool operator==(Absent, Absent) = default;
};
// Bytes are stored for the key, and they cannot be read.
struct Unreadable {
  friend bool operator==(Unreadable, Unreadable) = default;
};
// What an engine found under a key.
using Stored = std::variant<Absent, Record, Unreadable>;

enum class Effect : uint8_t {
  kKeep,   // leave what is stored
  kErase,  // remove it
  kWrite,  // store `record`
};

struct Decision {
  Answer answer;
  Effect effect = Effect::kKeep;
  // kWrite: what to store; the answer may point to the same record.
  RecordPtr record;
};

// What `record` is at `now`, applying what time alone has done since it was written: a lapsed
// lease, the end of retention, the end of memory (nullopt: nothing is known of the key any
// more). Needs no policy: a record holds the times and terms it lives by. Observing an
// observation later is observing the record later.
std::optional<Record> Observe(Record record, const Now& now);

// Whether `record` was written under a lease that has ended since, before its owner reported.
bool LeaseHasEnded(const Record& record, const Now& now);
// Makes of it what that alone does, whatever time has done since.
void Lapse(Record& record);

// token_floor: above every token that was committed for any key before the read that found
// `stored`. The decision depends on nothing but the arguments.
Decision Step(Stored stored, const Command& command, const Policy& policy, const Now& now,
              uint64_t token_floor);

// As above, as a type, so that the shell can be given a wrong one by a test.
using StepFunction = Decision (*)(Stored, const Command&, const Policy&, const Now&, uint64_t);

// Changes with every change of the operation, and never repeats.
std::string Etag(const Record& record);

// Until when the provider recognises the key, where the stored terms count on it; else unset.
Time ProtectionExpireTime(const Record& record);

}  // namespace idempotency::core

#endif  // IDEMPOTENCY_KEYSTORE_CORE_TRANSITION_H_
