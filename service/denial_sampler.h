// Which denials the audit tells one by one: so many that each of a person's mistakes is there, so
// few that whoever is denied a million times fills no disk. What is not told is counted.
//
// A denial belongs to a story: who was denied what, in which namespace. Of each story a minute
// tells the first few; how many more there were is told when the minute is over. Stories of
// callers who are not known have places of their own, so that strangers cannot hide those who are.
// Over all, the lines told one by one are bounded by a rate, too.
//
// Time is an argument. Thread safety: none.
#ifndef IDEMPOTENCY_SERVICE_DENIAL_SAMPLER_H_
#define IDEMPOTENCY_SERVICE_DENIAL_SAMPLER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "keystore/core/time.h"
#include "keystore/token_bucket.h"

namespace idempotency::service {

inline constexpr core::Duration kDenialWindow = std::chrono::minutes(1);
inline constexpr uint64_t kDenialsToldOfStory = 8;
inline constexpr size_t kMaxKnownStories = 64;
inline constexpr size_t kMaxStrangerStories = 16;
// Of all stories together.
inline constexpr keystore::Rate kDenialsTold{.per_second = 1, .burst = 200};

// What was denied to whom.
struct DenialStory {
  std::string who;  // empty: nobody who is known
  std::string action;
  std::string name_space;

  friend bool operator==(const DenialStory&, const DenialStory&) = default;
  template <typename H>
  friend H AbslHashValue(H hash, const DenialStory& story) {
    return H::combine(std::move(hash), story.who, story.action, story.name_space);
  }
};

struct UntoldDenials {
  DenialStory story;  // empty: of all that found no place
  uint64_t count = 0;

  friend bool operator==(const UntoldDenials&, const UntoldDenials&) = default;
};

class DenialSampler {
 public:
  // Whether this one is to be told.
  bool Admit(const DenialStory& story, core::Time now);

  // Whether the minute is over, or `anyhow`, and something was not told in it: ends it then.
  std::vector<UntoldDenials> TakeUntold(core::Time now, bool anyhow = false);

 private:
  struct Counts {
    uint64_t told = 0;
    uint64_t untold = 0;
  };

  core::Time began_;  // unset: nothing was denied since the last
  absl::flat_hash_map<DenialStory, Counts> stories_;
  size_t strangers_ = 0;  // of them
  uint64_t no_place_ = 0;
  keystore::TokenBucket told_;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_DENIAL_SAMPLER_H_
