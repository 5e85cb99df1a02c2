#include "keystore/engine/space_watch.h"

#include <sys/statvfs.h>

#include <utility>

#include "absl/strings/str_cat.h"

namespace idempotency::keystore {

std::optional<uint64_t> FreeBytes(const std::string& path) {
  struct statvfs info = {};
  if (::statvfs(path.c_str(), &info) != 0) return std::nullopt;
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

SpaceWatch::SpaceWatch(Ballast* ballast, uint64_t min_free_bytes, FreeBytesFunction free_bytes,
                       LogFunction log)
    : ballast_(*ballast),
      min_free_bytes_(min_free_bytes),
      free_bytes_(std::move(free_bytes)),
      log_(std::move(log)) {}

void SpaceWatch::Check() {
  const std::optional<uint64_t> free = free_bytes_();
  if (!free.has_value()) return;
  if (*free < min_free_bytes_ / 4) ReleaseBallast();
  const uint64_t missing_ballast = ballast_.held() ? 0 : ballast_.bytes();
  const bool full = *free < min_free_bytes_ + missing_ballast;
  if (full_.exchange(full) == full) return;
  log_(full ? kLogError : kLogInfo,
       full ? absl::StrCat("the volume of data_dir has ", *free,
                           " bytes free: new keys are refused until there is more room")
            : absl::StrCat("the volume of data_dir has room again: ", *free, " bytes free"));
}

void SpaceWatch::MakeBallast() {
  const std::optional<uint64_t> free = free_bytes_();
  const bool room = free.has_value() && *free >= min_free_bytes_ + ballast_.bytes();
  if (ballast_.held() || (!room && ballast_.bytes() > 0)) return;
  if (absl::Status status = ballast_.Create(); !status.ok()) {
    log_(kLogWarning, absl::StrCat("no ballast file: ", std::string(status.message())));
  }
}

void SpaceWatch::RanOut() {
  ReleaseBallast();
  full_.store(true);
}

void SpaceWatch::ReleaseBallast() {
  if (!ballast_.Release()) return;
  log_(kLogWarning, absl::StrCat("the ballast file is given up: ", ballast_.bytes(),
                                 " bytes for what must still be written"));
}

}  // namespace idempotency::keystore
