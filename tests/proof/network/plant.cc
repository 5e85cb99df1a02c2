#include "tests/proof/network/plant.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <variant>

namespace idempotency::proof::network {
namespace {

// More than any that a server gives here, and than what clients make up.
constexpr uint64_t kNewestToken = 9'000'000'000'000'000'000;

using Fits = std::function<bool(const Call&)>;

bool Starts(const Call& call, std::string_view with) {
  return std::string_view(call.told.answer).substr(0, with.size()) == with;
}

// One of the answered calls that fit; null: there is none.
Call* AnyCall(Random& random, KeyHistory& history, const Fits& fits) {
  std::vector<Call*> found;
  for (Call& call : history.calls) {
    if (call.ended == Ended::kAnswered && fits(call)) found.push_back(&call);
  }
  return found.empty() ? nullptr : random.Any(found);
}

// A plant that changes one of the calls that fit.
template <typename Change>
Plant Changed(std::string name, Fits fits, Change change) {
  return {std::move(name), [fits = std::move(fits), change](Random& random, KeyHistory& history) {
            Call* const call = AnyCall(random, history, fits);
            if (call != nullptr) change(*call);
            return call != nullptr;
          }};
}

// "NAME=value" with another value.
void SetField(std::string& answer, const std::string& name, const std::string& value) {
  const size_t at = answer.find(name + "=");
  const size_t end = std::min(answer.find(' ', at), answer.size());
  answer.replace(at, end - at, name + "=" + value);
}

template <typename Command>
bool Is(const Call& call) {
  return std::holds_alternative<Command>(call.command);
}

bool IsOwners(const Call& call) {
  return Is<core::RenewCommand>(call) || Is<core::CompleteCommand>(call) ||
         Is<core::ReleaseCommand>(call) || Is<core::MarkUnresolvedCommand>(call);
}

bool Granted(const Call& call) { return Starts(call, "ACQUIRED"); }

bool PutTokenTwice(Random& random, KeyHistory& history) {
  const Call* const first = AnyCall(random, history, Granted);
  Call* const second = AnyCall(random, history, Granted);
  if (first == nullptr || first == second) return false;
  second->told.token = first->told.token;
  SetField(second->told.answer, "token", std::to_string(first->told.token));
  return true;
}

// The last Get is told what an earlier one was, though the last Inspect was told more.
bool PutStaleRead(Random& random, KeyHistory& history) {
  Call& last = history.calls.back();
  if (!last.told.history.has_value()) return false;
  const std::string newest = *last.told.history;
  const Call* const earlier = AnyCall(random, history, [&](const Call& call) {
    return Is<core::GetCommand>(call) && !call.told.history.value_or("").empty() &&
           call.told.history->size() < newest.size() &&
           newest.compare(0, call.told.history->size() + 1, *call.told.history + " ") == 0 &&
           std::get<core::GetCommand>(call.command).fingerprint ==
               std::get<core::GetCommand>(last.command).fingerprint;
  });
  if (earlier == nullptr) return false;
  last.told = earlier->told;
  last.told.not_after = core::Time{};
  return true;
}

bool PutLostRecord(Random& random, KeyHistory& history) {
  if (AnyCall(random, history, Granted) == nullptr) return false;
  history.calls.back().told = Told{.answer = "error OPERATION_NOT_FOUND"};
  return true;
}

std::vector<Plant> MakePlants() {
  return {
      Changed(
          "another body",
          [](const Call& c) { return c.told.answer.find("body=") != std::string::npos; },
          [](Call& c) { SetField(c.told.answer, "body", "'planted'"); }),
      Changed("another attempt", Granted,
              [](Call& c) { SetField(c.told.answer, "attempt", "77"); }),
      Changed(
          "a second grant", [](const Call& c) { return Starts(c, "IN_PROGRESS"); },
          [](Call& c) {
            c.told = Told{
                .answer = "ACQUIRED PROCEED token=" + std::to_string(kNewestToken) + " attempt=1",
                .token = kNewestToken};
          }),
      {"a token twice", PutTokenTwice},
      {"a stale read", PutStaleRead},
      {"a lost record", PutLostRecord},
      Changed(
          "another reason", [](const Call& c) { return IsOwners(c) && Starts(c, "error"); },
          [](Call& c) { c.told.answer = "error LEASE_LIVE"; }),
      Changed(
          "an error for an answer",
          [](const Call& c) { return Is<core::ReserveCommand>(c) && !Starts(c, "error"); },
          [](Call& c) { c.told = Told{.answer = "error OPERATION_NOT_FOUND"}; }),
      Changed(
          "another state",
          [](const Call& c) { return Is<core::ReleaseCommand>(c) && !Starts(c, "error"); },
          [](Call& c) { c.told.answer = "COMPLETE"; }),
      Changed(
          "an event too many", [](const Call& c) { return c.told.history.has_value(); },
          [](Call& c) { *c.told.history += " LATE_COMPLETION#1/planted"; }),
      Changed(
          "a lease past its end",
          [](const Call& c) {
            const bool held =
                Starts(c, "ALREADY_HELD") || Starts(c, "IN_PROGRESS") || Starts(c, "PENDING");
            return held && core::IsSet(c.told.lease_end) &&
                   c.told.lease_end - c.told.not_before < kShortBelow;
          },
          [](Call& c) { c.told.not_before = c.told.not_after = c.told.lease_end; }),
  };
}

}  // namespace

const std::vector<Plant>& Plants() {
  static const std::vector<Plant>* const kPlants = new std::vector<Plant>(MakePlants());
  return *kPlants;
}

}  // namespace idempotency::proof::network
