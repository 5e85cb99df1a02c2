#include "keystore/engine/scan.h"

#include <zlib.h>

#include <optional>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "keystore/codec/byte_io.h"
#include "keystore/codec/key_codec.h"
#include "keystore/core/limits.h"

namespace idempotency::keystore {
namespace {

// Right behind `bytes`: nothing lies between.
std::string Successor(std::string_view bytes) {
  std::string next(bytes);
  next.push_back('\0');
  return next;
}

absl::Status CheckFilter(const ScanFilter& filter) {
  if (filter.name_space.empty() && (filter.scope.has_value() || !filter.key_prefix.empty())) {
    return absl::InvalidArgumentError("a scan by scope or key prefix needs a namespace");
  }
  if (filter.name_space.size() > core::kMaxNamespaceBytes) {
    return absl::InvalidArgumentError("the namespace of a scan is longer than any can be");
  }
  if (filter.scope.has_value() && filter.scope->size() > core::kMaxScopeBytes) {
    return absl::InvalidArgumentError("the scope of a scan is longer than any can be");
  }
  return absl::OkStatus();
}

bool IsOpen(const core::Record& record) {
  return record.state == core::State::kPending || record.state == core::State::kUnresolved;
}

// What cannot be read may be anything: it is shown rather than hidden.
bool Shows(const ScanRange& range, const core::Stored& stored) {
  const auto* record = std::get_if<core::Record>(&stored);
  return !range.open_only() || record == nullptr || IsOpen(*record);
}

}  // namespace

absl::StatusOr<ScanRange> ScanRange::Make(ScanFilter filter, std::string_view resume_key) {
  if (absl::Status status = CheckFilter(filter); !status.ok()) return status;
  ScanRange range(std::move(filter));
  if (!resume_key.empty()) {
    if (absl::Status status = range.StartBehind(resume_key); !status.ok()) return status;
  }
  return range;
}

ScanRange::ScanRange(ScanFilter filter) : filter_(std::move(filter)) {
  if (filter_.name_space.empty()) return;
  start_ = filter_.scope.has_value()
               ? ScopePrefix(filter_.name_space, *filter_.scope, filter_.key_prefix)
               : NamespacePrefix(filter_.name_space);
  end_ = PrefixEnd(start_);
}

absl::Status ScanRange::StartBehind(std::string_view resume_key) {
  ByteReader reader(resume_key);
  const uint32_t checksum = reader.Fixed32();
  const std::string_view stored_key = resume_key.substr(resume_key.size() - reader.left());
  const bool inside = stored_key >= start_ && (end_.empty() || stored_key < end_);
  if (!reader.ok() || !inside || checksum != Checksum(stored_key)) {
    return absl::InvalidArgumentError("the resume key does not belong to this filter");
  }
  start_ = Successor(stored_key);
  return absl::OkStatus();
}

uint32_t ScanRange::Checksum(std::string_view stored_key) const {
  std::string bytes;
  ByteWriter writer(&bytes);
  writer.Bytes(filter_.name_space);
  writer.Byte(filter_.scope.has_value() ? 1 : 0);
  writer.Bytes(filter_.scope.value_or(std::string()));
  writer.Bytes(filter_.key_prefix);
  writer.Byte(filter_.open_only ? 1 : 0);
  writer.Bytes(stored_key);
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

std::string ScanRange::ResumeBehind(std::string_view stored_key) const {
  std::string resume_key;
  ByteWriter(&resume_key).Fixed32(Checksum(stored_key));
  resume_key.append(stored_key);
  return resume_key;
}

ScanVerdict ScanRange::Judge(std::string_view stored_key) const {
  using Kind = ScanVerdict::Kind;
  if (!end_.empty() && stored_key >= end_) return {.kind = Kind::kDone};
  std::optional<core::Key> key = DecodeKey(stored_key);
  // Not one of ours: no answer can name it.
  if (!key.has_value()) return {.kind = Kind::kSeek, .seek = Successor(stored_key)};
  const std::string_view prefix = filter_.key_prefix;
  if (std::string_view(key->key).substr(0, prefix.size()) == prefix) {
    return {.kind = Kind::kTake, .key = *std::move(key)};
  }
  // Every scope, and a prefix inside: go to where this scope's keys with it begin, or, behind
  // those, to the next scope.
  if (key->key < prefix) {
    return {.kind = Kind::kSeek, .seek = ScopePrefix(key->name_space, key->scope, prefix)};
  }
  std::string next_scope = PrefixEnd(ScopePrefix(key->name_space, key->scope, {}));
  if (next_scope.empty()) return {.kind = Kind::kDone};
  return {.kind = Kind::kSeek, .seek = std::move(next_scope)};
}

ScanResult RunScan(const ScanRange& range, size_t limit, ScanSource& source) {
  ScanResult page;
  size_t bytes = 0;
  size_t visits = 0;
  std::string last;
  for (source.Seek(range.start()); source.Valid(); ++visits) {
    ScanVerdict verdict = range.Judge(source.key());
    if (verdict.kind == ScanVerdict::Kind::kDone) break;
    if (page.entries.size() == limit || bytes >= kMaxScanBytes ||
        visits / kScanVisitsPerEntry >= limit) {
      page.resume_key = range.ResumeBehind(last);
      break;
    }
    last = source.key();
    if (verdict.kind == ScanVerdict::Kind::kSeek) {
      source.Seek(verdict.seek);
      continue;
    }
    size_t size = 0;
    core::Stored stored = source.Load(&size);
    if (Shows(range, stored)) {
      bytes += size;
      page.entries.push_back({.key = std::move(verdict.key), .stored = std::move(stored)});
    }
    source.Next();
  }
  return page;
}

}  // namespace idempotency::keystore
