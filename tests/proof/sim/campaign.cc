#include "tests/proof/sim/campaign.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include "tests/keystore/core/core_text.h"
#include "tests/proof/sim/checker.h"
#include "tests/proof/sim/world.h"

namespace idempotency::proof {
namespace {

// Answers are counted in one history of so many.
constexpr uint64_t kCounted = 16;
constexpr uint64_t kChunk = 64;
constexpr size_t kSeedsTold = 8;

struct Field {
  const char* name;
  uint64_t Counts::*value;
};
constexpr std::array kFields{Field{"crashes", &Counts::crashes},
                             Field{"restarts", &Counts::restarts},
                             Field{"lost writes", &Counts::lost_writes},
                             Field{"unsynced writes that survived", &Counts::survived_writes},
                             Field{"engine deaths", &Counts::engine_deaths},
                             Field{"lost races", &Counts::lost_races},
                             Field{"unknown writes", &Counts::unknown_writes},
                             Field{"writes that came late", &Counts::late_writes},
                             Field{"failed reads", &Counts::failed_reads},
                             Field{"clocks set", &Counts::jumps},
                             Field{"doubts", &Counts::doubts},
                             Field{"confirmations", &Counts::confirmations},
                             Field{"suspends", &Counts::suspends},
                             Field{"dropped messages", &Counts::dropped_messages},
                             Field{"repeated messages", &Counts::repeated_messages},
                             Field{"lost replies", &Counts::lost_replies},
                             Field{"cancels", &Counts::cancels},
                             Field{"waits", &Counts::waited},
                             Field{"lapses reported", &Counts::lapses_reported},
                             Field{"filtered", &Counts::filtered},
                             Field{"erased", &Counts::reclaimed},
                             Field{"lists", &Counts::listed}};

// Kinds of answers that a thousand histories reach.
constexpr std::array kKinds{"reserve ACQUIRED PROCEED",
                            "reserve ALREADY_HELD PROCEED_UNLESS_STARTED",
                            "reserve IN_PROGRESS RESERVE_AGAIN",
                            "reserve COMPLETED USE_RESPONSE SUCCEEDED",
                            "reserve COMPLETED LOOK_UP_ANSWER SUCCEEDED",
                            "reserve EXPIRED LOOK_UP_ANSWER SUCCEEDED",
                            "reserve UNRESOLVED RESERVE_AGAIN",
                            "reserve UNRESOLVED RECONCILE_FIRST",
                            "reserve FINGERPRINT_MISMATCH SETTLE_OTHER_FIRST",
                            "reserve FINGERPRINT_MISMATCH USE_OWN_KEY",
                            "reserve TOO_OLD RECONCILE_FIRST",
                            "reserve error ATTEMPT_FINISHED",
                            "renew renewed",
                            "renew error LEASE_LAPSED",
                            "renew error STALE_FENCING_TOKEN",
                            "complete COMPLETE SUCCEEDED",
                            "complete FREED",
                            "complete already COMPLETE SUCCEEDED",
                            "complete error ALREADY_COMPLETE",
                            "complete error ATTEMPT_FINISHED",
                            "complete error STALE_FENCING_TOKEN",
                            "complete error OPERATION_NOT_FOUND",
                            "release FREED",
                            "release error OUTCOME_UNKNOWN",
                            "mark UNRESOLVED RESERVE_AGAIN",
                            "mark UNRESOLVED RECONCILE_FIRST",
                            "resolve COMPLETE SUCCEEDED",
                            "resolve COMPLETE ABANDONED",
                            "resolve FREED",
                            "resolve error LEASE_LIVE",
                            "resolve error NOT_SETTLED",
                            "resolve error WRONG_STATE",
                            "resolve error ETAG_MISMATCH",
                            "delete deleted"};

// The verb, and the words of the answer before its first field.
std::string KindOf(const Op& op) {
  constexpr std::array<const char*, 10> kVerbs{"reserve", "renew",  "complete", "release",
                                               "mark",    "get",    "inspect",  "resolve",
                                               "delete",  "reclaim"};
  const std::string answer = core::Text(op.answer);
  const std::string words = answer.substr(0, answer.find('='));
  return std::string(kVerbs[op.command.index()]) + " " +
         (words.size() == answer.size() ? words : words.substr(0, words.rfind(' ')));
}

void Count(const History& history, CampaignResult& result) {
  for (const Field& field : kFields) result.counts.*field.value += history.counts.*field.value;
  result.commands += history.ops.size();
  ++result.histories;
  if (history.seed % kCounted != 0) return;
  for (const Op& op : history.ops) {
    if (op.fate == Fate::kAnswered) ++result.kinds[KindOf(op)];
  }
}

void Add(const CampaignResult& part, CampaignResult& whole) {
  for (const Field& field : kFields) whole.counts.*field.value += part.counts.*field.value;
  whole.commands += part.commands;
  whole.histories += part.histories;
  for (const auto& [kind, count] : part.kinds) whole.kinds[kind] += count;
  const bool first = whole.violations == 0 || part.broken_seed < whole.broken_seed;
  if (part.violations > 0 && first) {
    whole.broken = part.broken;
    whole.broken_seed = part.broken_seed;
  }
  whole.violations += part.violations;
  for (const uint64_t seed : part.broken_seeds) whole.broken_seeds.push_back(seed);
}

}  // namespace

CampaignResult PlayHistories(const Campaign& campaign) {
  std::atomic<uint64_t> next{0};
  std::atomic<bool> broken{false};
  std::mutex mutex;
  CampaignResult whole;
  const auto work = [&] {
    CampaignResult part;
    while (!(campaign.until_broken && broken) && !campaign.stop()) {
      const uint64_t begin = next.fetch_add(kChunk);
      const uint64_t end = std::min(begin + kChunk, campaign.histories);
      if (begin >= end) break;
      for (uint64_t i = begin; i < end; ++i) {
        const History history = Play({.seed = campaign.first_seed + i, .mutant = campaign.mutant});
        Count(history, part);
        std::string what = BrokenInvariant(history);
        if (what.empty()) continue;
        broken = true;
        if (part.broken_seeds.size() < kSeedsTold) part.broken_seeds.push_back(history.seed);
        if (part.violations++ == 0) {
          part.broken = std::move(what);
          part.broken_seed = history.seed;
        }
        if (campaign.until_broken) break;
      }
    }
    const std::lock_guard<std::mutex> lock(mutex);
    Add(part, whole);
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < campaign.jobs; ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
  return whole;
}

std::vector<std::string> NotMet(const CampaignResult& result) {
  std::vector<std::string> missing;
  for (const Field& field : kFields) {
    if (result.counts.*field.value == 0) missing.push_back(field.name);
  }
  for (const char* kind : kKinds) {
    if (result.kinds.count(kind) == 0) missing.push_back(kind);
  }
  return missing;
}

std::string CoverageText(const CampaignResult& result) {
  std::string text;
  for (const Field& field : kFields) {
    text += "  " + std::to_string(result.counts.*field.value) + " " + field.name + "\n";
  }
  text += "answers, of one history in " + std::to_string(kCounted) + ":\n";
  for (const auto& [kind, count] : result.kinds) {
    text += "  " + std::to_string(count) + " " + kind + "\n";
  }
  return text;
}

}  // namespace idempotency::proof
