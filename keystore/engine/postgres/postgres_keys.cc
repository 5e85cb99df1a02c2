#include "keystore/engine/postgres/postgres_keys.h"

#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "keystore/engine/needed_keys.h"
#include "keystore/engine/postgres/postgres_schema.h"

namespace idempotency::keystore {
namespace {

// Two that make the table at once meet in the catalogue.
constexpr int kMakeTries = 10;

constexpr char kRead[] = "SELECT id FROM idempotency_response_keys ORDER BY id";
constexpr char kMake[] = R"(
CREATE TABLE IF NOT EXISTS idempotency_response_keys (id text PRIMARY KEY))";
constexpr char kRemember[] = R"(
INSERT INTO idempotency_response_keys (id) VALUES ($1::text) ON CONFLICT (id) DO NOTHING)";

constexpr std::string_view kUndefinedTable = "42P01";

// Nothing: there is no table.
absl::StatusOr<std::optional<std::vector<std::string>>> ReadNeeded(PgConnection& connection) {
  const PgReply reply = connection.Execute(kRead);
  if (!reply.ok() && reply.failure->sqlstate == kUndefinedTable) {
    return std::optional<std::vector<std::string>>();
  }
  if (!reply.ok()) return ToStatus(*reply.failure, "cannot read which keys the database needs");
  std::vector<std::string> ids;
  for (size_t i = 0; i < reply.result.rows(); ++i) ids.emplace_back(reply.result.Bytes(i, 0));
  return std::optional(ids);
}

absl::Status Make(PgConnection& connection) {
  absl::Status last;
  for (int i = 0; i < kMakeTries && connection.alive(); ++i) {
    const PgReply made = connection.Execute(kMake);
    if (made.ok()) return absl::OkStatus();
    last = ToStatus(*made.failure, "cannot make the table idempotency_response_keys");
    if (absl::IsFailedPrecondition(last) && !ReadNeeded(connection).ok()) return last;
  }
  return last;
}

}  // namespace

absl::Status CheckResponseKeys(PgConnection& connection, const KeyRing& keys,
                               const std::vector<std::string>& lost) {
  const auto needed = ReadNeeded(connection);
  if (!needed.ok()) return needed.status();
  const auto missing =
      CheckNeededKeys("the database", needed->value_or(std::vector<std::string>()), keys, lost);
  if (!missing.ok()) return missing.status();
  if (!missing->has_value()) return absl::OkStatus();
  if (!needed->has_value()) {
    if (absl::Status made = Make(connection); !made.ok()) return made;
  }
  const PgReply kept = connection.Execute(kRemember, PgParams().Bytes(**missing));
  if (!kept.ok()) return ToStatus(*kept.failure, "cannot note which keys the database needs");
  if (kept.warning.empty()) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("nobody knows whether the keys that are needed are durable: ", kept.warning));
}

}  // namespace idempotency::keystore
