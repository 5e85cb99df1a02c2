#include "keystore/lister.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "keystore/core/limits.h"
#include "keystore/core/transition.h"
#include "keystore/handshake.h"

namespace idempotency::keystore {
namespace {

// The most that one operation takes in a list, all its texts at their limits, and what it
// takes without them.
constexpr size_t kMaxListedBytes = 4 * 1024;
constexpr size_t kListedFieldsBytes = 256;
// A page that finds little is cut here, so that no call runs for long.
constexpr size_t kMaxVisited = 20'000;
constexpr size_t kMaxScans = 20;
constexpr size_t kScanEntries = 1000;

size_t ListedBytes(const core::Key& key, const core::RecordPtr& record) {
  size_t bytes = kListedFieldsBytes + key.name_space.size() + key.scope.size() + key.key.size();
  if (record == nullptr) return bytes;
  const core::Owner& owner = record->owner;
  bytes += owner.worker.size() + owner.operation_ref.size() + owner.traceparent.size();
  bytes += record->provider_request_id.size() + record->fingerprint.algorithm.size();
  for (const auto& [name, value] : record->labels) bytes += name.size() + value.size() + 8;
  return bytes;
}

// Names the filter inside a page token; not a secret, only a guard against mistakes.
std::string FilterTag(const ListFilter& filter) {
  std::string text = absl::StrCat(
      filter.scan.name_space.size(), ":", filter.scan.name_space,
      filter.scan.scope.has_value() ? "s" : "a", filter.scan.scope.value_or("").size(), ":",
      filter.scan.scope.value_or(""), filter.scan.key_prefix.size(), ":", filter.scan.key_prefix,
      filter.operation_ref.size(), ":", filter.operation_ref, filter.min_age.count());
  for (const core::State state : filter.states)
    absl::StrAppend(&text, ",", static_cast<int>(state));
  // FNV-1a: short, and the same in every process.
  uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return absl::StrCat(absl::Hex(hash, absl::kZeroPad16));
}

// page token := base64url(tag rest)      tag: 16 hexadecimal digits; rest: where to go on
std::string MakeToken(const std::string& tag, std::string_view rest) {
  return absl::WebSafeBase64Escape(absl::StrCat(tag, std::string(rest)));
}

absl::Status BadToken() {
  return absl::InvalidArgumentError("it is not one that a list with this filter returned");
}

absl::StatusOr<std::string> RestOfToken(const std::string& tag, const std::string& token) {
  std::string text;
  if (token.empty()) return text;
  if (!absl::WebSafeBase64Unescape(token, &text) || text.substr(0, tag.size()) != tag ||
      text.size() == tag.size()) {
    return BadToken();
  }
  return text.substr(tag.size());
}

class Lister : public std::enable_shared_from_this<Lister> {
 public:
  Lister(Engine* engine, const core::Now& now, ListFilter filter, size_t page_size, ListDone done)
      : engine_(engine),
        now_(now),
        filter_(std::move(filter)),
        page_size_(std::clamp<size_t>(page_size, 1, core::kMaxPageSize)),
        done_(std::move(done)) {}
  virtual ~Lister() = default;

  void Run() {
    for (;;) {
      handshake_.Reset();
      auto self = shared_from_this();
      engine_->Scan(filter_.scan, NextLimit(), resume_, [self](absl::StatusOr<ScanResult> result) {
        self->result_ = std::move(result);
        if (self->handshake_.Arrive() && self->Continue()) self->Run();
      });
      if (!handshake_.Arrive() || !Continue()) return;
    }
  }

 protected:
  virtual size_t NextLimit() const = 0;
  virtual void Take(ScanEntry entry) = 0;
  // Whether the page is made before everything has been seen.
  virtual bool PageIsFull() const = 0;
  virtual ListPage MakePage(bool seen_all) = 0;

  // The entry as listed, or no record and false where the filter leaves it out.
  bool Matches(core::Stored stored, core::RecordPtr* listed) const {
    auto* record = std::get_if<core::Record>(&stored);
    if (record == nullptr) return false;
    std::optional<core::Record> observed = core::Observe(std::move(*record), now_);
    if (!observed.has_value() || !MatchesState(observed->state)) return false;
    if (!filter_.operation_ref.empty() && observed->owner.operation_ref != filter_.operation_ref) {
      return false;
    }
    if (core::Add(observed->update_time, filter_.min_age) > now_.earliest &&
        filter_.min_age > core::Duration::zero()) {
      return false;
    }
    *listed = std::make_shared<const core::Record>(*std::move(observed));
    return true;
  }

  Engine* const engine_;
  const core::Now now_;
  const ListFilter filter_;
  const size_t page_size_;
  std::string resume_;
  size_t scans_ = 0;

 private:
  bool MatchesState(core::State state) const {
    if (filter_.states.empty()) return state != core::State::kFreed;
    return std::find(filter_.states.begin(), filter_.states.end(), state) != filter_.states.end();
  }

  // Takes in one scan; true where another is needed.
  bool Continue() {
    if (!result_.ok()) {
      std::move(done_)(result_.status());
      return false;
    }
    ++scans_;
    for (ScanEntry& entry : result_->entries) Take(std::move(entry));
    resume_ = std::move(result_->resume_key);
    if (!resume_.empty() && !PageIsFull()) return true;
    std::move(done_)(MakePage(resume_.empty()));
    return false;
  }

