#include "keystore/engine/etcd/etcd_sweep.h"

#include <chrono>
#include <optional>
#include <utility>
#include <variant>

#include "keystore/codec/key_codec.h"
#include "keystore/core/invariants.h"
#include "keystore/core/transition.h"
#include "keystore/engine/etcd/etcd_requests.h"
#include "keystore/engine/etcd/etcd_scan.h"

namespace idempotency::keystore {
namespace {

using etcdserverpb::KeyValue;
using etcdserverpb::TxnRequest;
using etcdserverpb::TxnResponse;

// A clock that is a little wrong costs space and not records.
constexpr core::Duration kMargin = std::chrono::hours(1);

core::Now Earlier(core::Now now, core::Duration span) {
  now.earliest -= span;
  now.latest -= span;
  now.wall -= span;
  return now;
}

// What becomes of one record.
struct Fate {
  enum class Kind : uint8_t { kStays, kEntryGoes, kShrinks, kGoes };
  Kind kind = Kind::kStays;
  std::string value;  // of what shrinks
  core::Time due;     // of it, again
};

Fate Judge(std::string_view stored_key, const std::string& value, const RecordSealer& sealer,
           const core::Now& then) {
  core::Stored stored = DecodeStored(sealer, stored_key, value);
  if (std::holds_alternative<core::Absent>(stored)) return {.kind = Fate::Kind::kGoes};
  auto* const before = std::get_if<core::Record>(&stored);
  if (before == nullptr || FamilyOf(before->state) != Family::kFinished) {
    return {.kind = Fate::Kind::kEntryGoes};
  }
  const core::State state = before->state;
  const core::Time due = DueTime(*before);
  const std::optional<core::Record> after = core::Observe(*std::move(before), then);
  if (!after) return {.kind = Fate::Kind::kGoes};
  if (after->state == state) {
    return {.kind = due > then.earliest ? Fate::Kind::kEntryGoes : Fate::Kind::kStays};
  }
  Fate fate{.kind = Fate::Kind::kShrinks, .due = DueTime(*after)};
  const bool written =
      core::BrokenRule(*after).empty() && sealer.Encode(stored_key, *after, &fate.value);
  return written ? fate : Fate{};
}

}  // namespace

struct EtcdSweep::Page {
  struct Item {
    std::string due_key;
    std::string stored_key;
    // Nothing where the record is not there any more.
    std::optional<KeyValue> record;
  };
  std::vector<Item> items;
  // Where to go on; empty: that was all.
  std::string next;
};

EtcdSweep::EtcdSweep(EtcdClient* client, const EtcdLayout* layout, EtcdEpoch* epoch,
                     const EtcdRetired* retired, const RecordSealer* sealer, SweepSettings settings)
    : client_(*client),
      layout_(*layout),
      epoch_(*epoch),
      retired_(*retired),
      sealer_(*sealer),
      settings_(std::move(settings)) {}

absl::StatusOr<SweepDone> EtcdSweep::Run(const core::Now& now, const std::function<bool()>& stop) {
  SweepDone done;
  began_retired_ = retired_.state();
  if (now.in_doubt || began_retired_.retired) return done;
  const core::Now then = Earlier(now, kMargin);
  const auto [start, end] = layout_.DueRange(then.earliest);
  absl::StatusOr<Page> page = ReadPage(start, end);
  if (!page.ok()) return page.status();
  // Nothing is due: the epoch is left alone.
  if (page->items.empty()) return done;
  const absl::StatusOr<bool> ours = Begin(now);
  if (!ours.ok()) return ours.status();
  bool goes_on = *ours;
  while (goes_on) {
    if (absl::Status status = ReadRecords(&*page); !status.ok()) return status;
    const absl::StatusOr<bool> settled = Settle(*page, then, &done);
    if (!settled.ok()) return settled.status();
    goes_on = *settled && !page->next.empty() && !stop();
    if (!goes_on) break;
    page = ReadPage(page->next, end);
    if (!page.ok()) return page.status();
  }
  return done;
}

absl::StatusOr<bool> EtcdSweep::Begin(const core::Now& now) {
  TxnRequest read;
  AddRangeOne(layout_.EpochKey(), &read);
  const absl::StatusOr<TxnResponse> response = client_.ReadNow(std::move(read));
  if (!response.ok()) return response.status();
  const absl::StatusOr<EpochState> state = epoch_.NoteKey(*response, KeyAt(*response, 0));
  if (!state.ok()) return state.status();
  const core::Time swept = state->value.swept;
  if (swept <= now.latest && now.latest - swept < settings_.interval) return false;
  EpochValue value = state->value;
  value.swept = now.latest;
  const absl::StatusOr<bool> changed = epoch_.ChangeNow(*state, value);
  began_ = epoch_.state();
  return changed;
}

absl::StatusOr<EtcdSweep::Page> EtcdSweep::ReadPage(const std::string& from,
                                                    const std::string& end) {
  TxnRequest request;
  etcdserverpb::RangeRequest* const range = request.add_success()->mutable_request_range();
  range->set_key(from);
  range->set_range_end(end);
  range->set_limit(static_cast<int64_t>(settings_.page));
  range->set_keys_only(true);
  const absl::StatusOr<TxnResponse> response = client_.ReadNow(std::move(request));
  if (!response.ok()) return response.status();
  Page page;
  if (response->responses_size() == 0) return page;
  const etcdserverpb::RangeResponse& found = response->responses(0).response_range();
  std::set<std::string_view> met;
  for (const KeyValue& entry : found.kvs()) {
    const std::string_view stored_key = layout_.StoredKeyOfDue(entry.key());
    // A record that was changed within a few minutes is met again: with the next page.
    if (!met.insert(stored_key).second) {
      page.next = entry.key();
      return page;
    }
    page.items.push_back({.due_key = entry.key(), .stored_key = std::string(stored_key)});
  }
  if (found.more()) page.next = page.items.back().due_key + '\0';
  return page;
}

absl::Status EtcdSweep::ReadRecords(Page* page) {
  if (page->items.empty()) return absl::OkStatus();
  TxnRequest request;
  for (const Page::Item& item : page->items) {
    AddRangeOne(layout_.RecordKey(Family::kFinished, item.stored_key), &request);
  }
  const absl::StatusOr<TxnResponse> response = client_.ReadNow(std::move(request));
  if (!response.ok()) return response.status();
  for (size_t i = 0; i < page->items.size(); ++i) {
    const KeyValue* const record = KeyAt(*response, static_cast<int>(i));
    page->items[i].record = record == nullptr ? std::nullopt : std::optional(*record);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> EtcdSweep::Settle(const Page& page, const core::Now& then, SweepDone* done) {
  TxnRequest commit;
  CompareModRevision(layout_.EpochKey(), began_.revision, &commit);
  retired_.Guard(began_retired_, &commit);
  SweepDone here;
  for (const Page::Item& item : page.items) {
    const std::optional<core::Key> name = DecodeKey(item.stored_key);
    if (item.record && name && !settings_.may_reclaim(name->name_space)) continue;
    TxnRequest* const txn = commit.add_success()->mutable_request_txn();
    const std::string record_key = layout_.RecordKey(Family::kFinished, item.stored_key);
    CompareModRevision(record_key, item.record ? item.record->mod_revision() : 0, txn);
    Fate fate = item.record ? Judge(item.stored_key, item.record->value(), sealer_, then)
                            : Fate{.kind = Fate::Kind::kEntryGoes};
    const bool young = item.record && item.record->create_revision() >= began_.revision;
    if (fate.kind == Fate::Kind::kStays || (fate.kind == Fate::Kind::kGoes && young)) {
      commit.mutable_success()->RemoveLast();
      continue;
    }
    AddDelete(item.due_key, txn->mutable_success());
    if (fate.kind == Fate::Kind::kGoes) {
      ++here.removed;
      AddDelete(record_key, txn->mutable_success());
    } else if (fate.kind == Fate::Kind::kShrinks) {
      ++here.shrunk;
      AddPut(record_key, std::move(fate.value), txn->mutable_success());
      AddPut(layout_.DueKey(fate.due, item.stored_key), {}, txn->mutable_success());
    }
  }
  if (commit.success_size() == 0) return true;
  const absl::StatusOr<TxnResponse> response = client_.WriteNow(std::move(commit));
  if (!response.ok()) return response.status();
  if (!response->succeeded()) return false;
  done->removed += here.removed;
  done->shrunk += here.shrunk;
  return true;
}

}  // namespace idempotency::keystore
