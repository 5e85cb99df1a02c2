#include "keystore/engine/epoch_files.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "keystore/core/limits.h"
#include "keystore/engine/checked_text.h"
#include "keystore/engine/durable_file.h"

namespace idempotency::keystore {
namespace {

// More than any state needs; what is longer is not one.
constexpr size_t kMaxFileBytes = 256;

constexpr std::string_view kHead = "idempotency epoch 1\nepoch ";
constexpr std::string_view kMiddle = "\ntoken_ceiling ";

}  // namespace

std::string EncodeEpoch(const Epoch& epoch) {
  std::string text = absl::StrCat(std::string(kHead), epoch.epoch, std::string(kMiddle),
                                  epoch.token_ceiling, "\n");
  AppendCrcLine(text);
  return text;
}

std::optional<Epoch> DecodeEpoch(std::string_view bytes) {
  Epoch epoch;
  std::string_view rest = bytes;
  if (!TakeText(kHead, rest) || !TakeNumber(epoch.epoch, rest)) return std::nullopt;
  if (!TakeText(kMiddle, rest) || !TakeNumber(epoch.token_ceiling, rest)) return std::nullopt;
  if (epoch.token_ceiling == 0 || epoch.token_ceiling > core::kMaxFencingToken + 1) {
    return std::nullopt;
  }
  // The checksum, the ends of lines, and one spelling for every number.
  if (EncodeEpoch(epoch) != bytes) return std::nullopt;
  return epoch;
}

bool EpochFiles::Exist() const {
  return std::any_of(paths_.begin(), paths_.end(), [](const std::string& path) {
    std::error_code error;
    return std::filesystem::exists(path, error);
  });
}

absl::StatusOr<std::optional<EpochFiles::Loaded>> EpochFiles::Load() const {
  std::optional<Epoch> newest;
  size_t present = 0;
  size_t intact = 0;
  for (const std::string& path : paths_) {
    const absl::StatusOr<std::optional<std::string>> bytes = ReadSmallFile(path, kMaxFileBytes);
    if (!bytes.ok()) return bytes.status();
    if (!bytes->has_value()) continue;
    ++present;
    const std::optional<Epoch> epoch = DecodeEpoch(**bytes);
    if (!epoch.has_value()) continue;
    ++intact;
    if (!newest.has_value() || epoch->epoch > newest->epoch ||
        (epoch->epoch == newest->epoch && epoch->token_ceiling > newest->token_ceiling)) {
      newest = epoch;
    }
  }
  if (present == 0) return std::optional<Loaded>();
  if (!newest.has_value()) {
    return absl::DataLossError(
        absl::StrCat("no intact epoch file is left (", paths_[0], ", ", paths_[1],
                     "): fencing tokens could repeat; restore one of them from a backup"));
  }
  return std::optional<Loaded>({.epoch = *newest, .repair = intact < paths_.size()});
}

absl::Status EpochFiles::Store(const Epoch& epoch) const {
  const std::string bytes = EncodeEpoch(epoch);
  for (const std::string& path : paths_) {
    if (absl::Status status = WriteFileDurably(path, bytes); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace idempotency::keystore
