#include "tests/proof/sim/world.h"

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "keystore/core/limits.h"
#include "keystore/core/names.h"
#include "tests/keystore/core/core_text.h"
#include "tests/keystore/core/random_history.h"
#include "tests/proof/sim/actors.h"
#include "tests/proof/sim/random.h"
#include "tests/proof/sim/replica.h"

namespace idempotency::proof {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr uint64_t kSetupPart = 1'000'000;
constexpr uint64_t kEndPart = 1'000'001;
constexpr core::Duration kYear = 365 * core::kDay;
// The clocks of several replicas are at most this far apart.
constexpr core::Duration kSkew = seconds(2);

const std::vector<PolicyPtr>& Policies() {
  static const std::vector<PolicyPtr> kAll = [] {
    std::vector<PolicyPtr> all;
    for (const core::Policy& policy : core::SamplePolicies()) {
      all.push_back(std::make_shared<const core::Policy>(policy));
    }
    return all;
  }();
  return kAll;
}

// Keys that are easily taken for one another.
const std::vector<core::Key>& Keys() {
  static const std::vector<core::Key> kAll{
      {"pay", "a", "bc"}, {"pay", "ab", "c"}, {"pay", "a", "b"}};
  return kAll;
}

class World {
 public:
  explicit World(const PlayOptions& options);
  History Run();

 private:
  using Action = void (World::*)();

  void SetUp();
  void Step(size_t step);

  // What can happen.
  void ClientActs();
  void OperatorActs();
  void Deliver();
  void DeliverSeveral();
  void EngineCompletes();
  void TimePasses();
  void TimersRun();
  void Sweep();
  void CancelOne();
  void List();
  void ClockTrouble();
  void Crash();
  void Compact();
  void PressureChanges();
  void PolicyChanges();
  void DatabaseCatchesUp();

  void Send(MessagePtr message);
  void Hand(const std::vector<MessagePtr>& messages, size_t replica);
  void Told(size_t op);
  void Hear(const Message& message, const core::Answer& answer);
  core::Duration NextSpan();
  std::vector<core::Time> Boundaries() const;
  void SetClock(Replica& replica);
  void SetReplicatedClock(Replica& replica);
  size_t AnyUp();
  void LastLook();
  void Say(const std::string& line);

