#include "keystore/engine/etcd/etcd_engine.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "keystore/codec/key_codec.h"
#include "keystore/core/invariants.h"
#include "keystore/core/limits.h"
#include "keystore/core/loss.h"
#include "keystore/engine/engine_log.h"
#include "keystore/engine/etcd/etcd_check.h"
#include "keystore/engine/etcd/etcd_client.h"
#include "keystore/engine/etcd/etcd_epoch.h"
#include "keystore/engine/etcd/etcd_layout.h"
#include "keystore/engine/etcd/etcd_requests.h"
#include "keystore/engine/etcd/etcd_retired.h"
#include "keystore/engine/etcd/etcd_scan.h"
#include "keystore/engine/etcd/etcd_sweep.h"
#include "keystore/engine/etcd/etcd_worker.h"
#include "keystore/engine/needed_keys.h"
#include "keystore/engine/record_sealer.h"
#include "keystore/engine/scan.h"
#include "keystore/engine/throttle.h"
#include "keystore/engine/transfer/retirement.h"

namespace idempotency::keystore {
namespace {

using etcdserverpb::KeyValue;
using etcdserverpb::TxnRequest;
using etcdserverpb::TxnResponse;

// More keys in a batch bring little, and may be large.
constexpr size_t kMaxBatch = 64;
static_assert(kMaxBatch < kTokensPerRevision, "a batch must not give more tokens than a revision");
// Of --max-txn-ops, what is worth a try.
constexpr size_t kFewestTxnOps = 16;
// Of a request, for what is neither a write nor its values; and of a write, for all but its keys
// and its value. The largest write, an erasure, names its key eight times.
constexpr size_t kRequestRoom = size_t{64} * 1024;
constexpr size_t kWriteRoom = 512;
constexpr size_t kKeysOfWrite = 8;
constexpr size_t kLeastRequestBytes = size_t{256} * 1024;
// Our own changes that the watch tells us of need no hint.
constexpr size_t kRememberedRevisions = 1024;

absl::Status DeadError() {
  return absl::UnavailableError("the store takes no more writes; restart the process");
}

absl::Status CheckOptions(const EngineOptions& options, const EtcdOptions& etcd) {
  if (!options.now) return absl::InvalidArgumentError("the engine needs a clock (now)");
  if (!options.response_keys.empty() && !options.random_bytes) {
    return absl::InvalidArgumentError("the engine needs randomness (random_bytes) to seal with");
  }
  if (etcd.prefix.empty()) {
    return absl::InvalidArgumentError("the prefix of keys in etcd is empty; name one");
  }
  if (etcd.max_request_bytes < kLeastRequestBytes) {
    return absl::InvalidArgumentError(absl::StrCat("etcd must take requests of at least ",
                                                   kLeastRequestBytes, " bytes, not ",
                                                   etcd.max_request_bytes));
  }
  return absl::OkStatus();
}

absl::Status RetiredError() {
  return absl::UnavailableError("the store is retired, and takes no more writes");
}

// What a caller of the key store is told: anything that went wrong with etcd is UNAVAILABLE.
absl::Status Unavailable(const absl::Status& status) {
  return absl::UnavailableError(std::string(status.message()));
}

}  // namespace

class EtcdEngine::Impl {
 public:
  Impl(EngineOptions options, EtcdOptions etcd, std::unique_ptr<EtcdClient> client,
       std::shared_ptr<const RecordSealer> sealer)
      : options_(std::move(options)),
        etcd_(std::move(etcd)),
        layout_(etcd_.prefix),
        sealer_(std::move(sealer)),
        sweep_due_(etcd_.sweep_interval),
        client_(std::move(client)),
        epoch_(client_.get(), &layout_),
        retired_(layout_) {}

