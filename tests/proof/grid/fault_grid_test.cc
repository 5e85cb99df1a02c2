// Every verb against every fault, one named test each: the message is lost, its reply is lost, it
// comes twice or late, the server crashes before or after it is durable, the caller dies, the
// store fails. The real key store over an engine that does as it is told.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "keystore/core/limits.h"
#include "keystore/core/names.h"
#include "keystore/core/record.h"
#include "tests/keystore/shell/shell_fixture.h"

namespace idempotency::keystore {
namespace {

using Fate = FakeEngine::Fate;

constexpr core::Duration kForgotten = 32 * core::kDay;  // past retention and memory

// What happens between a message and its late arrival.
struct Late {
  const char* name;
  std::vector<Request> meanwhile;
  core::Duration passes{0};
  const char* answer;
};

struct Verb {
  const char* name;
  std::vector<Request> setup;
  Request message;
  // What is stored before it and after it: see Stored.
  const char* before;
  const char* after;
  const char* first;
  const char* again;
  // What an Inspect finds of a caller that died before it, and after it, once its lease is over.
  const char* died_before;
  const char* died_after;
  // It has had its effect, and comes once more; it comes for the first time. Neither changes
  // anything but where `delayed` says so in its answer.
  std::vector<Late> repeated;
  std::vector<Late> delayed;
  core::Duration setup_takes = 10s;
};

Request Dispatched(Request renew) {
  std::get<core::RenewCommand>(renew.command).dispatched = true;
  return renew;
}

// Somebody else has the key by now.
std::vector<Request> ReleasedAndTaken() { return {Release("k", 1), Reserve("k", 2)}; }

std::vector<Verb> WhatTakesAndKeepsAKey() {
  return {
      {.name = "Reserve",
       .message = Reserve("k", 1),
       .before = "ABSENT",
       .after = "PENDING 1 started, 40 s left",
       .first = "ACQUIRED 1",
       .again = "ALREADY_HELD 1",
       .died_before = "OPERATION_NOT_FOUND",
       .died_after = "INSPECTED UNRESOLVED",
       .repeated = {{"AfterItsLapse", {}, kLease, "UNRESOLVED 1"},
                    {"AfterItsCompletion", {Complete("k", 1)}, 0s, "COMPLETED"},
                    {"AfterItsRelease", {Release("k", 1)}, 0s, "ATTEMPT_FINISHED"},
                    {"AfterItsRetention", {Complete("k", 1)}, 25h, "EXPIRED"}},
       .delayed = {{"AfterAnother", {Reserve("k", 2)}, 0s, "IN_PROGRESS"}}},
      {.name = "ReserveOfWhatBeginsLater",
       .message = ReserveDispatchLater("k", 1),
       .before = "ABSENT",
       .after = "PENDING 1, 40 s left",
       .first = "ACQUIRED 1",
       .again = "ALREADY_HELD 1",
       .died_before = "OPERATION_NOT_FOUND",
       .died_after = "INSPECTED FREED",
       .repeated = {{"AfterItsLapse", {}, kLease, "ATTEMPT_FINISHED"}},
       .delayed = {}},
      {.name = "Dispatch",
       .setup = {ReserveDispatchLater("k", 1)},
       .message = Dispatched(Renew("k", 1)),
       .before = "PENDING 1, 30 s left",
       .after = "PENDING 1 started, 40 s left",
       .first = "RENEWED 1",
       .again = "RENEWED 1",
       .died_before = "INSPECTED FREED",
       .died_after = "INSPECTED UNRESOLVED",
       .repeated = {{"AfterItsCompletion", {Complete("k", 1)}, 0s, "ALREADY_COMPLETE"},
                    {"AfterItsLapse", {}, kLease, "LEASE_LAPSED"}},
       .delayed = {{"AfterItsLapse", {}, kLease, "LEASE_LAPSED"},
                   {"AfterAnother", ReleasedAndTaken(), 0s, "STALE_FENCING_TOKEN"}}},
      {.name = "Renew",
       .setup = {Reserve("k", 1)},
       .message = Renew("k", 1),
       .before = "PENDING 1 started, 30 s left",
       .after = "PENDING 1 started, 40 s left",
       .first = "RENEWED 1",
       .again = "RENEWED 1",
       .died_before = "INSPECTED UNRESOLVED",
       .died_after = "INSPECTED UNRESOLVED",
       .repeated = {{"AfterItsCompletion", {Complete("k", 1)}, 0s, "ALREADY_COMPLETE"},
                    {"AfterItsRelease", {Release("k", 1)}, 0s, "LEASE_LAPSED"},
                    {"AfterAnother", ReleasedAndTaken(), 0s, "STALE_FENCING_TOKEN"}},
       .delayed = {{"AfterItsLapse", {}, kLease, "LEASE_LAPSED"}}},
  };
}

std::vector<Verb> WhatEndsAnAttempt() {
  return {
      {.name = "Complete",
       .setup = {Reserve("k", 1)},
       .message = Complete("k", 1),
       .before = "PENDING 1 started, 30 s left",
       .after = "COMPLETE 1",
       .first = "COMPLETE",
       .again = "COMPLETE ALREADY",
       .died_before = "INSPECTED UNRESOLVED",
       .died_after = "INSPECTED COMPLETE",
       .repeated = {{"AfterItsRetention", {}, 25h, "COMPLETE ALREADY"},
                    {"WhenForgotten", {}, kForgotten, "OPERATION_NOT_FOUND"}},
       .delayed = {{"AfterItsLapse", {}, kLease, "COMPLETE"},
                   {"AfterItsMark", {Mark("k", 1)}, 0s, "COMPLETE"},
                   {"AfterItsRelease", {Release("k", 1)}, 0s, "ATTEMPT_FINISHED"},
                   {"AfterAnother", ReleasedAndTaken(), 0s, "STALE_FENCING_TOKEN"}}},
      {.name = "Release",
       .setup = {Reserve("k", 1)},
       .message = Release("k", 1),
       .before = "PENDING 1 started, 30 s left",
       .after = "FREED 1",
       .first = "RELEASED FREED",
       .again = "RELEASED FREED",
       .died_before = "INSPECTED UNRESOLVED",
       .died_after = "INSPECTED FREED",
       .repeated = {{"AfterAnother", {Reserve("k", 2)}, 0s, "RELEASED FREED"}},
       .delayed = {{"AfterItsLapse", {}, kLease, "RELEASED FREED"},
                   {"AfterItsMark", {Mark("k", 1)}, 0s, "OUTCOME_UNKNOWN"},
                   {"AfterItsCompletion", {Complete("k", 1)}, 0s, "ALREADY_COMPLETE"}}},
      {.name = "Mark",
       .setup = {Reserve("k", 1)},
       .message = Mark("k", 1),
       .before = "PENDING 1 started, 30 s left",
       .after = "UNRESOLVED 1",
       .first = "MARKED UNRESOLVED",
       .again = "MARKED UNRESOLVED",
       .died_before = "INSPECTED UNRESOLVED",
       .died_after = "INSPECTED UNRESOLVED",
       .repeated = {},
       .delayed = {{"AfterItsLapse", {}, kLease, "MARKED UNRESOLVED"},
                   {"AfterItsCompletion", {Complete("k", 1)}, 0s, "ALREADY_COMPLETE"},
                   {"AfterAnother", ReleasedAndTaken(), 0s, "STALE_FENCING_TOKEN"}}},
  };
}

std::vector<Verb> WhatOthersDo() {
  const core::Resolution completed = core::Resolution::kCompleted;
  return {
      {.name = "Resolve",
       .setup = {Reserve("k", 1), Mark("k", 1)},
       .message = Resolve("k", completed),
       .before = "UNRESOLVED 1",
       .after = "COMPLETE 1",
       .first = "RESOLVED COMPLETE",
       .again = "RESOLVED COMPLETE",
       .died_before = "INSPECTED UNRESOLVED",
       .died_after = "INSPECTED COMPLETE",
       .repeated = {{"AfterTheOwnersWord", {Complete("k", 1)}, 0s, "RESOLVED COMPLETE"}},
       .delayed = {{"AfterTheOwnersWord", {Complete("k", 1)}, 0s, "WRONG_STATE"},
                   {"AfterAnotherResolution",
                    {Resolve("k", core::Resolution::kNotExecuted)},
                    0s,
                    "WRONG_STATE"}},
       .setup_takes = 2min},
      {.name = "Get",
       .setup = {Reserve("k", 1), Complete("k", 1)},
       .message = Get("k"),
       .before = "COMPLETE 1",
       .after = "COMPLETE 1",
       .first = "GOT COMPLETE",
       .again = "GOT COMPLETE",
       .died_before = "INSPECTED COMPLETE",
       .died_after = "INSPECTED COMPLETE",
       .repeated = {},
       .delayed = {{"WhenForgotten", {}, kForgotten, "OPERATION_NOT_FOUND"}}},
      {.name = "Delete",
       .setup = {Reserve("k", 1), Complete("k", 1)},
       .message = Delete("k"),
       .before = "COMPLETE 1",
       .after = "FREED 1",
       .first = "DELETED",
       .again = "DELETED",
       .died_before = "INSPECTED COMPLETE",
       .died_after = "INSPECTED FREED",
       .repeated = {{"AfterAnother", {Reserve("k", 2)}, 0s, "LEASE_LIVE"},
                    {"WhenForgotten", {}, kForgotten, "DELETED"}},
       .delayed = {}},
  };
}

std::vector<Verb> Verbs() {
  std::vector<Verb> all = WhatTakesAndKeepsAKey();
  for (const auto& others : {WhatEndsAnAttempt(), WhatOthersDo()}) {
    all.insert(all.end(), others.begin(), others.end());
  }
  return all;
}

enum class Fault : uint8_t {
  kRequestLost,
  kReplyLost,
  kRepeatedLate,
  kDelayed,
  kCrashBeforeItIsDurable,
  kCrashBeforeTheReply,
  kCallerDies,
  kStoreError,
};

struct Cell {
  Verb verb;
  Fault fault;
  Late late = {};
  std::string name;
};

void PrintTo(const Cell& cell, std::ostream* out) { *out << cell.name; }

std::vector<Cell> Grid() {
  std::vector<Cell> cells;
  for (const Verb& verb : Verbs()) {
    const std::string name = verb.name;
    for (const auto& [fault, told] :
         {std::pair{Fault::kRequestLost, "RequestLost"}, std::pair{Fault::kReplyLost, "ReplyLost"},
          std::pair{Fault::kCrashBeforeItIsDurable, "CrashBeforeItIsDurable"},
          std::pair{Fault::kCrashBeforeTheReply, "CrashBeforeTheReply"},
          std::pair{Fault::kCallerDies, "CallerDies"},
          std::pair{Fault::kStoreError, "StoreError"}}) {
      cells.push_back({.verb = verb, .fault = fault, .name = name + "_" + told});
    }
    for (const Late& late : verb.repeated) {
      cells.push_back({verb, Fault::kRepeatedLate, late, name + "_Repeated" + late.name});
    }
    for (const Late& late : verb.delayed) {
      cells.push_back({verb, Fault::kDelayed, late, name + "_Delayed" + late.name});
    }
  }
  return cells;
}

class FaultGridTest : public ShellTest, public testing::WithParamInterface<Cell> {
 protected:
  std::string Says(const Request& request) { return Send(request)->said; }

