// Both families of a store in etcd as one row of stored keys in order, at one revision, so that a
// record that moves between them meanwhile is met once. It asks for a part at a time, and waits.
//
// Thread safety: one caller, not a thread of gRPC's. Everything it is given must outlive it.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_SCAN_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_SCAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "etcdserverpb/rpc.pb.h"
#include "keystore/engine/etcd/etcd_client.h"
#include "keystore/engine/etcd/etcd_layout.h"
#include "keystore/engine/record_sealer.h"
#include "keystore/engine/scan.h"

namespace idempotency::keystore {

// How many keys the next part asks for, where this one asked for `limit` and was so large. Few at
// first, since they may be large, and more where they are not: but of finished records, which have
// answers of any size, never so many that a part of the largest ones would be dangerous.
int64_t NextPart(Family family, int64_t limit, size_t part_bytes);
inline constexpr int64_t kFirstPart = 16;

class EtcdScan final : public ScanSource {
 public:
  // open_only: leaves out the family `finished`.
  EtcdScan(EtcdClient* client, const EtcdLayout* layout, const RecordSealer* sealer,
           bool open_only);

  void Seek(std::string_view target) override;
  void Next() override;
  bool Valid() const override;
  std::string_view key() const override;
  core::Stored Load(size_t* bytes) const override;

  // Why the scan ended before its time.
  const absl::Status& status() const { return status_; }

 private:
  // A family, and the part of it that is here.
  struct Row {
    Family family;
    etcdserverpb::RangeResponse part;
    int at = 0;
    // There is nothing behind the part.
    bool ends = false;
    // How many keys to ask for.
    int64_t limit = 0;
  };

  void SeekRow(Row& row, std::string_view target);
  void NextOf(Row& row);
  void Fetch(Row& row, std::string key);
  void PassTombstones(Row& row);
  bool IsValid(const Row& row) const { return row.at < row.part.kvs_size(); }
  std::string_view KeyOf(const Row& row) const;
  bool IsAt(const Row& row, std::string_view stored_key) const;

  EtcdClient& client_;
  const EtcdLayout& layout_;
  const RecordSealer& sealer_;
  const bool open_only_;
  Row open_{.family = Family::kOpen};
  Row finished_{.family = Family::kFinished};
  int64_t revision_ = 0;  // of the first part
  absl::Status status_;
};

// What is stored under a record key.
core::Stored DecodeStored(const RecordSealer& sealer, std::string_view stored_key,
                          std::string_view value);

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_ETCD_ETCD_SCAN_H_
