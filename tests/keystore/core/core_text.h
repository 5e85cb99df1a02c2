// Core values as short text and back: what the scenarios are written in and what failing
// tests print. Times are spans since kStart, so that "30s" reads as one.
#ifndef IDEMPOTENCY_TESTS_KEYSTORE_CORE_CORE_TEXT_H_
#define IDEMPOTENCY_TESTS_KEYSTORE_CORE_CORE_TEXT_H_

#include <optional>
#include <string>
#include <string_view>

#include "keystore/core/command.h"
#include "keystore/core/outcome.h"
#include "keystore/core/record.h"
#include "keystore/core/time.h"
#include "keystore/core/transition.h"

namespace idempotency::core {

// 2026-01-01T00:00:00Z, the zero of every time in the tests.
inline constexpr Time kStart{Duration{1'767'225'600'000}};

// "1d2h3m4s5ms"; "0" for nothing.
std::string Text(Duration span);
// Since kStart.
std::string Text(Time time);

// A sum of spans: "30s", "1h30m", "30s-1ms", "0". nullopt where it is none.
std::optional<Duration> ParseDuration(std::string_view text);

// Stand-ins for what the edge digests; equal texts have equal digests.
Digest DigestOf(std::string_view text);
// "none": not given; "jcs/abc": algorithm and digest; "abc": the usual algorithm.
Fingerprint FingerprintOf(std::string_view text);
std::string Text(const Fingerprint& fingerprint);

// The content digests that the edge would have made.
Digest ContentOf(const CompleteCommand& command);
Digest ContentOf(const ReleaseCommand& command);
Digest ContentOf(const MarkUnresolvedCommand& command);
Digest ContentOf(const ResolveCommand& command);

// One line, as the scenarios expect it: "ACQUIRED PROCEED token=1 attempt=1 until=30s".
std::string Text(const Answer& answer);
// One line: the fields that matter in the record's state.
std::string Text(const Record& record);
std::string Text(const std::optional<Record>& record);
std::string Text(const Command& command);
std::string Text(const Now& now);
// "ACQUIRED#1@0 LEASE_LAPSED#1@30s": kind, attempt, time, and what was said.
std::string HistoryText(const Record& record);

}  // namespace idempotency::core

#endif  // IDEMPOTENCY_TESTS_KEYSTORE_CORE_CORE_TEXT_H_
