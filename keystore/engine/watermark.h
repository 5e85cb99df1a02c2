// The watermark: what a store must still have when it is opened again. RocksDB opens happily
// after it has lost records that were acknowledged: where the end of its log is cut off or
// zeroed, where its newest log is gone, where its manifest ends early. Whoever opens the store
// compares it with this first (store_check.h).
//
// The file holds two slots of 4 KiB, written in turn and in place, each as text:
//
//   idempotency watermark 1
//   write 17                                     rises with every write; the newest counts
//   epoch 3                                      of the run that wrote it
//   store 2f8b0c4e-...                           RocksDB's identity of the database
//   sequence 123456                              RocksDB's number of the last durable write
//   wal_last 12                                  newest log that holds a durable write; 0: none
//   token 4711                                   no higher fencing token was acknowledged
//   manifest MANIFEST-000012 4096 2313886145     its name, how much of it is synced, its crc32
//   lost_before 0                                when a loss was last accepted, in ms; 0: never
//   crc32 89ea5ad1                               of all that is above
//
// In place, since a full volume has no room for a new file, and since a write that changes no
// name is not kept waiting by the file system's journal. A write that is torn leaves the other
// slot, which is older by one write.
//
// Thread safety: none; one writer.
// Errors: UNAVAILABLE for I/O errors, naming the path.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_WATERMARK_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_WATERMARK_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "keystore/core/time.h"

namespace idempotency::keystore {

// How often it is stored: what is lost behind it is no older.
inline constexpr core::Duration kWatermarkInterval = std::chrono::milliseconds(100);

// A part of RocksDB's manifest that is synced: what is in it must be there again.
struct ManifestMark {
  std::string name;
  uint64_t bytes = 0;
  uint32_t crc = 0;

  friend bool operator==(const ManifestMark&, const ManifestMark&) = default;
};

struct Watermark {
  uint64_t epoch = 0;
  std::string store_id;
  uint64_t sequence = 0;
  uint64_t wal_last = 0;
  uint64_t token = 0;
  ManifestMark manifest;
  core::Time lost_before;

  friend bool operator==(const Watermark&, const Watermark&) = default;
};

// Of one slot, without padding.
std::string EncodeWatermark(uint64_t write, const Watermark& watermark);

struct DecodedWatermark {
  uint64_t write = 0;
  Watermark watermark;
};
// nullopt for anything but exactly what EncodeWatermark makes, padded with zeros.
std::optional<DecodedWatermark> DecodeWatermark(std::string_view slot);

class WatermarkFile {
 public:
  explicit WatermarkFile(std::string path) : path_(std::move(path)) {}
  ~WatermarkFile();
  WatermarkFile(const WatermarkFile&) = delete;
  WatermarkFile& operator=(const WatermarkFile&) = delete;

  const std::string& path() const { return path_; }

  // nullopt where there is no file; DATA_LOSS where neither slot is intact.
  absl::StatusOr<std::optional<Watermark>> Load();

  // Returns once `watermark` is what Load finds after a power cut. Makes the file where it is
  // missing. Call Load first.
  absl::Status Store(const Watermark& watermark);

  // The highest epoch that the file, as it is under its name now, was written by; 0: none is
  // readable.
  uint64_t NewestEpoch() const;

 private:
  absl::Status Create(const Watermark& watermark);
  static std::vector<DecodedWatermark> IntactSlots(std::string_view bytes);

  const std::string path_;
  int fd_ = -1;
  uint64_t last_write_ = 0;
};

// The crc32 of the first `bytes` of a file; `from` is one of its beginning that is known. nullopt
// where the file is shorter or cannot be read.
std::optional<ManifestMark> MarkManifest(const std::string& directory, const std::string& name,
                                         uint64_t bytes, const ManifestMark& from = {});

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_WATERMARK_H_
