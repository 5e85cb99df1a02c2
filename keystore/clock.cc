#include "keystore/clock.h"

#include <fcntl.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "keystore/core/limits.h"

namespace idempotency::keystore {
namespace {

core::Duration ReadClock(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return std::chrono::duration_cast<core::Duration>(std::chrono::seconds(now.tv_sec) +
                                                    std::chrono::nanoseconds(now.tv_nsec));
}

}  // namespace

KernelTime ReadKernelTime() {
  return KernelTime{.wall = core::Time(ReadClock(CLOCK_REALTIME)),
                    .boot = ReadClock(CLOCK_BOOTTIME)};
}

std::chrono::nanoseconds ReadElapsed() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

bool KernelSaysSynchronised() {
  timex discipline{};
  const int state = adjtimex(&discipline);
  // Below zero: it may not be asked, as in some containers. That is no yes.
  return state >= 0 && state != TIME_ERROR && (discipline.status & STA_UNSYNC) == 0;
}

ClockGuard::ClockGuard(const KernelTime& first, core::Time high_water)
    : guarded_(core::IsSet(high_water) ? high_water : first.wall),
      wall_(first.wall),
      boot_(first.boot) {}

core::Time ClockGuard::ElapsedTo(const KernelTime& reading) const {
  return guarded_ + std::max(reading.boot - boot_, core::Duration::zero());
}

bool ClockGuard::IsJump(const KernelTime& reading) const {
  return reading.wall > ElapsedTo(reading) + core::kMaxClockJump;
}

core::Now ClockGuard::Advance(const KernelTime& reading) {
  const bool in_doubt = IsJump(reading) && !reading.synchronised;
  guarded_ = ElapsedTo(reading);
  boot_ = std::max(boot_, reading.boot);
  wall_ = reading.wall;
  // A wall clock that was set back does not take guarded time with it; one that is ahead and
  // trusted does.
  if (!in_doubt) guarded_ = std::max(guarded_, reading.wall);
  return core::Now{.earliest = guarded_,
                   .latest = guarded_,
                   .wall = std::max(reading.wall, guarded_),
                   .in_doubt = in_doubt};
}

GuardedClock::GuardedClock(core::Time high_water) : guard_(ReadKernelTime(), high_water) {}

core::Now GuardedClock::Advance() {
  // Read inside the lock: readings must reach the guard in the order in which they were taken.
  KernelTime reading = ReadKernelTime();
  if (guard_.IsJump(reading)) reading.synchronised = KernelSaysSynchronised();
  return guard_.Advance(reading);
}

core::Now GuardedClock::Read() {
  absl::MutexLock lock(&mutex_);
  return Advance();
}

void GuardedClock::Confirm() {
  absl::MutexLock lock(&mutex_);
  // What the wall clock says now is what is confirmed, not what it said a while ago.
  Advance();
  guard_.Confirm();
}

// mark := "IDMPCLK1" time crc32      time: 8 bytes, milliseconds, little endian; crc32: 4 bytes
// little endian, of all before it. Written aside and renamed, so that a crash leaves the old.
namespace {

constexpr std::string_view kMagic = "IDMPCLK1";
constexpr size_t kMarkBytes = 8 + 8 + 4;
using MarkBytes = std::array<unsigned char, kMarkBytes>;

void PutLittleEndian(uint64_t value, size_t count, unsigned char* out) {
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<unsigned char>(value >> (8 * i));
}

uint64_t GetLittleEndian(const unsigned char* in, size_t count) {
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i) value |= uint64_t{in[i]} << (8 * i);
  return value;
}

MarkBytes EncodeMark(core::Time mark) {
  MarkBytes bytes{};
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  PutLittleEndian(static_cast<uint64_t>(mark.time_since_epoch().count()), 8, bytes.data() + 8);
  PutLittleEndian(crc32(0, bytes.data(), 16), 4, bytes.data() + 16);
  return bytes;
}

absl::Status FileError(std::string_view what, const std::string& path) {
  return absl::UnavailableError(std::string(what) + " " + path + ": " + std::strerror(errno));
}

}  // namespace

absl::Status ClockMark::Load(core::Time* mark) const {
  *mark = core::Time{};
  const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno == ENOENT ? absl::OkStatus() : FileError("cannot open", path_);
  MarkBytes bytes{};
  const ssize_t size = read(file, bytes.data(), bytes.size());
  char beyond = 0;
  const bool longer = read(file, &beyond, 1) > 0;
  close(file);
  const core::Time stored{core::Duration(GetLittleEndian(bytes.data() + 8, 8))};
  if (size != static_cast<ssize_t>(kMarkBytes) || longer || bytes != EncodeMark(stored)) {
    return absl::DataLossError(path_ +
                               " is damaged; remove the file to go by the wall clock alone");
  }
  *mark = stored;
  return absl::OkStatus();
}

absl::Status ClockMark::Store(core::Time mark) const {
  const std::string aside = path_ + ".new";
  const int file = open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return FileError("cannot create", aside);
  const MarkBytes bytes = EncodeMark(mark);
  // Synced before it is renamed: some file systems would leave an empty file after a power cut.
  const bool written =
      write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(kMarkBytes) &&
      fdatasync(file) == 0;
  if (close(file) != 0 || !written) return FileError("cannot write", aside);
  if (rename(aside.c_str(), path_.c_str()) != 0) return FileError("cannot replace", path_);
  return absl::OkStatus();
}

}  // namespace idempotency::keystore
