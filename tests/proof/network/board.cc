#include "tests/proof/network/board.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "tests/keystore/core/core_text.h"
#include "tests/proof/network/spaces.h"

namespace idempotency::proof::network {
namespace {

// The words that tell answers apart.
std::string KindOf(const core::Command& command, std::string_view answer) {
  const std::string asked = core::Text(command);
  const std::string verb = asked.substr(0, asked.find(' '));
  const bool error = answer.substr(0, 5) == "error";
  const size_t first = error ? 6 : 0;
  const std::string word(answer.substr(first, answer.find(' ', first) - first));
  return verb + " " + word;
}

}  // namespace

Board::Board(BoardOptions options) : options_(std::move(options)) {
  absl::MutexLock lock(&mutex_);
  for (size_t i = 0; i < options_.open_keys; ++i) open_.push_back(Open());
}

size_t Board::Open() {
  const size_t number = keys_.size();
  Key key;
  key.known.key = options_.name + "-" + std::to_string(number);
  key.known.space = &Spaces()[number % Spaces().size()];
  key.history.key = key.known.key;
  key.history.space = key.known.space;
  key.history.shared = options_.shared;
  keys_.push_back(std::move(key));
  return number;
}

Draft Board::Draw(Random& random, Kinds kinds) {
  absl::MutexLock lock(&mutex_);
  const size_t key = random.Any(open_);
  return {key, DrawRequest(random, kinds, keys_[key].known)};
}

Ticket Board::Send(const Draft& draft, std::string by, std::optional<size_t> behind) {
  Call call;
  call.command = ToModel(draft.request);
  call.span = SpanOf(draft.request);
  call.by = std::move(by);
  call.behind = behind;
  absl::MutexLock lock(&mutex_);
  call.sent = ++now_;
  std::vector<Call>& calls = keys_[draft.key].history.calls;
  calls.push_back(std::move(call));
  if (calls.size() == options_.calls_a_key) {
    *std::find(open_.begin(), open_.end(), draft.key) = Open();
  }
  return {draft.key, keys_[draft.key].history.calls.size() - 1};
}

void Board::Hear(const Ticket& ticket, Outcome outcome) {
  absl::MutexLock lock(&mutex_);
  if (!outcome.wrong.empty() && wrong_.empty()) wrong_ = outcome.wrong;
  Key& key = keys_[ticket.key];
  Call& call = key.history.calls[ticket.call];
  call.ended = outcome.ended;
  if (outcome.ended != Ended::kAnswered) {
    ++lost_;
    ++unanswered_[outcome.why];
    return;
  }
  call.received = ++now_;
  call.perhaps_twice = options_.shared;
  call.told = std::move(outcome.told);
  ++answers_;
  ++met_[KindOf(call.command, call.told.answer)];
  Learn(key, ticket.call);
}

// Whoever holds a lease tells everybody.
void Board::Learn(Key& key, size_t index) {
  const Call& call = key.history.calls[index];
  const auto* reserve = std::get_if<core::ReserveCommand>(&call.command);
  if (reserve == nullptr || call.told.token == 0) return;
  for (Attempt& attempt : key.known.attempts) {
    if (core::DigestOf(attempt.id) == reserve->attempt_id) attempt.token = call.told.token;
  }
}

void Board::Wrong(const std::string& what) {
  absl::MutexLock lock(&mutex_);
  if (wrong_.empty()) wrong_ = what;
}

void Board::CountAnswer(std::string_view answer) {
  absl::MutexLock lock(&mutex_);
  ++answers_;
  ++met_[std::string(answer)];
}

bool Board::WaitForAnswers(uint64_t count, absl::Duration patience) {
  absl::MutexLock lock(&mutex_);
  const auto enough = [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return answers_ >= count || !wrong_.empty();
  };
  return mutex_.AwaitWithTimeout(absl::Condition(&enough), patience) && wrong_.empty();
}

uint64_t Board::answers() const {
  absl::MutexLock lock(&mutex_);
  return answers_;
}

uint64_t Board::lost() const {
  absl::MutexLock lock(&mutex_);
  return lost_;
}

std::string Board::wrong() const {
  absl::MutexLock lock(&mutex_);
  return wrong_;
}

std::map<std::string, uint64_t> Board::met() const {
  absl::MutexLock lock(&mutex_);
  return met_;
}

std::map<std::string, uint64_t> Board::unanswered() const {
  absl::MutexLock lock(&mutex_);
  return unanswered_;
}

std::vector<Draft> Board::LastLooks() const {
  absl::MutexLock lock(&mutex_);
  std::vector<Draft> looks;
  for (size_t key = 0; key < keys_.size(); ++key) {
    if (keys_[key].history.calls.empty()) continue;
    for (Request& request : network::LastLooks(keys_[key].known)) {
      looks.push_back({key, std::move(request)});
    }
  }
  return looks;
}

std::vector<KeyHistory> Board::Take() {
  absl::MutexLock lock(&mutex_);
  std::vector<KeyHistory> histories;
  for (Key& key : keys_) {
    if (!key.history.calls.empty()) histories.push_back(std::move(key.history));
  }
  keys_.clear();
  open_.clear();
  return histories;
}

}  // namespace idempotency::proof::network
