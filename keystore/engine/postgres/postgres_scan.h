// Stored rows in order, fetched by pages, as a scan walks over them.
//
// Pages are of different moments: a record that changes meanwhile is met at least once, since its
// row keeps its place.
//
// Thread safety: one caller. Session and sealer must outlive it.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_SCAN_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_SCAN_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "keystore/engine/postgres/postgres_session.h"
#include "keystore/engine/record_sealer.h"
#include "keystore/engine/scan.h"

namespace idempotency::keystore {

class PostgresScan final : public ScanSource {
 public:
  // `limit`: how many entries are wanted, to fetch about as many.
  PostgresScan(PostgresSession& session, const RecordSealer& sealer, bool open_only, size_t limit);

  void Seek(std::string_view target) override;
  void Next() override;
  bool Valid() const override { return at_ < page_.rows.size(); }
  std::string_view key() const override { return page_.rows[at_].key; }
  core::Stored Load(size_t* bytes) const override;

  // Why the scan ended before its time.
  const absl::Status& status() const { return status_; }

 private:
  void Fetch(std::string start);

  PostgresSession& session_;
  const RecordSealer& sealer_;
  const bool open_only_;
  const size_t limit_;
  RowsRead page_;
  size_t at_ = 0;
  bool begun_ = false;
  absl::Status status_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_POSTGRES_SCAN_H_
