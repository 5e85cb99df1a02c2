#include "keystore/engine/watermark.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "keystore/engine/checked_text.h"
#include "keystore/engine/durable_file.h"

namespace idempotency::keystore {
namespace {

constexpr size_t kSlots = 2;
constexpr size_t kSlotBytes = 4096;
constexpr size_t kReadBytes = size_t{64} * 1024;

bool TakeLine(std::string_view name, uint64_t& number, std::string_view& rest) {
  return TakeText(name, rest) && TakeText(" ", rest) && TakeNumber(number, rest) &&
         TakeText("\n", rest);
}

std::string Padded(std::string text) {
  text.resize(kSlotBytes, '\0');
  return text;
}

bool WriteAt(int fd, std::string_view bytes, off_t offset) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
    offset += written;
  }
  return true;
}

// Adds the bytes from `offset` to `end` to the crc32; nullopt where they are not all there.
std::optional<uint32_t> CrcOfFile(int fd, uint64_t offset, uint64_t end, uint32_t crc) {
  std::string buffer(kReadBytes, '\0');
  while (offset < end) {
    const size_t wanted = std::min<uint64_t>(buffer.size(), end - offset);
    const ssize_t got = ::pread(fd, buffer.data(), wanted, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    crc = Crc32(std::string_view(buffer).substr(0, static_cast<size_t>(got)), crc);
    offset += static_cast<uint64_t>(got);
  }
  return crc;
}

}  // namespace

std::string EncodeWatermark(uint64_t write, const Watermark& watermark) {
  const ManifestMark& manifest = watermark.manifest;
  std::string text =
      absl::StrCat("idempotency watermark 1\nwrite ", write, "\nepoch ", watermark.epoch,
                   "\nstore ", watermark.store_id, "\nsequence ", watermark.sequence, "\nwal_last ",
                   watermark.wal_last, "\ntoken ", watermark.token, "\n");
  absl::StrAppendFormat(&text, "manifest %s %d %d\n", manifest.name, manifest.bytes, manifest.crc);
  absl::StrAppend(&text, "lost_before ", watermark.lost_before.time_since_epoch().count(), "\n");
  AppendCrcLine(text);
  return text;
}

std::optional<DecodedWatermark> DecodeWatermark(std::string_view slot) {
  DecodedWatermark decoded;
  Watermark& watermark = decoded.watermark;
  uint64_t crc = 0;
  uint64_t lost_before = 0;
  std::string_view rest = slot;
  const bool read =
      TakeText("idempotency watermark 1\n", rest) && TakeLine("write", decoded.write, rest) &&
      TakeLine("epoch", watermark.epoch, rest) && TakeText("store ", rest) &&
      TakeWord('\n', watermark.store_id, rest) && TakeText("\n", rest) &&
      TakeLine("sequence", watermark.sequence, rest) &&
      TakeLine("wal_last", watermark.wal_last, rest) && TakeLine("token", watermark.token, rest) &&
      TakeText("manifest ", rest) && TakeWord(' ', watermark.manifest.name, rest) &&
      TakeText(" ", rest) && TakeNumber(watermark.manifest.bytes, rest) && TakeText(" ", rest) &&
      TakeNumber(crc, rest) && TakeText("\n", rest) && TakeLine("lost_before", lost_before, rest);
  if (!read || lost_before > static_cast<uint64_t>(core::kMaxTime.time_since_epoch().count())) {
    return std::nullopt;
  }
  watermark.manifest.crc = static_cast<uint32_t>(crc);
  watermark.lost_before = core::Time(core::Duration(lost_before));
  // The checksum, the ends of lines, one spelling for every number, and nothing behind it.
  std::string whole = EncodeWatermark(decoded.write, watermark);
  if (whole.size() > slot.size()) return std::nullopt;
  whole.resize(slot.size(), '\0');
  if (whole != slot) return std::nullopt;
  return decoded;
}

WatermarkFile::~WatermarkFile() {
  if (fd_ >= 0) ::close(fd_);
}

std::vector<DecodedWatermark> WatermarkFile::IntactSlots(std::string_view bytes) {
  std::vector<DecodedWatermark> intact;
  for (size_t slot = 0; slot < kSlots; ++slot) {
    const size_t begin = std::min(slot * kSlotBytes, bytes.size());
    std::optional<DecodedWatermark> decoded = DecodeWatermark(bytes.substr(begin, kSlotBytes));
    if (decoded.has_value()) intact.push_back(*std::move(decoded));
  }
  return intact;
}

absl::StatusOr<std::optional<Watermark>> WatermarkFile::Load() {
  const absl::StatusOr<std::optional<std::string>> bytes =
      ReadSmallFile(path_, kSlots * kSlotBytes);
  if (!bytes.ok()) return bytes.status();
  if (!bytes->has_value()) return std::optional<Watermark>();
  std::vector<DecodedWatermark> intact = IntactSlots(**bytes);
  const auto newest =
      std::max_element(intact.begin(), intact.end(),
                       [](const auto& one, const auto& other) { return one.write < other.write; });
  if (newest == intact.end()) {
    return absl::DataLossError(absl::StrCat(path_,
                                            " is damaged: what must be in the store is "
                                            "not known"));
  }
  last_write_ = newest->write;
  return std::optional<Watermark>(std::move(newest->watermark));
}

uint64_t WatermarkFile::NewestEpoch() const {
  const absl::StatusOr<std::optional<std::string>> bytes =
      ReadSmallFile(path_, kSlots * kSlotBytes);
  if (!bytes.ok() || !bytes->has_value()) return 0;
  uint64_t newest = 0;
  for (const DecodedWatermark& slot : IntactSlots(**bytes)) {
    newest = std::max(newest, slot.watermark.epoch);
  }
  return newest;
}

absl::Status WatermarkFile::Create(const Watermark& watermark) {
  const std::string slot = Padded(EncodeWatermark(last_write_, watermark));
  if (absl::Status status = WriteFileDurably(path_, absl::StrCat(slot, slot)); !status.ok()) {
    return status;
  }
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  return fd_ < 0 ? FileError("cannot open", path_) : absl::OkStatus();
}

absl::Status WatermarkFile::Store(const Watermark& watermark) {
  ++last_write_;
  // The first write of a run also mends what an earlier one has left of the file.
  if (fd_ < 0) return Create(watermark);
  const std::string slot = Padded(EncodeWatermark(last_write_, watermark));
  const off_t offset = static_cast<off_t>(last_write_ % kSlots * kSlotBytes);
  if (!WriteAt(fd_, slot, offset)) return FileError("cannot write", path_);
  if (::fdatasync(fd_) != 0) return FileError("cannot sync", path_);
  return absl::OkStatus();
}

std::optional<ManifestMark> MarkManifest(const std::string& directory, const std::string& name,
                                         uint64_t bytes, const ManifestMark& from) {
  const bool goes_on = from.name == name && from.bytes <= bytes;
  const int fd = ::open(absl::StrCat(directory, "/", name).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  const std::optional<uint32_t> crc =
      CrcOfFile(fd, goes_on ? from.bytes : 0, bytes, goes_on ? from.crc : 0);
  ::close(fd);
  if (!crc.has_value()) return std::nullopt;
  return ManifestMark{.name = name, .bytes = bytes, .crc = *crc};
}

}  // namespace idempotency::keystore
