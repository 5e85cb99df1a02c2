// Everything that happened in one simulated history, as only the simulation can know it: what
// was asked when and what was answered, what was stored and when it was safe, and what time each
// replica was told. The checkers read this and nothing else.
//
// Moments are kept twice: as places in the order of events (`Seq`, no two the same), and as true
// time, which no clock in the simulation shows.
//
// Thread safety: none; one history is one thread's.
#ifndef IDEMPOTENCY_TESTS_PROOF_SIM_HISTORY_H_
#define IDEMPOTENCY_TESTS_PROOF_SIM_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "keystore/core/command.h"
#include "keystore/core/outcome.h"
#include "keystore/core/policy.h"
#include "keystore/core/record.h"
#include "keystore/core/time.h"
#include "keystore/engine/engine.h"

namespace idempotency::proof {

using Seq = uint64_t;
inline constexpr Seq kNever = std::numeric_limits<Seq>::max();
using PolicyPtr = std::shared_ptr<const core::Policy>;

// What became of a command.
enum class Fate : uint8_t {
  kMaybe,     // nobody was told: it may have had its effect or not
  kAnswered,  // with `answer`
  kNothing,   // it was refused or cancelled before it had any effect
};

struct Op {
  size_t key = 0;
  size_t replica = 0;
  // Copies of one message have the same number.
  uint64_t message = 0;
  core::Command command;
  PolicyPtr policy;
  Seq invoked = 0;
  // Where nobody was told: by when it had its effect, if at all.
  Seq returned = kNever;
  core::Duration invoked_at{0};
  core::Duration returned_at{0};
  Fate fate = Fate::kMaybe;
  core::Answer answer;
  // The last look at a key: everything that is stored is compared.
  bool last_look = false;
};

// Something else was stored under a key.
struct Change {
  size_t key = 0;
  size_t replica = 0;
  Seq asked = 0;
  core::Duration asked_at{0};
  Seq applied = 0;
  // kNever: it was never safe.
  Seq durable = kNever;
  core::RecordPtr before;  // null: nothing
  core::RecordPtr after;
  keystore::Version version_before = 0;
  // Space was given back, as a compaction does.
  bool by_filter = false;
  // A crash took it back.
  bool lost = false;
};

// A replica was told this time, already with the doubt that the clocks of all may differ by.
struct Told {
  Seq seq = 0;
  core::Duration at{0};
  core::Now now;
};

// A replica was not told whether its write under `key` took effect.
struct Doubt {
  size_t key = 0;
  size_t replica = 0;
  Seq seq = 0;
};

// A clock was set forward and may be believed, or a restart lost the newest reading.
struct Shift {
  core::Duration at{0};
  core::Duration span{0};
};

struct ListedEntry {
  size_t key = 0;
  Seq seq = 0;
  core::RecordPtr record;
};

// How often what makes histories worth checking has happened.
struct Counts {
  uint64_t crashes = 0, restarts = 0, lost_writes = 0, survived_writes = 0, engine_deaths = 0;
  uint64_t lost_races = 0, unknown_writes = 0, late_writes = 0, failed_reads = 0;
  uint64_t jumps = 0, doubts = 0, confirmations = 0, suspends = 0;
  uint64_t dropped_messages = 0, repeated_messages = 0, lost_replies = 0, cancels = 0;
  uint64_t waited = 0, lapses_reported = 0, filtered = 0, reclaimed = 0, listed = 0;
};

struct History {
  uint64_t seed = 0;
  bool exclusive = true;
  core::Duration clock_skew{0};
  std::vector<core::Key> keys;
  std::vector<Op> ops;
  std::vector<Change> changes;
  std::vector<std::vector<Told>> told;      // by replica
  std::vector<std::vector<Shift>> forward;  // by replica: how far its clock may lead
  std::vector<std::vector<Shift>> back;     // by replica: how far a restart may have set it back
  std::vector<Doubt> doubts;
  std::vector<ListedEntry> listed;
  Counts counts;

  // What was broken while it was played; empty: nothing.
  std::string broken;

  Seq seq = 0;
  core::Duration at{0};
  uint64_t hash = 14'695'981'039'346'656'037u;
  // The story, line by line; kept only where it is to be read.
  bool tell = false;
  std::vector<std::string> story;

  Seq Next() { return ++seq; }
  void Break(std::string_view what) {
    if (broken.empty()) broken = what;
  }
  // Everything that can differ between two histories goes through here.
  void Note(uint64_t value) { hash = (hash ^ value) * 1'099'511'628'211u; }
  void Note(std::string_view text) {
    for (const char c : text) Note(static_cast<unsigned char>(c));
  }
};

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_SIM_HISTORY_H_