  ~Impl() {
    if (scans_ != nullptr) scans_->Stop();
    if (worker_ != nullptr) worker_->Stop();
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(
          +[](int* count) { return *count == 0; }, &calls_));
    }
    // Its own calls, the watch among them, end with it.
    client_.reset();
  }

  absl::Status Begin() {
    if (absl::Status status = FindTxnOps(); !status.ok()) return status;
    if (absl::Status status = epoch_.Open(options_.now().latest); !status.ok()) return status;
    // Also before what a loss has left is settled: that would be stored without what is sealed.
    if (absl::Status status = CheckKeys(); !status.ok()) return status;
    batch_ = std::min({kMaxBatch, txn_ops_ - kNestedOps, (txn_ops_ - 1) / 2});
    if (epoch_.state().value.loss_open) {
      if (absl::Status status = SettleLoss(); !status.ok()) return status;
    }
    LookAround();
    worker_ = std::make_unique<EtcdWorker>([this] { OnSecond(); });
    scans_ = std::make_unique<EtcdWorker>([] {});
    return absl::OkStatus();
  }

  // --- Reading ---------------------------------------------------------------------------------

  struct ReadJob {
    std::vector<std::string> stored_keys;
    ReadResult result;
    size_t bytes = 0;
    ReadDone done;
  };
  using ReadJobPtr = std::shared_ptr<ReadJob>;

  void Read(const std::vector<core::Key>& keys, ReadDone done) {
    Enter();
    auto job = std::make_shared<ReadJob>();
    job->stored_keys.resize(keys.size());
    std::transform(keys.begin(), keys.end(), job->stored_keys.begin(), &EncodeKey);
    job->result.entries.reserve(keys.size());
    job->done = std::move(done);
    if (!usable_) return EndRead(job, DeadError());
    if (const absl::Status refusal = TakeRefusal(); !refusal.ok()) return EndRead(job, refusal);
    epoch_.Settle([this, job](const absl::Status& status) {
      if (status.ok()) return ReadMore(job);
      EndRead(job, FailedCall(status));
    });
  }

  void ReadMore(const ReadJobPtr& job) {
    const size_t begin = job->result.entries.size();
    const size_t end = std::min(job->stored_keys.size(), begin + batch_);
    TxnRequest request;
    AddRangeOne(layout_.EpochKey(), &request);
    for (size_t i = begin; i < end; ++i) {
      AddRangeOne(layout_.RecordKey(Family::kOpen, job->stored_keys[i]), &request);
      AddRangeOne(layout_.RecordKey(Family::kFinished, job->stored_keys[i]), &request);
    }
    const EpochState asked_in = epoch_.state();
    client_->Read(std::move(request), [this, job, asked_in,
                                       end](const absl::StatusOr<TxnResponse>& response) {
      if (!response.ok()) return EndRead(job, FailedCall(response.status()));
      if (absl::Status status = TakeRead(*response, asked_in, end, job.get()); !status.ok()) {
        return EndRead(job, FailedCall(status));
      }
      if (job->bytes >= core::kMaxReadBytes) PutOff(job.get());
      if (job->result.entries.size() < job->stored_keys.size()) return ReadMore(job);
      EndRead(job, absl::OkStatus());
    });
  }

  // The epoch is in the first place of the answer.
  absl::StatusOr<EpochState> TakeEpoch(const TxnResponse& response, const EpochState& asked_in) {
    absl::Status status = epoch_.NoteRevision(asked_in.store_revision, response.header());
    if (!status.ok()) return status;
    return epoch_.NoteKey(response, KeyAt(response, 0), asked_in.revision);
  }

  absl::Status TakeRead(const TxnResponse& response, const EpochState& asked_in, size_t end,
                        ReadJob* job) {
    const absl::StatusOr<EpochState> epoch = TakeEpoch(response, asked_in);
    if (!epoch.ok()) return epoch.status();
    job->result.token_floor =
        std::max(job->result.token_floor, TokenFloor(epoch->value, epoch->store_revision));
    const Version absent = VersionOfAbsence(epoch->revision, epoch_.first_revision());
    for (int place = 1; job->result.entries.size() < end; place += 2) {
      const std::string_view stored_key = job->stored_keys[job->result.entries.size()];
      const KeyValue* const open = KeyAt(response, place);
      const KeyValue* const finished = KeyAt(response, place + 1);
      for (const KeyValue* const found : {open, finished}) {
        if (found != nullptr) job->bytes += found->value().size();
      }
      job->result.entries.push_back(EntryOf(stored_key, open, finished, absent));
    }
    return absl::OkStatus();
  }

  ReadEntry EntryOf(std::string_view stored_key, const KeyValue* open, const KeyValue* finished,
                    Version absent) const {
    if (open == nullptr && finished == nullptr) return ReadEntry{.version = absent};
    const bool newest_is_open =
        finished == nullptr || (open != nullptr && open->mod_revision() > finished->mod_revision());
    const Family family = newest_is_open ? Family::kOpen : Family::kFinished;
    const KeyValue& newest = newest_is_open ? *open : *finished;
    ReadEntry entry{.version = VersionOfRecord(family, newest.mod_revision())};
    if (open != nullptr && finished != nullptr) {
      entry.stored = core::Unreadable{};  // somebody else has put one of them there
    } else {
      entry.stored = DecodeStored(*sealer_, stored_key, newest.value());
    }
    return entry;
  }

  static void PutOff(ReadJob* job) {
    job->result.entries.resize(job->stored_keys.size(), ReadEntry{.put_off = true});
  }

  void EndRead(const ReadJobPtr& job, const absl::Status& status) {
    if (status.ok()) {
      std::move(job->done)(std::move(job->result));
    } else {
      std::move(job->done)(Unavailable(status));
    }
    Leave();
  }

  // --- Writing ---------------------------------------------------------------------------------

  // Writes of a commit that go in one request.
  struct Group {
    TxnRequest request;
    std::vector<size_t> places;  // in the commit
  };

  struct CommitJob {
    std::vector<WriteOutcome> outcomes;
    std::vector<Group> groups;
    // Of those that are to be stored without their body: the place, and whose they are.
    std::vector<std::pair<size_t, std::string>> omitted;
    std::atomic<size_t> left{0};
    CommitDone done;
  };
  using CommitJobPtr = std::shared_ptr<CommitJob>;

  void Commit(const std::vector<GuardedWrite>& writes, CommitDone done) {
    Enter();
    auto job = std::make_shared<CommitJob>();
    job->outcomes.resize(writes.size(), WriteOutcome::kUnknown);
    job->done = std::move(done);
    if (!usable_ || !KeepsRules(writes)) return EndCommit(job);
    const RetiredState retired = retired_.state();
    if (retired.retired && !WritesMarksAlone(writes)) return RefuseRetired(job);
    const EpochState epoch = epoch_.state();
    if (RaisesTokens(writes, epoch, job)) return;
    MakeGroups(writes, epoch, retired, job.get());
    if (job->groups.empty()) return EndCommit(job);
    job->left = job->groups.size();
    // Whoever ends last lets go of it: the count is ours until then.
    const size_t groups = job->groups.size();
    for (size_t i = 0; i < groups; ++i) {
      client_->Write(std::move(job->groups[i].request),
                     [this, job, i, asked_at = epoch.store_revision](
                         const absl::StatusOr<TxnResponse>& response) {
                       TakeCommit(response, asked_at, job->groups[i].places, job.get());
                       if (--job->left == 0) EndCommit(job);
                     });
    }
  }

  void RefuseRetired(const CommitJobPtr& job) {
    std::fill(job->outcomes.begin(), job->outcomes.end(), WriteOutcome::kLostRace);
    NoteRefusal(RetiredError());
    EndCommit(job);
  }

  bool KeepsRules(const std::vector<GuardedWrite>& writes) {
    for (const GuardedWrite& write : writes) {
      if (write.record == nullptr) continue;
      const std::string_view broken = core::BrokenRule(*write.record);
      if (broken.empty()) continue;
      Die(absl::StrCat("a record breaks a rule and is not written: ", std::string(broken)));
      return false;
    }
    return true;
  }

  // A token that the next floor would not be above, which only a store of other origin has: the
  // base is raised first, and the batch has to be stepped again.
  bool RaisesTokens(const std::vector<GuardedWrite>& writes, const EpochState& epoch,
                    const CommitJobPtr& job) {
    uint64_t newest = 0;
    for (const GuardedWrite& write : writes) {
      if (write.record != nullptr) newest = std::max(newest, write.record->token);
    }
    if (newest < TokenFloor(epoch.value, epoch.store_revision + 1)) return false;
    EpochValue to = epoch.value;
    const uint64_t of_revisions = TokenFloor({}, epoch.store_revision);
    to.token_base = newest + 1 - std::min(newest + 1, of_revisions);
    epoch_.Change(epoch, to, [this, job](const absl::Status& status, bool /*ours*/) {
      std::fill(job->outcomes.begin(), job->outcomes.end(), WriteOutcome::kLostRace);
      if (!status.ok()) NoteRefusal(FailedCall(status));
      EndCommit(job);
    });
    return true;
  }

  void MakeGroups(const std::vector<GuardedWrite>& writes, const EpochState& epoch,
                  const RetiredState& retired, CommitJob* job) {
    size_t bytes = 0;
    const core::Time now = options_.now().latest;
    for (size_t i = 0; i < writes.size(); ++i) {
      const VersionParts expected = PartsOf(writes[i].expected);
      if (expected.kind == VersionParts::Kind::kAbsent && !IsCurrent(expected, epoch)) {
        job->outcomes[i] = WriteOutcome::kLostRace;
        continue;
      }
      const std::string stored_key = EncodeKey(writes[i].key);
      EtcdWrite write{.stored_key = stored_key, .expected = expected, .due = now};
      if (const core::RecordPtr& record = writes[i].record) {
        write.family = FamilyOf(record->state);
        write.due = DueTime(*record);
        bool omits = false;
        if (!EncodeInto(stored_key, *record, &write.value, &omits)) continue;  // it is dead
        if (omits) job->omitted.emplace_back(i, writes[i].key.name_space);
      }
      const size_t size = write.value.size() + kWriteRoom +
                          kKeysOfWrite * (etcd_.prefix.size() + stored_key.size());
      if (job->groups.empty() || bytes + size > etcd_.max_request_bytes ||
          job->groups.back().places.size() == batch_) {
        TxnRequest& request = job->groups.emplace_back().request;
        CompareModRevision(layout_.EpochKey(), epoch.revision, &request);
        retired_.Guard(retired, &request);
        bytes = kRequestRoom;
      }
      bytes += size;
      job->groups.back().places.push_back(i);
      AddWrite(layout_, write, epoch.revision, &job->groups.back().request);
    }
    if (!usable_) job->groups.clear();
  }

  // Whether the absence was read in the epoch that the commit compares.
  bool IsCurrent(const VersionParts& absent, const EpochState& epoch) const {
    const int64_t read_in = absent.revision == 0 ? epoch_.first_revision() : absent.revision;
    return read_in == epoch.revision;
  }

  // *omits: it is without its body, which does not fit.
  bool EncodeInto(std::string_view stored_key, const core::Record& record, std::string* value,
                  bool* omits) {
    bool encoded = sealer_->Encode(stored_key, record, value);
    if (encoded && value->size() > max_value_bytes()) {
      core::Record lean = record;
      lean.response = options_.without_body(record.response);
      value->clear();
      *omits = true;
      encoded = sealer_->Encode(stored_key, lean, value);
      const uint64_t omitted = ++bodies_omitted_;
      options_.log(kLogWarning,
                   absl::StrCat("an answer is larger than etcd takes in one request and is stored "
                                "without its body; so far ",
                                omitted,
                                ": lower max_response_bytes or raise etcd's "
                                "--max-request-bytes and --etcd_max_request_kb"));
    }
    if (!encoded) Die("a record could not be sealed");
    return encoded;
  }

  // Of a request, for writes.
  size_t room() const { return etcd_.max_request_bytes - kRequestRoom; }
  size_t max_value_bytes() const { return room() - kRequestRoom; }

  void TakeCommit(const absl::StatusOr<TxnResponse>& response, int64_t asked_at,
                  const std::vector<size_t>& places, CommitJob* job) {
    WriteOutcome all = WriteOutcome::kLostRace;
    if (!response.ok()) {
      if (NothingWasDone(response.status())) {
        NoteRefusal(FailedCall(response.status()));
      } else {
        all = WriteOutcome::kUnknown;
        epoch_.NoteUnknown();
        (void)FailedCall(response.status());
      }
    } else if (absl::Status status = epoch_.NoteRevision(asked_at, response->header());
               !status.ok()) {
      (void)FailedCall(status);
    } else if (response->succeeded()) {
      Remember(response->header().revision());
      for (size_t i = 0; i < places.size(); ++i) {
        job->outcomes[places[i]] = WasWritten(*response, static_cast<int>(i))
                                       ? WriteOutcome::kCommitted
                                       : WriteOutcome::kLostRace;
      }
      return;
    } else {
      retired_.Note(response->header(), KeyAt(*response, 0));
    }
    for (const size_t place : places) job->outcomes[place] = all;
  }

  void EndCommit(const CommitJobPtr& job) {
    for (const auto& [place, name_space] : job->omitted) {
      if (job->outcomes[place] == WriteOutcome::kCommitted) options_.on_body_omitted(name_space);
    }
    std::move(job->done)(std::move(job->outcomes));
    Leave();
  }

  // --- Scanning --------------------------------------------------------------------------------

  void Scan(ScanFilter filter, size_t limit, std::string resume_key, ScanDone done) {
    Enter();
    scans_->Add([this, filter = std::move(filter), limit, resume_key = std::move(resume_key),
                 done = std::move(done)]() mutable {
      std::move(done)(ScanNow(std::move(filter), limit, resume_key));
      Leave();
    });
  }

  absl::StatusOr<ScanResult> ScanNow(ScanFilter filter, size_t limit,
                                     const std::string& resume_key) {
    if (!usable_) return DeadError();
    if (limit == 0) return absl::InvalidArgumentError("a scan needs a limit above zero");
    const absl::StatusOr<ScanRange> range = ScanRange::Make(std::move(filter), resume_key);
    if (!range.ok()) return range.status();
    EtcdScan source(client_.get(), &layout_, sealer_.get(), range->open_only());
    ScanResult page = RunScan(*range, limit, source);
    if (!source.status().ok()) return Unavailable(FailedCall(source.status()));
    return page;
  }

  // --- Watching --------------------------------------------------------------------------------

  void OnForeignChange(std::function<void(const core::Key&)> hint) {
    hint_ = std::move(hint);
    client_->Watch(layout_.FamilyPrefix(Family::kOpen),
                   [this](const etcdserverpb::WatchResponse& response) { Tell(response); });
  }

  void Tell(const etcdserverpb::WatchResponse& response) {
    for (const etcdserverpb::Event& event : response.events()) {
      if (IsOurs(event.kv().mod_revision())) continue;
      const auto key = DecodeKey(layout_.StoredKey(Family::kOpen, event.kv().key()));
      if (key) hint_(*key);
    }
  }

  void Remember(int64_t revision) {
    absl::MutexLock lock(&mutex_);
    ours_.insert(revision);
    if (ours_.size() > kRememberedRevisions) ours_.erase(ours_.begin());
  }

  bool IsOurs(int64_t revision) {
    absl::MutexLock lock(&mutex_);
    return ours_.count(revision) != 0;
  }

  // --- How it stands ---------------------------------------------------------------------------

  void OnSecond() {
    MarkLoss();
    LookAround();
    if (etcd_.sweep_interval > core::Duration::zero() && usable_ && !retired_.state().retired &&
        sweep_due_.Due(options_.now().latest)) {
      (void)Sweep();
    }
  }

  absl::Status Sweep() {
    EtcdSweep sweep(client_.get(), &layout_, &epoch_, &retired_, sealer_.get(),
                    {.may_reclaim = options_.may_reclaim,
                     .interval = etcd_.sweep_interval / 2,
                     .page = batch_});
    const absl::StatusOr<SweepDone> done =
        sweep.Run(options_.now(), [this] { return worker_ != nullptr && worker_->stopping(); });
    if (!done.ok()) return FailedCall(done.status());
    if (done->removed + done->shrunk > 0) {
      options_.log(kLogDebug, absl::StrCat("swept: ", done->removed, " removed, ", done->shrunk,
                                           " shrunk to what is remembered of them"));
    }
    return absl::OkStatus();
  }

  void LookAround() {
    if (!usable_) return;
    LookAtStore();
    LookForRoom();
  }

  // Whether it was lost or retired. Also where nobody asks for anything: by the time that somebody
  // does, others may have written so much that the revision says nothing any more.
  void LookAtStore() {
    TxnRequest read;
    AddRangeOne(layout_.EpochKey(), &read);
    AddRangeOne(retired_.key(), &read);
    const EpochState asked_in = epoch_.state();
    const absl::StatusOr<TxnResponse> response = client_->ReadNow(std::move(read));
    // Where etcd does not answer, whoever asks for something is told.
    if (!response.ok()) return;
    if (const auto epoch = TakeEpoch(*response, asked_in); !epoch.ok()) {
      (void)FailedCall(epoch.status());
      return;
    }
    retired_.Note(response->header(), KeyAt(*response, 1));
  }

  void LookForRoom() {
    const absl::StatusOr<etcdserverpb::StatusResponse> status = client_->StatusNow();
    if (!status.ok()) return;
    bool alarmed = false;
    for (const std::string& error : status->errors()) {
      alarmed |= absl::StrContains(error, "NOSPACE");
      if (absl::StrContains(error, "CORRUPT")) LogOnce(kLogError, "etcd says: " + error);
    }
    const auto used = static_cast<uint64_t>(status->db_size_in_use() > 0 ? status->db_size_in_use()
                                                                         : status->db_size());
    const uint64_t quota = status->db_size_quota() > 0
                               ? static_cast<uint64_t>(status->db_size_quota())
                               : etcd_.quota_bytes;
    used_bytes_ = used;
    const bool full = alarmed || IsNearQuota(used, quota);
    if (full && !full_.exchange(full)) {
      options_.log(kLogError,
                   absl::StrCat("etcd is full (", used, " of ", quota, " bytes",
                                alarmed ? ", and it has raised its alarm" : "",
                                "): new keys are refused; compact it, or raise its quota"));
    }
    full_ = full;
  }

  EngineCheck CheckStore() {
    EtcdCheckFacts facts{.endpoints = etcd_.endpoints,
                         .view = client_->Look(),
                         .tls = !etcd_.ca_file.empty(),
                         .has_certificate = !etcd_.certificate_file.empty(),
                         .quota_bytes = etcd_.quota_bytes,
                         .max_request_bytes = etcd_.max_request_bytes,
                         .clock_skew = etcd_.clock_skew,
                         .txn_ops = txn_ops_,
                         .large_request = client_->WriteNow(IdleRequest(layout_, room())).status()};
    return {.engine = "etcd", .version = VersionsOf(facts.view), .findings = Judge(facts)};
  }

  Traits MakeTraits() const {
    return Traits{.exclusive = false,
                  .max_batch_writes = batch_,
                  .max_value_bytes = max_value_bytes(),
                  .clock_skew = etcd_.clock_skew,
                  .lost_before = epoch_.state().value.lost_before};
  }

  Pressure MakePressure() const {
    return Pressure{.alive = alive_, .full = full_, .retired = retired_.state().retired};
  }
  uint64_t used_bytes() const { return used_bytes_; }
  uint64_t bodies_omitted() const { return bodies_omitted_; }

 private:
  void Enter() {
    absl::MutexLock lock(&mutex_);
    ++calls_;
  }
  void Leave() {
    absl::MutexLock lock(&mutex_);
    --calls_;
  }

  void Die(const std::string& why) {
    usable_ = false;
    if (alive_.exchange(false)) options_.log(kLogError, absl::StrCat("the engine ends: ", why));
  }

  void LoseStore(const std::string& why) {
    if (!usable_.exchange(false)) return;
    {
      absl::MutexLock lock(&mutex_);
      loss_ = why;
    }
    MarkLoss();
  }

  // The process may be gone as soon as the engine is dead: what it has found is noted first, and
  // tried again every second for as long as etcd does not take it.
  void MarkLoss() {
    std::string why;
    {
      absl::MutexLock lock(&mutex_);
      if (loss_.empty() || marking_) return;
      marking_ = true;
      why = loss_;
    }
    Enter();
    epoch_.MarkLoss(options_.now().latest, [this, why](const absl::Status& marked) {
      EndMark(why, marked);
      Leave();
    });
  }

  void EndMark(const std::string& why, const absl::Status& marked) {
    const bool is_final = marked.ok() || absl::IsDataLoss(marked);
    {
      absl::MutexLock lock(&mutex_);
      marking_ = false;
      if (is_final) loss_.clear();
    }
    const std::string line = absl::StrCat(
        why,
        marked.ok() ? "" : ", and that could not be noted in it: ", std::string(marked.message()));
    if (is_final) return Die(line);
    LogOnce(kLogError, line);
  }

  // Whether all keys are here that records may be sealed with, the current one among them from now
  // on.
  absl::Status CheckKeys() {
    const NeededKeyList list{.read = [this] { return ReadNeededKeys(); },
                             .remember = [this](const auto& id) { return RememberKey(id); }};
    return ShareNeededKeys(absl::StrCat("etcd below ", etcd_.prefix), list, sealer_->keys(),
                           options_.lost_response_keys);
  }

  absl::StatusOr<std::vector<std::string>> ReadNeededKeys() {
    TxnRequest read;
    etcdserverpb::RangeRequest* const range = read.add_success()->mutable_request_range();
    range->set_key(layout_.NeededKey({}));
    range->set_range_end(PrefixEnd(layout_.NeededKey({})));
    const absl::StatusOr<TxnResponse> found = client_->ReadNow(std::move(read));
    if (!found.ok()) return found.status();
    std::vector<std::string> needed;
    for (const KeyValue& key : found->responses(0).response_range().kvs()) {
      needed.emplace_back(layout_.KeyIdOf(key.key()));
    }
    return needed;
  }

  absl::Status RememberKey(const std::string& id) {
    TxnRequest remember;
    // Nested, as all that we write: so it goes through when etcd is full, too.
    AddPut(layout_.NeededKey(id), {},
           remember.add_success()->mutable_request_txn()->mutable_success());
    return client_->WriteNow(std::move(remember)).status();
  }

  // What was PENDING before a loss may have gone on since: nobody knows.
  absl::Status SettleLoss() {
    const core::Now now = options_.now();
    std::string from = layout_.FamilyPrefix(Family::kOpen);
    const std::string end = PrefixEnd(from);
    size_t settled = 0;
    for (bool more = true; more;) {
      TxnRequest read;
      etcdserverpb::RangeRequest* const range = read.add_success()->mutable_request_range();
      range->set_key(from);
      range->set_range_end(end);
      range->set_limit(static_cast<int64_t>(batch_));
      const absl::StatusOr<TxnResponse> page = client_->ReadNow(std::move(read));
      if (!page.ok()) return page.status();
      const etcdserverpb::RangeResponse& found = page->responses(0).response_range();
      if (absl::Status status = SettleLossOf(found, now, &settled); !status.ok()) return status;
      more = found.more();
      if (more) from = found.kvs(found.kvs_size() - 1).key() + '\0';
    }
    EpochState state = epoch_.state();
    EpochValue value = state.value;
    value.loss_open = false;
    const absl::StatusOr<bool> changed = epoch_.ChangeNow(state, value);
    if (!changed.ok()) return changed.status();
    if (!*changed) return absl::UnavailableError("another server begins; try again");
    options_.log(kLogWarning,
                 absl::StrCat("etcd was restored, and has lost what was done since; ", settled,
                              " operations that were pending are unresolved now"));
    return absl::OkStatus();
  }

  absl::Status SettleLossOf(const etcdserverpb::RangeResponse& found, const core::Now& now,
                            size_t* settled) {
    const EpochState epoch = epoch_.state();
    TxnRequest commit;
    CompareModRevision(layout_.EpochKey(), epoch.revision, &commit);
    for (const KeyValue& open : found.kvs()) {
      const std::string stored_key(layout_.StoredKey(Family::kOpen, open.key()));
      core::Stored stored = DecodeStored(*sealer_, stored_key, open.value());
      auto* const record = std::get_if<core::Record>(&stored);
      if (record == nullptr || record->state != core::State::kPending) continue;
      const core::Record after = core::AfterLoss(*std::move(record), now);
      EtcdWrite write{
          .stored_key = stored_key,
          .expected = {.kind = VersionParts::Kind::kOpen, .revision = open.mod_revision()},
          .family = FamilyOf(after.state)};
      if (write.family == Family::kFinished) write.due = DueTime(after);
      bool omits = false;
      if (!EncodeInto(stored_key, after, &write.value, &omits)) return DeadError();
      AddWrite(layout_, write, epoch.revision, &commit);
      ++*settled;
    }
    if (commit.success_size() == 0) return absl::OkStatus();
    const absl::StatusOr<TxnResponse> response = client_->WriteNow(std::move(commit));
    if (!response.ok()) return response.status();
    if (!response->succeeded()) return absl::UnavailableError("another server begins; try again");
    return absl::OkStatus();
  }

  // Looks at what went wrong, and gives it back.
  absl::Status FailedCall(const absl::Status& status) {
    if (absl::IsDataLoss(status)) {
      LoseStore(std::string(status.message()));
    } else {
      LogOnce(kLogWarning, std::string(status.message()));
    }
    return status;
  }

  // The same trouble again is not worth a line.
  void LogOnce(int level, const std::string& line) {
    {
      absl::MutexLock lock(&mutex_);
      if (last_line_ == line) return;
      last_line_ = line;
    }
    options_.log(level, line);
  }

  // Whoever asked for what etcd refuses steps it again, and is told by the read before.
  void NoteRefusal(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    refusal_ = status;
  }
  absl::Status TakeRefusal() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(refusal_, absl::OkStatus());
  }

  // How many operations a transaction may have: etcd does not say it, but refuses more.
  absl::Status FindTxnOps() {
    absl::Status status;
    for (txn_ops_ = kUsualTxnOps; txn_ops_ >= kFewestTxnOps; txn_ops_ /= 2) {
      TxnRequest request;
      for (size_t i = 0; i < txn_ops_; ++i) AddRangeOne(layout_.EpochKey(), &request);
      status = client_->ReadNow(std::move(request)).status();
      const bool too_many = absl::IsInvalidArgument(status) &&
                            absl::StrContains(status.message(), "too many operations");
      if (!too_many) return status;
    }
    return absl::FailedPreconditionError(
        absl::StrCat("etcd takes fewer than ", kFewestTxnOps,
                     " operations a transaction; raise its --max-txn-ops"));
  }

  const EngineOptions options_;
  const EtcdOptions etcd_;
  const EtcdLayout layout_;
  const std::shared_ptr<const RecordSealer> sealer_;
  size_t txn_ops_ = 0;  // of Begin, as the next
  size_t batch_ = 0;
  std::function<void(const core::Key&)> hint_;
  std::atomic<bool> usable_{true};
  std::atomic<bool> alive_{true};
  std::atomic<bool> full_{false};
  std::atomic<uint64_t> used_bytes_{0};
  std::atomic<uint64_t> bodies_omitted_{0};
  Throttle sweep_due_;
  std::unique_ptr<EtcdClient> client_;
  EtcdEpoch epoch_;
  EtcdRetired retired_;
  // What comes every second; lists, which may come without a pause.
  std::unique_ptr<EtcdWorker> worker_;
  std::unique_ptr<EtcdWorker> scans_;

  absl::Mutex mutex_;
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string last_line_ ABSL_GUARDED_BY(mutex_);
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
  std::set<int64_t> ours_ ABSL_GUARDED_BY(mutex_);  // the newest revisions that we have made
  // Why the store is lost, until that is noted in it; and whether that is under way.
  std::string loss_ ABSL_GUARDED_BY(mutex_);
  bool marking_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::StatusOr<std::unique_ptr<EtcdEngine>> EtcdEngine::Open(EngineOptions options,
                                                             EtcdOptions etcd) {
  if (absl::Status status = CheckOptions(options, etcd); !status.ok()) return status;
  if (!options.log) options.log = [](int, std::string_view) {};
  if (!options.may_reclaim) options.may_reclaim = [](std::string_view) { return true; };
  if (!options.on_body_omitted) options.on_body_omitted = [](std::string_view) {};
  if (!options.without_body) {
    options.without_body = [](const core::Response&) {
      return core::Response{.bytes = core::Blob(), .body_omitted = true};
    };
  }
  auto sealer = LoadSealer(options);
  if (!sealer.ok()) return sealer.status();
  auto client = EtcdClient::Open(etcd, options.log);
  if (!client.ok()) return client.status();
  auto impl = std::make_unique<Impl>(std::move(options), std::move(etcd), *std::move(client),
                                     *std::move(sealer));
  if (absl::Status status = impl->Begin(); !status.ok()) {
    // What is missing is here, and not there.
    if (absl::IsFailedPrecondition(status)) return status;
    return absl::Status(status.code(),
                        absl::StrCat(std::string(status.message()),
                                     "; check --etcd_endpoints, and that etcd has a leader"));
  }
  return std::unique_ptr<EtcdEngine>(new EtcdEngine(std::move(impl)));
}

