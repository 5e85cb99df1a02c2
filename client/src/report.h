// The second half of a Run: what the result of fn means, and telling the service.
#ifndef IDEMPOTENCY_CLIENT_SRC_REPORT_H_
#define IDEMPOTENCY_CLIENT_SRC_REPORT_H_

#include <cstdint>
#include <string>

#include "client/src/held_attempt.h"
#include "client/src/run_context.h"
#include "idempotency/client.h"

namespace idempotency::internal {

struct Judgement {
  Classification classification;
  EffectResult effect;
  // What a look-up said that found no answer, for the history.
  std::string evidence;
};

// Asks the classifier of the options, minding what the caller is certain of, and whether the
// outbound call may have started. A final failure that came as a status becomes an answer that can
// be replayed.
Judgement JudgeEffect(EffectResult effect, uint32_t attempt, bool may_have_started,
                      const RunOptions& options);

// What the caller of an effect without a record gets.
RunResult Unrecorded(Judgement judgement);

// Thread safety: used by one thread. The context and the attempt must outlive it.
class Reporter {
 public:
  Reporter(const RunContext& context, const HeldAttempt& held) : context_(context), held_(held) {}

  // What the effect means; asks the caller's classifier and, where the outcome is unknown, the
  // look-up.
  Judgement Judge(EffectResult effect) const;
  // Reports it, and returns what the caller gets.
  RunResult Report(Judgement judgement) const;

  // Instead of the two, where fn (or the caller's classifier or look-up) threw.
  void ReportException() const;
  // Instead of calling fn.
  RunResult Free(RunResult result, const std::string& detail) const;

 private:
  RunResult ReportEnded(EffectResult effect, Verdict verdict) const;
  RunResult ReportNothingHappened(EffectResult effect) const;
  RunResult ReportUnknown(Judgement judgement) const;
  absl::StatusOr<ReleaseResponse> Release(std::string detail) const;
  absl::StatusOr<MarkUnresolvedResponse> MarkUnresolved(const Judgement& judgement) const;

  const RunContext& context_;
  const HeldAttempt& held_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_SRC_REPORT_H_
