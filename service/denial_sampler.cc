#include "service/denial_sampler.h"

#include <algorithm>
#include <utility>

namespace idempotency::service {

bool DenialSampler::Admit(const DenialStory& story, core::Time now) {
  if (!core::IsSet(began_)) began_ = now;
  auto place = stories_.find(story);
  if (place == stories_.end()) {
    const bool stranger = story.who.empty();
    const size_t taken = stranger ? strangers_ : stories_.size() - strangers_;
    if (taken >= (stranger ? kMaxStrangerStories : kMaxKnownStories)) {
      ++no_place_;
      return false;
    }
    strangers_ += stranger ? 1 : 0;
    place = stories_.emplace(story, Counts{}).first;
  }
  Counts& counts = place->second;
  if (counts.told >= kDenialsToldOfStory || !told_.Take(kDenialsTold, now)) {
    ++counts.untold;
    return false;
  }
  ++counts.told;
  return true;
}

std::vector<UntoldDenials> DenialSampler::TakeUntold(core::Time now, bool anyhow) {
  if (!core::IsSet(began_)) return {};
  // A clock that was set back must not make the minute endless.
  const bool over = now < began_ || now - began_ >= kDenialWindow;
  if (!over && !anyhow) return {};
  std::vector<UntoldDenials> untold;
  for (const auto& [story, counts] : stories_) {
    if (counts.untold > 0) untold.push_back({story, counts.untold});
  }
  std::sort(untold.begin(), untold.end(),
            [](const auto& a, const auto& b) { return a.count > b.count; });
  if (no_place_ > 0) untold.push_back({{}, no_place_});
  stories_.clear();
  strangers_ = 0;
  no_place_ = 0;
  began_ = {};
  return untold;
}

}  // namespace idempotency::service