  ListDone done_;
  Handshake handshake_;
  absl::StatusOr<ScanResult> result_;
};

class ByKey final : public Lister {
 public:
  ByKey(Engine* engine, const core::Now& now, ListFilter filter, size_t page_size, ListDone done,
        std::string tag, std::string resume)
      : Lister(engine, now, std::move(filter), page_size, std::move(done)), tag_(std::move(tag)) {
    resume_ = std::move(resume);
  }

 private:
  // Never more than still fit, so that the page ends where a scan does.
  size_t NextLimit() const override {
    return std::min(page_size_ - page_.entries.size(),
                    (core::kMaxPageBytes - bytes_) / kMaxListedBytes);
  }

  void Take(ScanEntry entry) override {
    ++visited_;
    core::RecordPtr listed;
    const bool unreadable = std::holds_alternative<core::Unreadable>(entry.stored);
    const bool everything = filter_.states.empty() && filter_.operation_ref.empty();
    if (unreadable ? !everything : !Matches(std::move(entry.stored), &listed)) return;
    bytes_ += ListedBytes(entry.key, listed);
    page_.entries.push_back(ListEntry{std::move(entry.key), std::move(listed)});
  }

  bool PageIsFull() const override {
    return NextLimit() == 0 || visited_ >= kMaxVisited || scans_ >= kMaxScans;
  }

  ListPage MakePage(bool seen_all) override {
    if (!seen_all) page_.next_page_token = MakeToken(tag_, resume_);
    return std::move(page_);
  }

  const std::string tag_;
  ListPage page_;
  size_t bytes_ = 0;
  size_t visited_ = 0;
};

// A place in the order by age: when it became unknown, then the key.
using Place = std::pair<core::Time, core::Key>;

// rest := time ":" length(namespace) ":" length(scope) ":" namespace scope key
std::string EncodePlace(const Place& place) {
  const core::Key& key = place.second;
  return absl::StrCat(place.first.time_since_epoch().count(), ":", key.name_space.size(), ":",
                      key.scope.size(), ":", key.name_space, key.scope, key.key);
}

absl::StatusOr<Place> DecodePlace(const std::string& rest) {
  const std::vector<std::string> parts = absl::StrSplit(rest, absl::MaxSplits(':', 3));
  int64_t time = 0;
  size_t name_space = 0;
  size_t scope = 0;
  if (parts.size() != 4 || !absl::SimpleAtoi(parts[0], &time) ||
      !absl::SimpleAtoi(parts[1], &name_space) || !absl::SimpleAtoi(parts[2], &scope) ||
      name_space > parts[3].size() || scope > parts[3].size() - name_space) {
    return BadToken();
  }
  return Place{core::Time(core::Duration(time)),
               core::Key{parts[3].substr(0, name_space), parts[3].substr(name_space, scope),
                         parts[3].substr(name_space + scope)}};
}

class OldestFirst final : public Lister {
 public:
  OldestFirst(Engine* engine, const core::Now& now, ListFilter filter, size_t page_size,
              ListDone done, std::string tag, Place after)
      : Lister(engine, now, std::move(filter), page_size, std::move(done)),
        tag_(std::move(tag)),
        after_(std::move(after)) {}

 private:
  size_t NextLimit() const override { return kScanEntries; }

  void Take(ScanEntry entry) override {
    core::RecordPtr listed;
    if (!Matches(std::move(entry.stored), &listed)) return;
    Place place{listed->unknown->since, std::move(entry.key)};
    if (place <= after_) return;
    oldest_.emplace(std::move(place), std::move(listed));
    if (oldest_.size() <= page_size_) return;
    oldest_.erase(std::prev(oldest_.end()));
    more_ = true;
  }

  bool PageIsFull() const override { return false; }

  ListPage MakePage(bool /*seen_all*/) override {
    ListPage page;
    Place last;
    size_t bytes = 0;
    for (const auto& [place, record] : oldest_) {
      bytes += ListedBytes(place.second, record);
      more_ = more_ || bytes > core::kMaxPageBytes;
      if (bytes > core::kMaxPageBytes) break;
      page.entries.push_back(ListEntry{place.second, record});
      last = place;
    }
    if (more_) page.next_page_token = MakeToken(tag_, EncodePlace(last));
    return page;
  }

  const std::string tag_;
  const Place after_;
  std::map<Place, core::RecordPtr> oldest_;
  bool more_ = false;
};

bool OnlyUnresolved(const ListFilter& filter) {
  return filter.states.size() == 1 && filter.states.front() == core::State::kUnresolved;
}

}  // namespace

void StartList(Engine* engine, const core::Now& now, ListFilter filter, size_t page_size,
               std::string page_token, ListDone done) {
  const std::string tag = FilterTag(filter);
  absl::StatusOr<std::string> rest = RestOfToken(tag, page_token);
  if (!rest.ok()) return std::move(done)(rest.status());
  if (!OnlyUnresolved(filter)) {
    return std::make_shared<ByKey>(engine, now, std::move(filter), page_size, std::move(done), tag,
                                   *std::move(rest))
        ->Run();
  }
  filter.scan.open_only = true;
  absl::StatusOr<Place> after = rest->empty() ? Place{} : DecodePlace(*rest);
  if (!after.ok()) return std::move(done)(after.status());
  std::make_shared<OldestFirst>(engine, now, std::move(filter), page_size, std::move(done), tag,
                                *std::move(after))
      ->Run();
}

}  // namespace idempotency::keystore
