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

absl::StatusOr<EpochState> EtcdEpoch::NoteKey(const TxnResponse& response, const KeyValue* key) {
  const std::optional<EpochValue> value =
      key == nullptr ? std::nullopt : DecodeEpochValue(key->value());
  if (!value) {
    return absl::DataLossError(absl::StrCat(
        layout_.EpochKey(),
        " in etcd is not what this version of the service has written: something else uses the "
        "prefix, or has removed it"));
  }
  const EpochState seen{.revision = key->mod_revision(),
                        .value = *value,
                        .store_revision = response.header().revision()};
  absl::MutexLock lock(&mutex_);
  now_.store_revision = std::max(now_.store_revision, seen.store_revision);
  if (seen.revision > now_.revision) {
    now_.revision = seen.revision;
    now_.value = seen.value;
  }
  return seen;
}

// --- Changing ------------------------------------------------------------------------------------

void EtcdEpoch::Change(const EpochState& from, const EpochValue& to,
                       absl::AnyInvocable<void(absl::Status status, bool ours) &&> done) {
  client_.Write(ChangeRequest(layout_, from.revision, to),
                [this, to, done = std::move(done)](absl::StatusOr<TxnResponse> response) mutable {
                  if (!response.ok()) return std::move(done)(response.status(), false);
                  KeyValue changed;
                  changed.set_mod_revision(response->header().revision());
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
    EpochValue value = *there;
    value.lost_before = now;
    value.loss_open = true;
    client_.Write(ChangeRequest(layout_, key == nullptr ? 0 : key->mod_revision(), value),
                  [done = std::move(done)](absl::StatusOr<TxnResponse> changed) mutable {
                    // Whoever was first has noted the same.
                    std::move(done)(changed.status());
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
