// A small ext4 file system of its own, in an image file: to be filled, shut down or pulled away
// under a server. Needs root and loop devices.
//
// Thread safety: none.
#ifndef IDEMPOTENCY_TESTS_PROOF_CRASH_LOOP_VOLUME_H_
#define IDEMPOTENCY_TESTS_PROOF_CRASH_LOOP_VOLUME_H_

#include <cstdint>
#include <string>

#include "tests/support/temp_directory.h"

namespace idempotency::proof {

class LoopVolume {
 public:
  // `bytes` are taken only where something is written.
  explicit LoopVolume(uint64_t bytes);
  // Unmounts it.
  ~LoopVolume();
  LoopVolume(const LoopVolume&) = delete;
  LoopVolume& operator=(const LoopVolume&) = delete;

  // "" once it is there and mounted; else why this machine cannot do it.
  std::string Make();
  bool Mount();
  bool Unmount();
  // As a power cut: nothing is written any more, not even what the journal holds.
  bool ShutDown() const;

  const std::string& path() const { return mount_point_; }
  std::string file(const std::string& name) const { return mount_point_ + "/" + name; }
  uint64_t FreeBytes() const;
  // A file of so many bytes that takes them all; false where there is no room.
  bool Fill(const std::string& name, uint64_t bytes) const;
  // Takes every last block.
  void FillUp(const std::string& name) const;

 private:
  const TempDirectory directory_;
  const uint64_t bytes_;
  const std::string image_;
  const std::string mount_point_;
  bool mounted_ = false;
};

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_CRASH_LOOP_VOLUME_H_
