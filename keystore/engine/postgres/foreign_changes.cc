#include "keystore/engine/postgres/foreign_changes.h"

#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "keystore/codec/key_codec.h"

namespace idempotency::keystore {
namespace {

constexpr core::Duration kConnectAgain = std::chrono::seconds(1);
// How often it looks where nobody tells, and where they do.
constexpr core::Duration kLookAlone = std::chrono::milliseconds(500);
constexpr core::Duration kLookBehind = std::chrono::seconds(5);
// A look is due after so many wakings, too.
constexpr int kWakingsPerLook = 32;
// PostgreSQL's limit is 8,000.
constexpr size_t kMaxPayload = 7000;

constexpr char kVersions[] = R"(
SELECT q.n, coalesce(r.version, 0) FROM unnest($1::bytea[]) WITH ORDINALITY AS q(key, n)
LEFT JOIN idempotency_records r ON r.key = q.key)";

// payload := base64 of the schema, instance, base64 of each key; a space between two
std::string PayloadHead(const std::string& schema, int64_t instance) {
  return absl::StrCat(absl::WebSafeBase64Escape(schema), " ", instance);
}

}  // namespace

ForeignChanges::ForeignChanges(std::string uri, PgOptions options, SessionShared* sessions)
    : uri_(std::move(uri)), options_(std::move(options)), sessions_(sessions) {}

ForeignChanges::~ForeignChanges() {
  stop_ = true;
  waker_.Wake();
  if (thread_.joinable()) thread_.join();
}

void ForeignChanges::Start(int64_t instance) {
  instance_ = instance;
  thread_ = std::thread([this] { Run(); });
}

void ForeignChanges::SetHint(Hint hint) {
  absl::MutexLock lock(&mutex_);
  hint_ = std::make_shared<const Hint>(std::move(hint));
}

void ForeignChanges::SetOthers(size_t others) {
  if (others_.exchange(others) == 0 && others != 0) waker_.Wake();
}

void ForeignChanges::Tell(std::vector<std::string> keys) {
  {
    absl::MutexLock lock(&mutex_);
    for (std::string& key : keys) {
      watched_.erase(key);
      if (has_others() && to_tell_.size() < kMaxForeignKeys) to_tell_.push_back(std::move(key));
    }
    if (to_tell_.empty()) return;
  }
  waker_.Wake();
}

void ForeignChanges::Watch(std::string_view key, Version version) {
  absl::MutexLock lock(&mutex_);
  if (hint_ == nullptr || !has_others()) return;
  if (watched_.size() >= kMaxForeignKeys) watched_.erase(watched_.begin());
  watched_[std::string(key)] = version;
}

void ForeignChanges::GiveHint(std::string_view key) {
  std::shared_ptr<const Hint> hint;
  {
    absl::MutexLock lock(&mutex_);
    watched_.erase(std::string(key));
    hint = hint_;
  }
  const auto decoded = DecodeKey(key);
  if (hint != nullptr && *hint != nullptr && decoded.has_value()) (*hint)(*decoded);
}

void ForeignChanges::Run() {
  PgWait wait = PgWait::kEvent;
  for (int wakings = 0;; ++wakings) {
    // Before anything is looked at that a waking may be about.
    waker_.Reset();
    if (stop_) return;
    // An old primary that was cut off from its standby tells nothing any more, and does not break.
    if (connection_ != nullptr && sessions_->IsLeftBehind(place_)) connection_ = nullptr;
    if (connection_ == nullptr && !Connect()) {
      WaitFor(waker_, kConnectAgain);
      continue;
    }
    if (wait == PgWait::kQuiet || wakings >= kWakingsPerLook) {
      wakings = 0;
      Look();
    }
    TellAll();
    // Also what came while something else was asked, for which no wait would end.
    TakeTold();
    wait = connection_->Wait(waker_, listens_ ? kLookBehind : kLookAlone);
    if (wait == PgWait::kBroken) connection_ = nullptr;
  }
}

// What was told while there was no connection is looked for at once.
bool ForeignChanges::Connect() {
  if (!has_others()) return false;
  const absl::Status connected =
      TryHosts(uri_, options_, &sessions_->host,
               [this](const PgOptions& options) { return ConnectTo(options); });
  if (!connected.ok()) return false;
  const PgReply schema = connection_->Execute("SELECT current_schema()");
  // It need not be durable, and need not hold others up.
  const PgReply eager = connection_->Execute("SET synchronous_commit = off");
  if (!schema.ok() || schema.result.rows() != 1 || !eager.ok()) {
    connection_ = nullptr;
    return false;
  }
  schema_ = std::string(schema.result.Bytes(0, 0));
  listens_ = connection_->Run("LISTEN idempotency").ok();
  Look();
  return connection_->alive();
}

// As sessions do it, which also look at the tables.
absl::Status ForeignChanges::ConnectTo(const PgOptions& options) {
  auto connection = PgConnection::Connect(uri_, options);
  if (!connection.ok()) return connection.status();
  const absl::StatusOr<PostgresPlace> place = ReadPlace(**connection);
  if (!place.ok()) return place.status();
  if (!sessions_->IsOurs(*place) || sessions_->IsLeftBehind(*place)) {
    return absl::AbortedError("it is an old primary, or another cluster's");
  }
  connection_ = *std::move(connection);
  place_ = *place;
  return absl::OkStatus();
}

void ForeignChanges::TellAll() {
  std::deque<std::string> keys;
  {
    absl::MutexLock lock(&mutex_);
    std::swap(keys, to_tell_);
  }
  while (listens_ && !keys.empty()) {
    std::string payload = PayloadHead(schema_, instance_);
    do {
      absl::StrAppend(&payload, " ", absl::WebSafeBase64Escape(keys.front()));
      keys.pop_front();
    } while (!keys.empty() && payload.size() + 2 * keys.front().size() < kMaxPayload);
    const PgReply told = connection_->Execute("SELECT pg_notify('idempotency', $1::text)",
                                              PgParams().Bytes(payload));
    if (!told.ok()) return;
  }
}

void ForeignChanges::TakeTold() {
  for (const PgNotification& notification : connection_->TakeNotifications()) {
    const std::vector<std::string> words = absl::StrSplit(notification.payload, ' ');
    if (words.size() < 2 || notification.sender == connection_->backend()) continue;
    if (absl::StrCat(words[0], " ", words[1]) == PayloadHead(schema_, instance_)) continue;
    if (words[0] != absl::WebSafeBase64Escape(schema_)) continue;
    for (size_t i = 2; i < words.size(); ++i) {
      std::string key;
      if (absl::WebSafeBase64Unescape(words[i], &key)) GiveHint(key);
    }
  }
}

void ForeignChanges::Look() {
  std::vector<std::pair<std::string, Version>> watched;
  {
    absl::MutexLock lock(&mutex_);
    watched.assign(watched_.begin(), watched_.end());
  }
  if (watched.empty()) return;
  std::vector<std::optional<std::string_view>> keys;
  for (const auto& [key, version] : watched) keys.emplace_back(key);
  const PgReply reply = connection_->Execute(kVersions, PgParams().ByteArrays(keys));
  if (!reply.ok()) return;
  for (size_t i = 0; i < reply.result.rows(); ++i) {
    const auto n = static_cast<size_t>(reply.result.Int(i, 0));
    if (n == 0 || n > watched.size()) continue;
    const auto& [key, version] = watched[n - 1];
    if (static_cast<Version>(reply.result.Int(i, 1)) != version) GiveHint(key);
  }
}

}  // namespace idempotency::keystore