  // State, token, and what is left of a lease: "PENDING 1 started, 20 s left".
  std::string Stored() const {
    const core::Stored stored = engine.At(KeyOf("k"));
    const auto* record = std::get_if<core::Record>(&stored);
    if (record == nullptr) return StoredAs("k");
    std::string text = StoredAs("k") + " " + std::to_string(record->token);
    if (record->state != core::State::kPending) return text;
    const auto left =
        std::chrono::duration_cast<std::chrono::seconds>(record->lease_expire_time - kStart);
    return text + (record->started ? " started, " : ", ") + std::to_string(left.count()) +
           " s left";
  }

  void SetUp() override {
    for (const Request& request : verb().setup) Send(request);
    clock.Advance(verb().setup_takes);
    ASSERT_EQ(Stored(), verb().before);
  }

  // The server dies over it: the write is in the store or not, and nobody is told.
  void CrashOver(const Request& request, Fate fate) {
    const bool reads = std::holds_alternative<core::GetCommand>(request.command);
    if (reads) {
      engine.FailNextReads(1);
    } else {
      engine.NextWrites({fate});
    }
    EXPECT_EQ(Says(request), "STORE_UNAVAILABLE");
    Restart();
  }

  const Verb& verb() const { return GetParam().verb; }
};

TEST_P(FaultGridTest, HasTheRightAnswer) {
  const Late& late = GetParam().late;
  switch (GetParam().fault) {
    case Fault::kRequestLost:
      EXPECT_EQ(Says(verb().message), verb().first) << "asked again";
      EXPECT_EQ(Stored(), verb().after);
      break;
    case Fault::kReplyLost:
      EXPECT_EQ(Says(verb().message), verb().first);
      EXPECT_EQ(Stored(), verb().after);
      EXPECT_EQ(Says(verb().message), verb().again);
      EXPECT_EQ(Stored(), verb().after) << "a repetition changes something";
      break;
    case Fault::kRepeatedLate:
    case Fault::kDelayed: {
      const bool repeated = GetParam().fault == Fault::kRepeatedLate;
      if (repeated) EXPECT_EQ(Says(verb().message), verb().first);
      for (const Request& request : late.meanwhile) Send(request);
      Pass(late.passes);
      const std::string stored = Stored();
      EXPECT_EQ(Says(verb().message), late.answer);
      const bool has_effect = late.answer == std::string(verb().first) && !repeated;
      // What is forgotten may be erased at any time.
      const bool erased = late.passes >= kForgotten && StoredAs("k") == "ABSENT";
      EXPECT_TRUE(erased || Stored() == (has_effect ? verb().after : stored)) << Stored();
      break;
    }
    case Fault::kCrashBeforeItIsDurable:
      CrashOver(verb().message, Fate::kUnknownNotWritten);
      EXPECT_EQ(Stored(), verb().before);
      EXPECT_EQ(Says(verb().message), verb().first);
      EXPECT_EQ(Stored(), verb().after);
      break;
    case Fault::kCrashBeforeTheReply:
      CrashOver(verb().message, Fate::kUnknownWritten);
      EXPECT_EQ(Stored(), verb().after);
      EXPECT_EQ(Says(verb().message), verb().again);
      EXPECT_EQ(Stored(), verb().after);
      break;
    case Fault::kCallerDies: {
      EXPECT_EQ(Says(verb().message), verb().first);
      Pass(kLease);
      EXPECT_EQ(Says(Inspect("k")), verb().died_after);
      // Nobody else is granted what may have happened.
      const bool unknown = std::string(verb().died_after) == "INSPECTED UNRESOLVED";
      if (unknown) EXPECT_EQ(Says(Reserve("k", 9)), "UNRESOLVED");
      break;
    }
    case Fault::kStoreError:
      engine.FailNextReads(1);
      EXPECT_EQ(Says(verb().message), "STORE_UNAVAILABLE");
      EXPECT_EQ(Stored(), verb().before);
      EXPECT_EQ(Says(verb().message), verb().first);
      break;
  }
}

INSTANTIATE_TEST_SUITE_P(Every, FaultGridTest, testing::ValuesIn(Grid()),
                         [](const auto& cell) { return cell.param.name; });

// A caller that died before its message was sent.
class SilentCallerTest : public FaultGridTest {};

TEST_P(SilentCallerTest, LeavesWhatItsLeaseLeaves) {
  Pass(kLease);
  EXPECT_EQ(Says(Inspect("k")), verb().died_before);
}

INSTANTIATE_TEST_SUITE_P(Every, SilentCallerTest, testing::ValuesIn([] {
                           std::vector<Cell> cells;
                           for (const Verb& verb : Verbs()) {
                             cells.push_back({.verb = verb, .name = verb.name});
                           }
                           return cells;
                         }()),
                         [](const auto& cell) { return cell.param.name; });

// --- Waiting: nothing is stored, so that it is asked again --------------------------------------

class WaitFaultTest : public ShellTest {
 protected:
  WaitFaultTest() { Send(Reserve("k", 1)); }
};

TEST_F(WaitFaultTest, AReplyThatWasLostIsAskedForAgain) {
  const Call* first = Send(Get("k", 10s));
  Send(Complete("k", 1));
  EXPECT_EQ(first->said, "GOT COMPLETE");
  EXPECT_EQ(Send(Get("k", 10s))->said, "GOT COMPLETE");
}

TEST_F(WaitFaultTest, OneThatComesTwiceWaitsTwice) {
  const std::vector<const Call*> both = {Send(Get("k", 10s)), Send(Get("k", 10s))};
  Send(Complete("k", 1));
  for (const Call* call : both) EXPECT_EQ(call->said, "GOT COMPLETE");
}

TEST_F(WaitFaultTest, AfterARestartItIsAskedAgain) {
  const Call* waits = Send(Get("k", 10s));
  store->Drain();
  EXPECT_EQ(waits->said, "GOT PENDING");
  Restart();
  const Call* again = Send(Get("k", 10s));
  Send(Complete("k", 1));
  EXPECT_EQ(again->said, "GOT COMPLETE");
}

TEST_F(WaitFaultTest, ACallerWhoIsGoneDoesNotWait) {
  const Call* waits = Send(Reserve("k", 2, 10s));
  Cancel(waits);
  EXPECT_EQ(waits->said, "CANCELLED");
  Send(Release("k", 1));
  EXPECT_EQ(StoredAs("k"), "FREED");
}

TEST_F(WaitFaultTest, AStoreThatFailsIsSaid) {
  const Call* waits = Send(Get("k", 10s));
  engine.NextWrites({Fate::kUnknownNotWritten});
  EXPECT_EQ(Send(Complete("k", 1))->said, "STORE_UNAVAILABLE");
  EXPECT_EQ(waits->said, "STORE_UNAVAILABLE");
}

// --- What names what it means
// ---------------------------------------------------------------------

TEST_F(WaitFaultTest, AnOperatorsMessageWithAnOldEtagTouchesNothingNewer) {
  const core::Stored stored = engine.At(KeyOf("k"));
  const std::string etag = core::Etag(std::get<core::Record>(stored));
  Send(Mark("k", 1));
  clock.Advance(2min);
  Request resolve = Resolve("k", core::Resolution::kNotExecuted);
  std::get<core::ResolveCommand>(resolve.command).etag = etag;
  EXPECT_EQ(Send(resolve)->said, "ETAG_MISMATCH");
  Request erase = Delete("k", true);
  std::get<core::DeleteCommand>(erase.command).etag = etag;
  EXPECT_EQ(Send(erase)->said, "ETAG_MISMATCH");
  EXPECT_EQ(StoredAs("k"), "UNRESOLVED");
}

TEST_F(WaitFaultTest, AListThatCannotBeReadIsUnavailableAndNotEmpty) {
  engine.FailNextScans(1);
  absl::StatusOr<ListPage> page;
  store->List({.scan = {.name_space = "pay"}}, 10, "",
              [&](absl::StatusOr<ListPage> got) { page = std::move(got); });
  EXPECT_EQ(page.status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace idempotency::keystore
