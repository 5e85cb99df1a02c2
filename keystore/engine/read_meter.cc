#include "keystore/engine/read_meter.h"

#include <utility>

namespace idempotency::keystore {

void ReadMeter::Begin(uint64_t step, std::function<void(uint64_t)> tell) {
  step_ = step;
  told_ = 0;
  bytes_ = 0;
  tell_ = std::move(tell);
}

void ReadMeter::Request(int64_t bytes, rocksdb::Env::IOPriority /*priority*/) {
  bytes_ += static_cast<uint64_t>(bytes);
  if (!tell_ || bytes_ - told_ < step_) return;
  told_ = bytes_;
  tell_(told_);
}

int64_t ReadMeter::GetTotalBytesThrough(rocksdb::Env::IOPriority /*priority*/) const {
  return static_cast<int64_t>(bytes_);
}

}  // namespace idempotency::keystore
