#include "keystore/command_queue.h"

#include <algorithm>
#include <utility>

namespace idempotency::keystore {
namespace {

// Fewer empty places are not worth moving the others.
constexpr size_t kFewPlaces = 64;
// So many bytes of a response cost about as much as a command.
constexpr size_t kBytesOfUnitCost = 4096;

uint32_t CostOf(const PendingCommand& command) {
  return static_cast<uint32_t>(1 + ResponseBytes(command.request.command) / kBytesOfUnitCost);
}

}  // namespace

uint64_t CommandQueue::Push(PendingCommandPtr command) {
  command->id = ++last_id_;
  ++held_;
  order_.Push(command->tenant, last_id_, CostOf(*command));
  places_.push_back(Place{last_id_, std::move(command)});
  return last_id_;
}

PendingCommandPtr CommandQueue::Pop() {
  while (!order_.empty()) {
    const uint64_t id = order_.Pop();
    const bool is_first = !places_.empty() && places_.front().id == id;
    const auto place = is_first ? places_.begin() : PlaceOf(id);
    if (place == places_.end() || place->command == nullptr) continue;
    return Empty(place);
  }
  return nullptr;
}

std::deque<CommandQueue::Place>::iterator CommandQueue::PlaceOf(uint64_t id) {
  const auto place = std::lower_bound(places_.begin(), places_.end(), id,
                                      [this](const Place& earlier, uint64_t wanted) {
                                        ++steps_;
                                        return earlier.id < wanted;
                                      });
  return place != places_.end() && place->id == id ? place : places_.end();
}

const PendingCommand* CommandQueue::Find(uint64_t id) {
  const auto place = PlaceOf(id);
  return place == places_.end() ? nullptr : place->command.get();
}

PendingCommandPtr CommandQueue::Take(uint64_t id) {
  const auto place = PlaceOf(id);
  if (place == places_.end() || place->command == nullptr) return nullptr;
  return Empty(place);
}

PendingCommandPtr CommandQueue::Empty(std::deque<Place>::iterator place) {
  --held_;
  PendingCommandPtr command = std::move(place->command);
  while (!places_.empty() && places_.front().command == nullptr) places_.pop_front();
  DropEmptyPlaces();
  return command;
}

// When most are empty: so each command that is taken out moves one other on the average.
void CommandQueue::DropEmptyPlaces() {
  const size_t empty_places = places_.size() - held_;
  if (empty_places >= kFewPlaces && empty_places >= held_) {
    steps_ += places_.size();
    places_.erase(std::remove_if(places_.begin(), places_.end(),
                                 [](const Place& place) { return place.command == nullptr; }),
                  places_.end());
  }
  const size_t gone = order_.size() - held_;
  if (gone < kFewPlaces || gone < held_) return;
  steps_ += order_.size();
  order_.Keep([this](uint64_t id) {
    const auto place =
        std::lower_bound(places_.begin(), places_.end(), id,
                         [](const Place& earlier, uint64_t wanted) { return earlier.id < wanted; });
    return place != places_.end() && place->id == id && place->command != nullptr;
  });
}

}  // namespace idempotency::keystore
