#include "keystore/engine/rocksdb_check.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "keystore/engine/durable_file.h"

namespace idempotency::keystore {
namespace {

constexpr core::Duration kProbeTime = std::chrono::seconds(1);
constexpr char kProbeName[] = "/CHECK";
// Of one sync: more than that, and every batch of commands waits for it.
constexpr core::Duration kSlowSync = std::chrono::milliseconds(20);

constexpr NamedCheck kAlive("rocksdb.alive",
                            "A store that has failed to write acknowledges nothing any more.");
constexpr NamedCheck kFileSystem(
    "rocksdb.file_system",
    "What is acknowledged has been synced; where the file system does not keep what it syncs, it "
    "is lost with the machine, the container or the mount.");
constexpr NamedCheck kSync("rocksdb.sync",
                           "Nothing is acknowledged before it is synced: where that fails nothing "
                           "is, and every call waits for it.");
constexpr NamedCheck kLogVolume(
    "rocksdb.log_volume",
    "The newest records are in the write-ahead log: on another volume it can be missing alone.");
constexpr NamedCheck kWatermark(
    "rocksdb.watermark",
    "The watermark is what a start knows a loss by: without it, one goes unnoticed.");
constexpr NamedCheck kSpace("rocksdb.space", "On a full disk no operation can be ended.");
constexpr NamedCheck kBallast("rocksdb.ballast",
                              "It is given up on a full disk, so that what has happened can still "
                              "be written down.");
constexpr NamedCheck kBackground(
    "rocksdb.background_errors",
    "Flushes and compactions that fail are the first that is seen of a failing disk.");
constexpr NamedCheck kStall("rocksdb.stall", "While writes are held up new work is refused.");

// What syncing to it means.
enum class Keeps : uint8_t { kYes, kNotKnown, kNo };

struct FileSystem {
  uint64_t magic;
  std::string_view name;
  Keeps keeps;
};

// linux/magic.h has no number for ZFS.
constexpr FileSystem kFileSystems[] = {
    {EXT4_SUPER_MAGIC, "ext4", Keeps::kYes},
    {XFS_SUPER_MAGIC, "xfs", Keeps::kYes},
    {BTRFS_SUPER_MAGIC, "btrfs", Keeps::kYes},
    {F2FS_SUPER_MAGIC, "f2fs", Keeps::kYes},
    {0x2fc12fc1, "zfs", Keeps::kYes},
    {TMPFS_MAGIC, "tmpfs", Keeps::kNo},
    {RAMFS_MAGIC, "ramfs", Keeps::kNo},
    {OVERLAYFS_SUPER_MAGIC, "overlayfs", Keeps::kNotKnown},
    {NFS_SUPER_MAGIC, "NFS", Keeps::kNotKnown},
    {SMB_SUPER_MAGIC, "SMB", Keeps::kNotKnown},
    {SMB2_SUPER_MAGIC, "SMB", Keeps::kNotKnown},
    {CIFS_SUPER_MAGIC, "CIFS", Keeps::kNotKnown},
    {CEPH_SUPER_MAGIC, "CephFS", Keeps::kNotKnown},
    {FUSE_SUPER_MAGIC, "FUSE", Keeps::kNotKnown},
    {V9FS_MAGIC, "9p", Keeps::kNotKnown},
};

bool IsNoSpace(int error) { return error == ENOSPC || error == EDQUOT; }

Finding JudgeFileSystem(const RocksDbCheckFacts& facts) {
  if (!facts.file_system.has_value()) {
    return kFileSystem.NotChecked(absl::StrCat("the file system of ", facts.data_dir, " is hidden"),
                                  "see what is mounted there, and that it is a local disk");
  }
  const auto* const known =
      std::find_if(std::begin(kFileSystems), std::end(kFileSystems),
                   [&](const FileSystem& each) { return each.magic == *facts.file_system; });
  if (known == std::end(kFileSystems)) {
    return kFileSystem.NotChecked(
        absl::StrCat(facts.data_dir, " is on a file system of type 0x",
                     absl::Hex(*facts.file_system), ", which this version does not know"),
        "see to it that it keeps what is synced; ext4 and xfs on a local disk do");
  }
  const std::string seen = absl::StrCat(facts.data_dir, " is on ", std::string(known->name));
  switch (known->keeps) {
    case Keeps::kYes:
      if (facts.store_file_system == facts.file_system) return kFileSystem.Ok(seen);
      return kFileSystem.Fails(
          absl::StrCat(seen, ", and RocksDB's own directory in it on something else"),
          "mount one volume for the whole data directory, and nothing below it");
    case Keeps::kNo:
      return kFileSystem.Fails(absl::StrCat(seen, ", which is memory"),
                               "move the store to a volume on a disk, and name it as --data_dir");
    case Keeps::kNotKnown:
      break;
  }
  return kFileSystem.Warning(
      absl::StrCat(seen, ": whether what is synced survives depends on what is behind it"),
      "use a volume of its own with ext4 or xfs; on a network or stacked file system see to it "
      "that "
      "syncs reach a disk and that only one host mounts it");
}

Finding JudgeSync(const SyncProbe& sync) {
  if (sync.no_space) {
    return kSync.NotChecked("there is no space to write what could be synced",
                            "make room on the volume, and ask again");
  }
  if (!sync.status.ok()) {
    return kSync.Fails(absl::StrCat("a sync has failed: ", std::string(sync.status.message())),
                       "see the kernel's log for errors of the disk; move the store to another");
  }
  const std::string seen = absl::StrCat(sync.syncs, " syncs took ", sync.took.count(), " ms");
  if (sync.syncs == 0) return kSync.NotChecked("nothing was synced", "call again");
  if (sync.syncs >= kProbeSyncs && sync.took <= core::Duration(1)) {
    return kSync.Warning(
        absl::StrCat(seen, ", too little for a disk"),
        "see whether the volume is memory, is mounted without barriers, or has a cache without a "
        "battery that says it has written");
  }
  if (sync.took > kSlowSync * static_cast<int64_t>(sync.syncs)) {
    return kSync.Warning(absl::StrCat(seen, ": it is slow"),
                         "use a faster disk, or one that nothing else uses");
  }
  return kSync.Ok(seen);
}

Finding JudgeLogVolume(const RocksDbCheckFacts& facts) {
  if (!facts.log_beside_data.has_value()) {
    return kLogVolume.NotChecked("the volume of the write-ahead log is hidden",
                                 "see whether anything is mounted below the data directory");
  }
  if (*facts.log_beside_data) return kLogVolume.Ok("it is on the volume of the data directory");
  return kLogVolume.Warning("it is on another volume than the data directory",
                            "mount and move both together, or put it back");
}

Finding JudgeWatermark(const RocksDbCheckFacts& facts) {
  const absl::Status& watermark = facts.watermark;
  if (!facts.alive) {
    return kWatermark.NotChecked("a store that has died stores none", "restart the service");
  }
  if (watermark.ok()) return kWatermark.Ok("it was stored just now");
  return kWatermark.Fails(
      absl::StrCat("it cannot be stored: ", std::string(watermark.message())),
      "make room, or see the kernel's log; restart where another process has the store open");
}

Finding JudgeSpace(const RocksDbCheckFacts& facts) {
  if (!facts.free_bytes.has_value()) {
    return kSpace.NotChecked("the file system does not say how much is free",
                             "watch the volume of the data directory by other means");
  }
  const uint64_t missing = facts.ballast_held ? 0 : facts.ballast_bytes;
  const std::string seen = absl::StrCat(*facts.free_bytes, " bytes are free, and new keys need ",
                                        facts.min_free_bytes + missing);
  if (*facts.free_bytes < facts.min_free_bytes + missing) {
    return kSpace.Warning(absl::StrCat(seen, ": they are refused"), "make room on the volume");
  }
  return kSpace.Ok(seen);
}

Finding JudgeBallast(const RocksDbCheckFacts& facts) {
  if (facts.ballast_bytes == 0) {
    return kBallast.Warning("none is kept", "start with --ballast_mb=64 or more");
  }
  if (facts.ballast_held) return kBallast.Ok(absl::StrCat(facts.ballast_bytes, " bytes are held"));
  return kBallast.Warning("it was given up, or could not be made",
                          "make room on the volume, and restart: it is made again");
}

Finding JudgeBackground(uint64_t errors) {
  if (errors == 0) return kBackground.Ok("none since the store was opened");
  return kBackground.Warning(absl::StrCat(errors, " since the store was opened"),
                             "see the log and the kernel's for errors of the disk");
}

}  // namespace

std::vector<Finding> Judge(const RocksDbCheckFacts& facts) {
  return {facts.alive ? kAlive.Ok("it takes writes")
                      : kAlive.Fails("a write has failed for good",
                                     "restart the service; the log says what has failed"),
          JudgeFileSystem(facts),
          JudgeSync(facts.sync),
          JudgeLogVolume(facts),
          JudgeWatermark(facts),
          JudgeSpace(facts),
          JudgeBallast(facts),
          JudgeBackground(facts.background_errors),
          facts.stalled ? kStall.Warning("writes are held up now",
                                         "see whether the disk keeps up with compactions")
                        : kStall.Ok("writes are not held up")};
}

std::optional<uint64_t> FileSystemOf(const std::string& path) {
  struct statfs info = {};
  if (::statfs(path.c_str(), &info) != 0) return std::nullopt;
  // Its type is wider than the number in it.
  return static_cast<uint64_t>(static_cast<uint32_t>(info.f_type));
}

std::optional<bool> OnOneVolume(const std::string& a, const std::string& b) {
  struct stat of_a = {};
  struct stat of_b = {};
  if (::stat(a.c_str(), &of_a) != 0 || ::stat(b.c_str(), &of_b) != 0) return std::nullopt;
  return of_a.st_dev == of_b.st_dev;
}

SyncProbe ProbeSync(const std::string& directory, const std::function<core::Time()>& now) {
  SyncProbe probe;
  const std::string path = directory + kProbeName;
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) {
    probe.no_space = IsNoSpace(errno);
    probe.status = FileError("cannot create", path);
    return probe;
  }
  const core::Time began = now();
  while (probe.status.ok() && probe.syncs < kProbeSyncs && probe.took < kProbeTime) {
    // Each writes what was not there before, or there would be nothing to sync.
    const char byte = static_cast<char>(probe.syncs);
    if (::write(fd, &byte, 1) != 1) {
      probe.no_space = IsNoSpace(errno);
      probe.status = FileError("cannot write", path);
    }
    if (probe.status.ok() && ::fdatasync(fd) != 0) {
      probe.no_space = IsNoSpace(errno);
      probe.status = FileError("cannot sync", path);
    }
    if (probe.status.ok()) ++probe.syncs;
    probe.took = now() - began;
  }
  ::close(fd);
  ::unlink(path.c_str());
  return probe;
}

}  // namespace idempotency::keystore
