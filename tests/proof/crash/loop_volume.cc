#include "tests/proof/crash/loop_volume.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace idempotency::proof {
namespace {

namespace fs = std::filesystem;

// FS_IOC_SHUTDOWN, and its flag for "not even the journal".
constexpr unsigned long kShutDown = _IOR('X', 125, uint32_t);
constexpr uint32_t kWithoutJournal = 2;

bool Do(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

}  // namespace

LoopVolume::LoopVolume(uint64_t bytes)
    : bytes_(bytes), image_(directory_.file("image")), mount_point_(directory_.file("volume")) {}

LoopVolume::~LoopVolume() { Unmount(); }

std::string LoopVolume::Make() {
  if (geteuid() != 0) return "it takes root to mount a file system";
  // Mounts of our own, that go with this process however it ends.
  if (unshare(CLONE_NEWNS) != 0 || !Do("mount --make-rprivate /")) return "mounts are not allowed";
  std::error_code error;
  if (!fs::exists("/dev/loop-control", error)) return "there are no loop devices";
  fs::create_directory(mount_point_, error);
  std::ofstream(image_).put('\0');
  fs::resize_file(image_, bytes_, error);
  if (!Do("mkfs.ext4 -q -m 0 -F '" + image_ + "'")) return "mkfs.ext4 does not work";
  return Mount() ? "" : "an image cannot be mounted";
}

bool LoopVolume::Mount() {
  mounted_ = Do("mount -o loop '" + image_ + "' '" + mount_point_ + "'");
  return mounted_;
}

bool LoopVolume::Unmount() {
  if (!mounted_) return true;
  mounted_ = !Do("umount '" + mount_point_ + "'");
  // Better gone from view than left behind.
  if (mounted_) mounted_ = !Do("umount -l '" + mount_point_ + "'");
  return !mounted_;
}

bool LoopVolume::ShutDown() const {
  const int fd = open(mount_point_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  const uint32_t how = kWithoutJournal;
  const bool done = ioctl(fd, kShutDown, &how) == 0;
  close(fd);
  return done;
}

uint64_t LoopVolume::FreeBytes() const {
  struct statvfs info = {};
  if (statvfs(mount_point_.c_str(), &info) != 0) return 0;
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

bool LoopVolume::Fill(const std::string& name, uint64_t bytes) const {
  const int fd = open(file(name).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  const bool done = posix_fallocate(fd, 0, static_cast<off_t>(bytes)) == 0;
  close(fd);
  return done;
}

void LoopVolume::FillUp(const std::string& name) const {
  const int fd = open(file(name).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  const std::string block(size_t{1} << 20, 'f');
  for (size_t bytes = block.size(); bytes > 0;) {
    if (write(fd, block.data(), bytes) <= 0) bytes /= 2;
  }
  fsync(fd);
  close(fd);
}

}  // namespace idempotency::proof
