#include "keystore/engine/wal_reader.h"

#include <rocksdb/write_batch.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "keystore/engine/durable_file.h"

namespace idempotency::keystore {
namespace {

namespace fs = std::filesystem;

// A log is a row of physical records, and a batch begins with its sequence number:
//   crc 4, length 2, type 1 | sequence 8, count 4, ...          numbers: lowest byte first
constexpr size_t kLogHeaderBytes = 7;
constexpr size_t kSequenceBytes = 8;

uint64_t SequenceIn(std::string_view bytes) {
  uint64_t sequence = 0;
  for (size_t i = kSequenceBytes; i > 0; --i) {
    sequence = sequence << 8 | static_cast<unsigned char>(bytes[i - 1]);
  }
  return sequence;
}

std::string LogPath(const std::string& directory, uint64_t number) {
  return absl::StrFormat("%s/%06d.log", directory, number);
}

// What the first record of a log says, wherever replay has begun.
std::optional<uint64_t> FirstSequence(const std::string& path) {
  const auto bytes = ReadSmallFile(path, kLogHeaderBytes + kSequenceBytes);
  if (!bytes.ok() || !bytes->has_value() || (*bytes)->size() < kLogHeaderBytes + kSequenceBytes) {
    return std::nullopt;
  }
  return SequenceIn(std::string_view(**bytes).substr(kLogHeaderBytes));
}

// The number of a log that holds anything; nullopt for any other file.
std::optional<uint64_t> NumberOfLog(const fs::directory_entry& entry) {
  std::error_code error;
  if (entry.path().extension() != ".log" || entry.file_size(error) == 0) return std::nullopt;
  const std::string name = entry.path().stem().string();
  uint64_t number = 0;
  const auto [end, wrong] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (wrong != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return number;
}

}  // namespace

void WalReader::ColumnFamilyLogNumberMap(const std::map<uint32_t, uint64_t>& first_needed,
                                         const std::map<std::string, uint32_t>& /*families*/) {
  const auto lowest =
      std::min_element(first_needed.begin(), first_needed.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  first_needed_ = lowest == first_needed.end() ? 0 : lowest->second;
}

rocksdb::WalFilter::WalProcessingOption WalReader::LogRecordFound(
    unsigned long long log_number, const std::string& /*log_file*/,
    const rocksdb::WriteBatch& batch, rocksdb::WriteBatch* /*new_batch*/, bool* /*batch_changed*/) {
  const uint64_t sequence = SequenceIn(batch.Data());
  if (hole_.empty() && !IsHole(log_number, sequence)) {
    last_sequence_ = sequence + static_cast<uint64_t>(batch.Count()) - 1;
    if (mode_ == Mode::kReplay) return WalProcessingOption::kContinueProcessing;
  }
  logs_.insert(log_number);
  return mode_ == Mode::kReplay ? WalProcessingOption::kStopReplay
                                : WalProcessingOption::kIgnoreCurrentRecord;
}

bool WalReader::IsHole(uint64_t log_number, uint64_t sequence) {
  const bool first_of_log = logs_.insert(log_number).second;
  const std::string path = LogPath(directory_, log_number);
  if (last_sequence_ != 0 && sequence != last_sequence_ + 1) {
    hole_ = absl::StrCat("writes ", last_sequence_ + 1, " to ", sequence - 1,
                         " are missing in front of what is left in ", path);
  } else if (first_of_log && FirstSequence(path) != sequence) {
    hole_ = absl::StrCat("the beginning of ", path, " is missing");
  }
  return !hole_.empty();
}

void WalReader::LookForSilentLogs(uint64_t first_needed) {
  std::vector<uint64_t> numbers;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory_, error)) {
    const std::optional<uint64_t> number = NumberOfLog(entry);
    if (number.has_value() && *number >= first_needed) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  // In the newest one the first write may have been cut off, and was then not acknowledged.
  if (!numbers.empty()) numbers.pop_back();
  for (const uint64_t number : numbers) {
    if (logs_.count(number) != 0) continue;
    const bool any_before = !logs_.empty() && *logs_.begin() < number;
    const bool any_behind = !logs_.empty() && *logs_.rbegin() > number;
    // What was read around it is consecutive, or a hole already: it held no write of its own. A
    // power cut has taken its first one, and another one came while the store was opened again.
    if (any_before && any_behind) continue;
    if (hole_.empty()) hole_ = absl::StrCat("nothing can be read in ", LogPath(directory_, number));
    if (!any_before) last_sequence_ = 0;
    return;
  }
}

}  // namespace idempotency::keystore