  const PlayOptions& options_;
  History history_;
  Random random_;
  EngineManners manners_;
  Numbers numbers_;
  std::unique_ptr<SimDisk> disk_;
  Shared shared_;
  std::deque<Replica> replicas_;
  std::vector<Client> clients_;
  std::unique_ptr<Operator> operator_;
  std::vector<PolicyPtr> policy_of_;      // by key
  std::vector<MessagePtr> on_their_way_;  // to a replica
  std::vector<std::pair<MessagePtr, core::Answer>> coming_back_;
  std::vector<MessagePtr> message_of_;  // by op
  size_t steps_ = 0;
};

World::World(const PlayOptions& options) : options_(options), random_(options.seed, kSetupPart) {
  history_.seed = options.seed;
  history_.tell = options.tell;
  SetUp();
}

void World::SetUp() {
  Random& draw = random_;
  history_.exclusive = draw.Percent(60);
  const size_t replicas = history_.exclusive ? 1 : 2 + draw.Below(2);
  history_.clock_skew = history_.exclusive ? core::Duration{0} : kSkew;
  const size_t keys = 1 + (draw.OneIn(2) ? draw.Below(3) : 0);
  history_.keys.assign(Keys().begin(), Keys().begin() + static_cast<std::ptrdiff_t>(keys));
  history_.told.resize(replicas);
  history_.forward.resize(replicas);
  history_.back.resize(replicas);
  manners_.late_percent = draw.OneIn(2) ? 0 : static_cast<int>(draw.Below(60));
  manners_.unknown_percent = !history_.exclusive && draw.OneIn(2) ? 15 : 0;
  manners_.read_error_percent = draw.OneIn(4) ? 8 : 0;
  manners_.sync_failure_percent = draw.OneIn(4) ? 5 : 0;
  shared_.mutant = options_.mutant == nullptr ? &NoMutant() : options_.mutant;
  manners_.mistake = shared_.mutant->engine;
  // It takes a write that times out, another command on the key, and what comes in between.
  if (manners_.mistake == EngineMistake::kUnknownMayStillCome && !history_.exclusive) {
    manners_.unknown_percent = 40;
  }
  disk_ =
      std::make_unique<SimDisk>(&history_, manners_.mistake == EngineMistake::kNothingIsNothing);
  shared_.history = &history_;
  shared_.disk = disk_.get();
  shared_.random = &random_;
  shared_.manners = &manners_;
  shared_.on_answer = [this](size_t op) { Told(op); };
  const PolicyPtr policy = draw.Any(Policies());
  policy_of_.assign(keys, policy);
  const size_t clients = 2 + draw.Below(3);
  for (size_t i = 0; i < clients; ++i) clients_.emplace_back(i, draw.Below(keys), &numbers_);
  operator_ = std::make_unique<Operator>(clients, &numbers_);
  for (size_t i = 0; i < replicas; ++i) {
    replicas_.emplace_back(&shared_, i);
    if (!history_.exclusive) replicas_[i].machine().wall_offset = milliseconds(draw.Below(2001));
    replicas_[i].Start();
  }
  steps_ = 16 + draw.Below(kMaxSteps - 15);
  if (history_.tell) {
    Say(std::string(history_.exclusive ? "exclusive" : "replicated") + ", " +
        std::to_string(replicas) + " replicas, " + std::to_string(keys) + " keys, policy " +
        std::string(core::Name(policy->terms.unknown_outcome)));
  }
}

void World::Say(const std::string& line) {
  if (history_.tell) history_.story.push_back("@" + core::Text(history_.at) + " " + line);
}

size_t World::AnyUp() {
  std::array<size_t, 4> up{};
  size_t count = 0;
  for (size_t i = 0; i < replicas_.size(); ++i) {
    if (replicas_[i].up()) up[count++] = i;
  }
  return count == 0 ? replicas_.size() : up[random_.Below(count)];
}

// --- Commands ----------------------------------------------------------------------------------

void World::ClientActs() {
  Client& client = clients_[random_.Below(clients_.size())];
  if (history_.keys.size() > 1 && random_.OneIn(16))
    client.SetKey(random_.Below(history_.keys.size()));
  Send(client.Speak(random_));
}

void World::OperatorActs() { Send(operator_->Speak(random_.Below(history_.keys.size()), random_)); }

// The network takes it: it arrives at once, later, twice or never.
void World::Send(MessagePtr message) {
  if (random_.OneIn(12)) {
    ++history_.counts.dropped_messages;
    return;
  }
  if (random_.OneIn(3) && on_their_way_.size() < 12) {
    on_their_way_.push_back(std::move(message));
    return;
  }
  if (random_.OneIn(8)) {
    ++history_.counts.repeated_messages;
    on_their_way_.push_back(message);
  }
  const size_t replica = AnyUp();
  if (replica < replicas_.size()) Hand({std::move(message)}, replica);
}

void World::Deliver() {
  if (!coming_back_.empty() && random_.OneIn(3)) {
    const size_t which = random_.Below(coming_back_.size());
    const auto [message, answer] = std::move(coming_back_[which]);
    coming_back_.erase(coming_back_.begin() + static_cast<std::ptrdiff_t>(which));
    return Hear(*message, answer);
  }
  if (on_their_way_.empty()) return ClientActs();
  const size_t which = random_.Below(on_their_way_.size());
  const MessagePtr message = on_their_way_[which];
  if (random_.OneIn(4)) {
    ++history_.counts.repeated_messages;
  } else {
    on_their_way_.erase(on_their_way_.begin() + static_cast<std::ptrdiff_t>(which));
  }
  const size_t replica = AnyUp();
  if (replica < replicas_.size()) Hand({message}, replica);
}

// They share a batch.
void World::DeliverSeveral() {
  std::vector<MessagePtr> messages;
  const size_t count = 2 + random_.Below(3);
  for (size_t i = 0; i < count; ++i) {
    const bool waiting = !on_their_way_.empty() && random_.OneIn(2);
    if (waiting) {
      const size_t which = random_.Below(on_their_way_.size());
      messages.push_back(on_their_way_[which]);
      if (!random_.OneIn(4)) {
        on_their_way_.erase(on_their_way_.begin() + static_cast<std::ptrdiff_t>(which));
      }
    } else {
      messages.push_back(clients_[random_.Below(clients_.size())].Speak(random_));
    }
  }
  const size_t replica = AnyUp();
  if (replica < replicas_.size()) Hand(messages, replica);
}

void World::Hand(const std::vector<MessagePtr>& messages, size_t replica) {
  std::vector<std::pair<size_t, core::Duration>> ops;
  for (const MessagePtr& message : messages) {
    ops.emplace_back(history_.ops.size(), message->wait);
    history_.ops.push_back(Op{.key = message->key,
                              .replica = replica,
                              .message = message->number,
                              .command = message->command,
                              .policy = policy_of_[message->key],
                              .invoked = history_.Next(),
                              .invoked_at = history_.at});
    message_of_.push_back(message);
    if (history_.tell) {
      Say("r" + std::to_string(replica) + " k" + std::to_string(message->key) + " #" +
          std::to_string(ops.back().first) + " m" + std::to_string(message->number) + " " +
          core::Text(message->command) +
          (message->wait.count() > 0 ? " wait=" + core::Text(message->wait) : ""));
    }
  }
  replicas_[replica].Submit(ops);
}

void World::Told(size_t index) {
  const Op& op = history_.ops[index];
  const std::string text = core::Text(op.answer);
  history_.Note(index);
  history_.Note(text);
  if (history_.tell) Say("    #" + std::to_string(index) + " <- " + text);
  if (message_of_.size() <= index || message_of_[index] == nullptr) return;
  if (random_.OneIn(8)) {
    ++history_.counts.lost_replies;
    return;
  }
  if (random_.OneIn(8)) {
    coming_back_.emplace_back(message_of_[index], op.answer);
    return;
  }
  Hear(*message_of_[index], op.answer);
}

void World::Hear(const Message& message, const core::Answer& answer) {
  if (message.actor < clients_.size()) {
    clients_[message.actor].Hear(message, answer, random_);
  } else {
    operator_->Hear(answer);
  }
}

void World::CancelOne() {
  const size_t replica = AnyUp();
  if (replica < replicas_.size()) replicas_[replica].Cancel(random_);
}

void World::List() {
  const size_t replica = AnyUp();
  if (replica >= replicas_.size()) return;
  keystore::ListFilter filter;
  filter.scan.name_space = "pay";
  const bool scoped = random_.OneIn(2);
  if (scoped) filter.scan.scope = "a";
  ++history_.counts.listed;
  replicas_[replica].store().List(filter, 10, "", [&](absl::StatusOr<keystore::ListPage> page) {
    if (!page.ok()) return;
    const Seq now = history_.Next();
    for (const keystore::ListEntry& entry : page->entries) {
      const auto key = std::find(history_.keys.begin(), history_.keys.end(), entry.key);
      if (key == history_.keys.end() || (scoped && entry.key.scope != "a")) {
        return history_.Break("I11: a list shows what is not in its scope");
      }
      history_.listed.push_back(ListedEntry{.key = static_cast<size_t>(key - history_.keys.begin()),
                                            .seq = now,
                                            .record = entry.record});
    }
    history_.Note(page->entries.size());
  });
}

// --- Engines -----------------------------------------------------------------------------------

void World::EngineCompletes() {
  const size_t count = 1 + random_.Below(4);
  for (size_t i = 0; i < count; ++i) {
    const size_t replica = AnyUp();
    if (replica >= replicas_.size()) return;
    if (replicas_[replica].engine().pending() > 0) replicas_[replica].engine().CompleteOne();
  }
}

void World::DatabaseCatchesUp() {
  if (!disk_->on_their_way().empty()) {
    auto& late = disk_->on_their_way();
    std::swap(late[random_.Below(late.size())], late.back());
    ++history_.counts.late_writes;
    const bool applied = disk_->ApplyIfExpected(late.back());
    disk_->Sync();
    Say(std::string("a write that had timed out ") + (applied ? "comes" : "is too late"));
    late.pop_back();
  }
  const size_t replica = AnyUp();
  if (replica < replicas_.size())
    replicas_[replica].engine().Hint(random_.Below(history_.keys.size()));
}

void World::PressureChanges() {
  const size_t replica = AnyUp();
  if (replica < replicas_.size()) {
    replicas_[replica].engine().SetPressure(random_.OneIn(3), random_.OneIn(3));
  }
}

void World::Compact() {
  const size_t replica = AnyUp();
  if (!history_.exclusive || replica >= replicas_.size()) return Sweep();
  Say("compaction");
  // The mark is at most a second old: what the clock says now was written down.
  replicas_[replica].KeepMark();
  replicas_[replica].engine().Compact(replicas_[replica].ReadClock());
}

void World::Crash() {
  Replica& replica = replicas_[random_.Below(replicas_.size())];
  if (!replica.up()) return;
  const bool killed = replica.dying() || !random_.OneIn(4);
  if (history_.tell) Say(killed ? "a replica is killed" : "a replica is stopped");
  killed ? replica.Kill() : replica.Stop();
}

// --- Time --------------------------------------------------------------------------------------

// The moments at which something may change by time alone.
std::vector<core::Time> World::Boundaries() const {
  std::vector<core::Time> all;
  for (size_t key = 0; key < history_.keys.size(); ++key) {
    const core::RecordPtr record = disk_->row(key).record;
    if (record == nullptr) continue;
    all.insert(all.end(), {record->lease_expire_time, record->response_expire_time,
                           record->forget_time, record->lease_expire_time + core::kFreedMemory});
    if (record->unknown.has_value()) {
      all.push_back(record->unknown->next_attempt_time);
      all.push_back(record->unknown->since + record->terms.settle);
      all.push_back(record->create_time + record->terms.protection_window - seconds(1));
    }
  }
  return all;
}

core::Duration World::NextSpan() {
  const size_t replica = AnyUp();
  if (replica < replicas_.size() && !random_.OneIn(3)) {
    const std::vector<core::Time> boundaries = Boundaries();
    if (!boundaries.empty()) {
      const core::Time now = replicas_[replica].ReadClock().latest;
      core::Duration span = random_.Any(boundaries) - now;
      if (history_.clock_skew.count() > 0 && random_.OneIn(2)) span += history_.clock_skew;
      span += milliseconds(static_cast<int64_t>(random_.Below(3)) - 1);
      const bool far = span > hours(1) && !random_.OneIn(4);
      if (span > core::Duration{0} && !far && span < kYear) return span;
    }
  }
  if (random_.OneIn(3))
    return random_.OneIn(6) ? core::Duration(hours(random_.Below(48))) : minutes(random_.Below(40));
  return milliseconds(1 + random_.Below(20'000));
}

void World::TimePasses() {
  const core::Duration span = NextSpan();
  const bool sleeps = random_.OneIn(6);
  history_.at += span;
  if (history_.tell) Say(core::Text(span) + (sleeps ? " pass in suspend" : " pass"));
  if (sleeps) ++history_.counts.suspends;
  for (Replica& replica : replicas_) {
    if (sleeps) replica.machine().suspended += span;
    // A process that stands still does not see it yet.
    if (replica.up() && !random_.OneIn(6)) replica.KeepMark();
  }
  if (!random_.OneIn(3)) TimersRun();
}

void World::TimersRun() {
  for (Replica& replica : replicas_) {
    if (replica.up()) replica.store().RunTimers();
  }
}

void World::Sweep() {
  for (Replica& replica : replicas_) {
    if (!replica.up()) continue;
    replica.KeepMark();
    replica.store().Sweep();
  }
}

void World::SetClock(Replica& replica) {
  static const std::vector<core::Duration> kSteps{
      milliseconds(1), seconds(10), minutes(30), hours(1), hours(1) + milliseconds(1),
      hours(2),        core::kDay,  kYear};
  Machine& machine = replica.machine();
  switch (random_.Below(6)) {
    case 0:
      machine.synchronised = !machine.synchronised;
      break;
    case 1:
      machine.wall_offset = core::Duration{0};
      break;
    case 2:
      if (replica.up()) replica.Confirm();
      return;
    default: {
      const core::Duration step = random_.Any(kSteps);
      machine.wall_offset += random_.OneIn(2) ? step : -step;
      break;
    }
  }
  ++history_.counts.jumps;
  replica.NoteForward();
}

// Where several clocks have to stay close together, a jump is never believed, and set right
// before the process is started again.
void World::SetReplicatedClock(Replica& replica) {
  Machine& machine = replica.machine();
  ++history_.counts.jumps;
  if (machine.wall_offset > kSkew || machine.wall_offset < core::Duration{0}) {
    machine.wall_offset = core::Duration{0};
  } else if (replica.up()) {
    machine.wall_offset =
        random_.OneIn(2) ? -hours(random_.Below(30)) : hours(2 + random_.Below(9000));
  }
}

void World::ClockTrouble() {
  Replica& replica = replicas_[random_.Below(replicas_.size())];
  history_.exclusive ? SetClock(replica) : SetReplicatedClock(replica);
  if (history_.tell) {
    Say("a clock is off by " + core::Text(replica.machine().wall_offset) +
        (replica.machine().synchronised ? ", synchronised" : ""));
  }
}

void World::PolicyChanges() {
  policy_of_[random_.Below(policy_of_.size())] = random_.Any(Policies());
}

// --- The course of a history -------------------------------------------------------------------

void World::Step(size_t step) {
  random_ = Random(options_.seed, step);
  for (Replica& replica : replicas_) {
    if (replica.up() && replica.dying() && random_.OneIn(2)) replica.Kill();
    if (!replica.up() && random_.OneIn(2)) {
      if (!history_.exclusive) {
        replica.machine().wall_offset = milliseconds(random_.Below(2001));
        replica.machine().synchronised = true;
      }
      Say("a replica is started");
      replica.Start();
      if (!history_.exclusive) replica.machine().synchronised = false;
    }
  }
  static constexpr std::array<std::pair<int, Action>, 15> kActions{
      {{34, &World::ClientActs},
       {14, &World::Deliver},
       {6, &World::DeliverSeveral},
       {9, &World::EngineCompletes},
       {13, &World::TimePasses},
       {3, &World::TimersRun},
       {6, &World::OperatorActs},
       {2, &World::CancelOne},
       {2, &World::List},
       {3, &World::ClockTrouble},
       {2, &World::Crash},
       {2, &World::Compact},
       {1, &World::PressureChanges},
       {1, &World::PolicyChanges},
       {2, &World::DatabaseCatchesUp}}};
  int draw = static_cast<int>(random_.Below(100));
  for (const auto& [weight, action] : kActions) {
    draw -= weight;
    if (draw < 0) return (this->*action)();
  }
}

// Everything settles, and every replica says what it knows. Half of the histories end with a
// crash first, so that what was answered has to be safe.
void World::LastLook() {
  random_ = Random(options_.seed, kEndPart);
  const bool crash = random_.OneIn(2);
  for (Replica& replica : replicas_) {
    if (!replica.up()) continue;
    crash || replica.dying() ? replica.Kill() : replica.Stop();
  }
  for (const AskedWrite& write : disk_->on_their_way()) {
    if (random_.OneIn(2)) disk_->ApplyIfExpected(write);
  }
  disk_->on_their_way().clear();
  disk_->Sync();
  manners_ = EngineManners{.mistake = manners_.mistake};
  const size_t first = history_.ops.size();
  for (size_t i = 0; i < replicas_.size(); ++i) {
    if (!history_.exclusive) {
      replicas_[i].machine().wall_offset = milliseconds(random_.Below(2001));
      replicas_[i].machine().synchronised = true;
    }
    replicas_[i].Start();
    for (size_t key = 0; key < history_.keys.size(); ++key) {
      Hand({std::make_shared<const Message>(
               Message{.actor = clients_.size(), .key = key, .command = core::InspectCommand{}})},
           i);
    }
    replicas_[i].Stop();
  }
  for (size_t i = first; i < history_.ops.size(); ++i) history_.ops[i].last_look = true;
}

History World::Run() {
  for (size_t step = 0; step < steps_ && history_.broken.empty(); ++step) {
    if (step < options_.skip.size() && options_.skip[step]) continue;
    Step(step);
  }
  LastLook();
  history_.Note(history_.seq);
  history_.Note(static_cast<uint64_t>(history_.at.count()));
  for (const Change& change : history_.changes) {
    if (change.after != nullptr) history_.Note(core::Text(*change.after));
    if (change.after == nullptr && !change.by_filter) ++history_.counts.reclaimed;
  }
  return std::move(history_);
}

}  // namespace

History Play(const PlayOptions& options) { return World(options).Run(); }

}  // namespace idempotency::proof