EtcdEngine::EtcdEngine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

EtcdEngine::~EtcdEngine() = default;

void EtcdEngine::Read(std::vector<core::Key> keys, ReadDone done) {
  impl_->Read(keys, std::move(done));
}

void EtcdEngine::Commit(std::vector<GuardedWrite> writes, CommitDone done) {
  impl_->Commit(writes, std::move(done));
}

void EtcdEngine::Scan(ScanFilter filter, size_t limit, std::string resume_key, ScanDone done) {
  impl_->Scan(std::move(filter), limit, std::move(resume_key), std::move(done));
}

void EtcdEngine::OnForeignChange(std::function<void(const core::Key&)> hint) {
  impl_->OnForeignChange(std::move(hint));
}

Traits EtcdEngine::traits() const { return impl_->MakeTraits(); }

Pressure EtcdEngine::pressure() const { return impl_->MakePressure(); }

StoreStats EtcdEngine::stats() const { return StoreStats{.table_bytes = impl_->used_bytes()}; }

EngineCheck EtcdEngine::CheckStore() { return impl_->CheckStore(); }

absl::Status EtcdEngine::SweepNow() { return impl_->Sweep(); }

void EtcdEngine::LookNow() { impl_->LookAround(); }

uint64_t EtcdEngine::bodies_omitted() const { return impl_->bodies_omitted(); }

}  // namespace idempotency::keystore
