#include "keystore/engine/manifest_tail.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "keystore/engine/durable_file.h"

namespace idempotency::keystore {
namespace {

// RocksDB's log format, as of a manifest: blocks of physical records, numbers lowest byte first.
//   crc 4, length 2, type 1, bytes        type: 1 whole, 2 first, 3 middle, 4 last part of an edit
// A record never crosses a block; what is too short for a header at its end is filled up.
constexpr size_t kBlockBytes = 32768;
constexpr size_t kHeaderBytes = 7;
enum : unsigned char { kWhole = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

constexpr size_t kMaxCurrentBytes = 64;

constexpr std::array<uint32_t, 256> kCrc32cTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78 : 0);
    table[i] = crc;
  }
  return table;
}();

// CRC-32C of type and bytes, rotated and shifted as RocksDB stores it.
uint32_t MaskedCrc(std::string_view bytes) {
  uint32_t crc = 0xffffffff;
  for (const char byte : bytes) {
    crc = crc >> 8 ^ kCrc32cTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8;
}

uint32_t Number(std::string_view bytes) {
  uint32_t number = 0;
  for (size_t i = bytes.size(); i > 0; --i) {
    number = number << 8 | static_cast<unsigned char>(bytes[i - 1]);
  }
  return number;
}

struct Part {
  unsigned char type = 0;
  size_t end = 0;
};

// The physical record that begins at `at`; nullopt where it is not whole.
std::optional<Part> PartAt(std::string_view manifest, size_t at) {
  const std::string_view rest = manifest.substr(at, kBlockBytes - at % kBlockBytes);
  if (rest.size() < kHeaderBytes) return std::nullopt;
  const size_t length = Number(rest.substr(4, 2));
  if (rest.size() < kHeaderBytes + length) return std::nullopt;
  const std::string_view checked = rest.substr(kHeaderBytes - 1, length + 1);
  if (Number(rest.substr(0, 4)) != MaskedCrc(checked)) return std::nullopt;
  const auto type = static_cast<unsigned char>(checked.front());
  if (type < kWhole || type > kLast) return std::nullopt;
  return Part{.type = type, .end = at + kHeaderBytes + length};
}

absl::Status Nothing(const std::string& why) { return absl::FailedPreconditionError(why); }

// What CURRENT names, where that is the promised one or newer.
std::optional<std::string> CurrentManifest(const std::string& db_path,
                                           const ManifestMark& promised) {
  const auto bytes = ReadSmallFile(db_path + "/CURRENT", kMaxCurrentBytes);
  if (!bytes.ok() || !bytes->has_value()) return std::nullopt;
  std::string name = **bytes;
  if (!name.empty() && name.back() == '\n') name.pop_back();
  const bool older = name.size() != promised.name.size() ? name.size() < promised.name.size()
                                                         : name < promised.name;
  if (older || name.find('/') != std::string::npos) return std::nullopt;
  return name;
}

}  // namespace

size_t EndOfWholeEdits(std::string_view manifest) {
  size_t end = 0;
  bool inside = false;
  for (size_t at = 0; at < manifest.size();) {
    const size_t left = kBlockBytes - at % kBlockBytes;
    if (left < kHeaderBytes) {
      at += left;
      continue;
    }
    const std::optional<Part> part = PartAt(manifest, at);
    const bool begins = part.has_value() && (part->type == kWhole || part->type == kFirst);
    if (!part.has_value() || begins == inside) break;
    at = part->end;
    inside = part->type == kFirst || part->type == kMiddle;
    if (!inside) end = at;
  }
  return end;
}

absl::Status CutTornManifest(const std::string& db_path, const std::string& keep_in,
                             const ManifestMark& promised, const LogFunction& log) {
  const std::optional<std::string> name = CurrentManifest(db_path, promised);
  if (!name.has_value()) return Nothing("CURRENT does not name the manifest");
  const std::string path = absl::StrCat(db_path, "/", *name);
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return Nothing(absl::StrCat(path, " is not there"));
  const auto read = ReadSmallFile(path, size);
  if (!read.ok()) return read.status();
  if (!read->has_value()) return Nothing(absl::StrCat(path, " is not there"));
  const std::string& manifest = **read;
  const size_t end = EndOfWholeEdits(manifest);
  const bool kept =
      *name != promised.name ||
      (end >= promised.bytes && MarkManifest(db_path, *name, promised.bytes) == promised);
  if (end == 0 || end == manifest.size() || !kept) {
    return Nothing(absl::StrCat(path, " is damaged, and not at its end alone"));
  }
  const std::string copy = absl::StrCat(keep_in, "/", *name, ".torn");
  if (absl::Status status = WriteFileDurably(copy, manifest); !status.ok()) return status;
  if (absl::Status status = WriteFileDurably(path, manifest.substr(0, end)); !status.ok()) {
    return status;
  }
  log(kLogWarning, absl::StrCat("the end of ", path, " cannot be read, as after a power cut: its ",
                                manifest.size() - end,
                                " bytes behind the last whole edit are cut "
                                "off; as it was it is in ",
                                copy));
  return absl::OkStatus();
}

}  // namespace idempotency::keystore
