// Counts what RocksDB reads of a backup. It verifies and restores one without saying how far it is,
// but asks a rate limiter, where it is given one, before each piece that it reads: this one lets
// everything pass at once, and counts. A piece counts as whole, also the last of a file and the end
// behind it: pieces are small beside files, so that this does not matter.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_READ_METER_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_READ_METER_H_

#include <rocksdb/rate_limiter.h>

#include <cstdint>
#include <functional>

namespace idempotency::keystore {

// Thread safety: Begin while nothing is read; the rest from any one thread at a time.
class ReadMeter final : public rocksdb::RateLimiter {
 public:
  ReadMeter() : RateLimiter(Mode::kReadsOnly) {}

  // Counts from zero. `tell` is given what was read so far whenever `step` more bytes were, on the
  // thread that reads.
  void Begin(uint64_t step, std::function<void(uint64_t bytes)> tell);

  using RateLimiter::Request;
  void Request(int64_t bytes, rocksdb::Env::IOPriority priority) override;

  // What RocksDB takes for the size of a piece, and of its buffer.
  int64_t GetSingleBurstBytes() const override { return kPieceBytes; }
  int64_t GetTotalBytesThrough(rocksdb::Env::IOPriority priority) const override;
  // There is no limit, so nothing of it can be set or asked.
  void SetBytesPerSecond(int64_t bytes_per_second) override {}
  int64_t GetBytesPerSecond() const override { return INT64_MAX; }
  int64_t GetTotalRequests(rocksdb::Env::IOPriority priority) const override { return 0; }

 private:
  static constexpr int64_t kPieceBytes = int64_t{128} << 10;

  uint64_t step_ = 0;
  uint64_t told_ = 0;  // of bytes_
  uint64_t bytes_ = 0;
  std::function<void(uint64_t)> tell_;  // empty: nobody asks
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_READ_METER_H_
