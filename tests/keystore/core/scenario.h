// Stories as text: one command a line, its expected outcome on the line below.
//
//   # The reply to the first Reserve is lost.
//   policy retention=1h
//   at 0 reserve a lease=30s
//     ACQUIRED PROCEED token=1 attempt=1 until=30s
//   at 5s reserve a
//     ALREADY_HELD PROCEED_UNLESS_STARTED token=1 attempt=1 until=30s
//
// Lines:
//   policy [unknown_outcome=RERUN] [protection=24h] [max_attempts=3] [backoff=1s..5m]
//          [settle=60s] [retention=24h] [memory=30d] [max_retention=400d] [max_hold=24h]
//          [fingerprint_optional] [lost_before=1h]   the policy from here on; unnamed: the defaults
//   at TIME [wall=TIME] [doubt] COMMAND       TIME is a span since the start, or, where clocks
//                                             differ, EARLIEST..LATEST
//
// Commands; NAME is an attempt: it stands for its attempt_id, its worker and its token:
//   reserve NAME [fp=x] [lease=30s] [age=1d] [dispatch_later] [start_over] [refuse=REASON]
//   renew NAME [lease=30s] [dispatched] [progress=p] [worker=w]
//   complete NAME [FAILED] [body=b | omitted] [pid=p] [retention=1h]
//   release NAME [detail=d]
//   mark NAME [cause=TIMEOUT] [detail=d] [pid=p] [retry_after=1s] [reconcile_first]
//   get [fp=x] | inspect
//   resolve completed [FAILED] [body=b] | not_executed | abandoned  [pid=p] [etag=E]
//   delete [force] [etag=E] | reclaim
//   remember E                                what is known now; etag=E gives its etag
//   compare E                                 "unchanged" where only time has passed since
//   corrupt                                   the stored bytes cannot be read from now on
//   lose                                      what came after the stored record is lost
//   show | history                            what is known now
// The owner's verbs also take token=N for NAME's. Without fp= it is "x", the usual request.
#ifndef IDEMPOTENCY_TESTS_KEYSTORE_CORE_SCENARIO_H_
#define IDEMPOTENCY_TESTS_KEYSTORE_CORE_SCENARIO_H_

#include <string>
#include <string_view>

#include "keystore/core/transition.h"

namespace idempotency::core {

// Empty where every outcome is as the text expects and no invariant is broken; else one line
// for each that is not.
std::string Play(std::string_view text, StepFunction step = &Step);

// The text with every expected outcome replaced by the actual one: for writing a scenario
// whose outcomes are then judged by a person.
std::string Rewrite(std::string_view text);

}  // namespace idempotency::core

#endif  // IDEMPOTENCY_TESTS_KEYSTORE_CORE_SCENARIO_H_
