#include "keystore/engine/etcd/etcd_epoch.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "keystore/engine/etcd/etcd_requests.h"

namespace idempotency::keystore {
namespace {

using etcdserverpb::KeyValue;
using etcdserverpb::TxnRequest;
using etcdserverpb::TxnResponse;

uint64_t TokensBy(core::Time now) {
  const auto ms = std::max<int64_t>(now.time_since_epoch().count(), 0);
  return static_cast<uint64_t>(ms) << kTokenBitsPerMillisecond;
}

uint64_t TokensOf(int64_t store_revision) {
  return static_cast<uint64_t>(store_revision) * kTokensPerRevision;
}

TxnRequest ChangeRequest(const EtcdLayout& layout, int64_t from, const EpochValue& to) {
  TxnRequest request;
  CompareModRevision(layout.EpochKey(), from, &request);
  // Nested, as all that we write: so it goes through when etcd is full, too.
  AddPut(layout.EpochKey(), EncodeEpochValue(to),
         request.add_success()->mutable_request_txn()->mutable_success());
  request.add_failure()->mutable_request_range()->set_key(layout.EpochKey());
  return request;
}

}  // namespace

uint64_t TokenFloor(const EpochValue& value, int64_t store_revision) {
  return std::max<uint64_t>(value.token_base + TokensOf(store_revision), 1);
}

EpochState EtcdEpoch::state() const {
  absl::MutexLock lock(&mutex_);
  return now_;
}

int64_t EtcdEpoch::first_revision() const {
  absl::MutexLock lock(&mutex_);
  return first_revision_;
}

absl::Status EtcdEpoch::Open(core::Time now) {
  // Another server may begin at the same time: whoever comes second looks again.
  for (bool done = false; !done;) {
    TxnRequest read;
    AddRangeOne(layout_.EpochKey(), &read);
    const absl::StatusOr<TxnResponse> found = client_.ReadNow(std::move(read));
    if (!found.ok()) return found.status();
    EpochState from{.store_revision = found->header().revision()};
    if (const KeyValue* const key = KeyAt(*found, 0)) {
      const absl::StatusOr<EpochState> noted = NoteKey(*found, key);
      if (!noted.ok()) return absl::FailedPreconditionError(noted.status().message());
      from = *noted;
    }
    EpochValue to = from.value;
    const uint64_t revisions = TokensOf(from.store_revision);
    to.token_base = std::max(to.token_base, TokensBy(now) - std::min(TokensBy(now), revisions));
    const absl::StatusOr<bool> changed = ChangeNow(from, to);
    if (!changed.ok()) return changed.status();
    done = *changed;
  }
  absl::MutexLock lock(&mutex_);
  first_revision_ = now_.revision;
  return absl::OkStatus();
}

absl::Status EtcdEpoch::NoteRevision(int64_t asked_at, const etcdserverpb::ResponseHeader& header) {
  absl::MutexLock lock(&mutex_);
  if (header.revision() < asked_at) {
    return absl::DataLossError(absl::StrCat("etcd has gone back from revision ", asked_at, " to ",
                                            header.revision(),
                                            ": it was restored, or another one is in its place"));
  }
  now_.store_revision = std::max(now_.store_revision, header.revision());
  return absl::OkStatus();
}

// The key is never removed, and every change of it is one write more.
std::string_view EtcdEpoch::WhyLost(const EpochState& seen, int64_t asked_at) const {
  if (now_.revision == 0) return {};
  if (seen.made != now_.made) return "it was removed and made anew";
  const bool is_newer = seen.revision > now_.revision;
  if (seen.revision < asked_at || (is_newer && seen.writes <= now_.writes)) {
    return "etcd has gone back: it was restored, or another one is in its place";
  }
  if (is_newer && seen.value.lost_before != now_.value.lost_before) {
    return "another server has found that etcd has lost records";
  }
  return {};
}

absl::StatusOr<EpochState> EtcdEpoch::NoteKey(const TxnResponse& response, const KeyValue* key,
                                              int64_t asked_at) {
  const std::optional<EpochValue> value =
      key == nullptr ? std::nullopt : DecodeEpochValue(key->value());
  if (!value) {
    return absl::DataLossError(absl::StrCat(
        layout_.EpochKey(),
        " in etcd is not what this version of the service has written: something else uses the "
        "prefix, or has removed it"));
  }
  const EpochState seen{.revision = key->mod_revision(),
                        .made = key->create_revision(),
                        .writes = key->version(),
                        .value = *value,
                        .store_revision = response.header().revision()};
  absl::MutexLock lock(&mutex_);
  if (const std::string_view why = WhyLost(seen, asked_at); !why.empty()) {
    return absl::DataLossError(absl::StrCat(layout_.EpochKey(), ": ", std::string(why)));
  }
  const int64_t newest = std::max(now_.store_revision, seen.store_revision);
  if (seen.revision > now_.revision) now_ = seen;
  now_.store_revision = newest;
  return seen;
}

// --- Changing ------------------------------------------------------------------------------------

void EtcdEpoch::Change(const EpochState& from, const EpochValue& to,
                       absl::AnyInvocable<void(absl::Status status, bool ours) &&> done) {
  client_.Write(
      ChangeRequest(layout_, from.revision, to),
      [this, from, to, done = std::move(done)](absl::StatusOr<TxnResponse> response) mutable {
        if (!response.ok()) return std::move(done)(response.status(), false);
        const int64_t revision = response->header().revision();
        KeyValue changed;
        changed.set_mod_revision(revision);
        changed.set_create_revision(from.revision == 0 ? revision : from.made);
        changed.set_version(from.writes + 1);
        changed.set_value(EncodeEpochValue(to));
        const bool ours = response->succeeded();
        const absl::Status noted =
            NoteKey(*response, ours ? &changed : KeyAt(*response, 0)).status();
        std::move(done)(noted, ours);
      });
}

void EtcdEpoch::MarkLoss(core::Time now, Settled done) {
  TxnRequest read;
  AddRangeOne(layout_.EpochKey(), &read);
  client_.Read(std::move(read), [this, now, done = std::move(done)](
                                    absl::StatusOr<TxnResponse> response) mutable {
    if (!response.ok()) return std::move(done)(response.status());
    // What is known here is of the store that is lost: only what is there now counts.
    const KeyValue* const key = KeyAt(*response, 0);
    const std::optional<EpochValue> there =
        key == nullptr ? EpochValue{} : DecodeEpochValue(key->value());
    if (!there) return std::move(done)(absl::DataLossError("the epoch is not ours"));
    const EpochState known = state();
    EpochValue value = *there;
    if (there->lost_before <= known.value.lost_before) {
      value.lost_before = now;
      value.loss_open = true;
    }
    const uint64_t floor = TokenFloor(known.value, known.store_revision);
    const uint64_t of_revisions = TokensOf(response->header().revision());
    value.token_base = std::max(value.token_base, floor - std::min(floor, of_revisions));
    if (value == *there) return std::move(done)(absl::OkStatus());
    client_.Write(ChangeRequest(layout_, key == nullptr ? 0 : key->mod_revision(), value),
                  [this, now, done = std::move(done)](absl::StatusOr<TxnResponse> changed) mutable {
                    if (!changed.ok() || changed->succeeded()) {
                      return std::move(done)(changed.status());
                    }
                    // Another was first, and may know of lower tokens.
                    MarkLoss(now, std::move(done));
                  });
  });
}

absl::StatusOr<bool> EtcdEpoch::ChangeNow(const EpochState& from, const EpochValue& to) {
  absl::Notification answered;
  absl::StatusOr<bool> result;
  Change(from, to, [&](const absl::Status& status, bool ours) {
    if (status.ok()) {
      result = ours;
    } else {
      result = status;
    }
    answered.Notify();
  });
  answered.WaitForNotification();
  return result;
}

// --- Fencing -------------------------------------------------------------------------------------

void EtcdEpoch::NoteUnknown() {
  absl::MutexLock lock(&mutex_);
  ++unknowns_;
}

void EtcdEpoch::Settle(Settled settled) {
  bool begin = false;
  {
    absl::MutexLock lock(&mutex_);
    if (fenced_ != unknowns_) {
      waiting_.push_back(std::move(settled));
      begin = !std::exchange(fencing_, true);
      if (!begin) return;
    }
  }
  if (begin) return RunFence();
  std::move(settled)(absl::OkStatus());
}

// Where somebody else has changed the epoch since we last heard of it, none of our writes can
// compare with it: they are fenced off as well.
void EtcdEpoch::RunFence() {
  uint64_t unknowns = 0;
  EpochState from;
  {
    absl::MutexLock lock(&mutex_);
    unknowns = unknowns_;
    from = now_;
  }
  Change(from, from.value, [this, unknowns](const absl::Status& status, bool /*ours*/) {
    EndFence(unknowns, status);
  });
}

void EtcdEpoch::EndFence(uint64_t unknowns, const absl::Status& status) {
  std::vector<Settled> waiting;
  bool again = false;
  {
    absl::MutexLock lock(&mutex_);
    if (status.ok()) fenced_ = unknowns;
    // One that became unknown meanwhile may have been sent in the new epoch.
    again = status.ok() && fenced_ != unknowns_;
    if (!again) {
      fencing_ = false;
      waiting = std::exchange(waiting_, {});
    }
  }
  if (again) return RunFence();
  for (Settled& settled : waiting) std::move(settled)(status);
}

}  // namespace idempotency::keystore
