#include "keystore/engine/postgres/postgres_keys.h"

#include <optional>
#include <string_view>
#include <utility>

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
constexpr std::string_view kInsufficientPrivilege = "42501";

absl::Status Refused(const PgFailure& failure, const std::string& what) {
  if (failure.sqlstate != kInsufficientPrivilege) return ToStatus(failure, what);
  return absl::FailedPreconditionError(absl::StrCat(
      what, ": ", failure.message,
      "; let the owner of the tables start this once, which makes the table, and grant SELECT, "
      "INSERT on idempotency_response_keys to the role"));
}

// Nothing: there is no table.
absl::StatusOr<std::optional<std::vector<std::string>>> ReadTable(PgConnection& connection) {
  const PgReply reply = connection.Execute(kRead);
  if (!reply.ok() && reply.failure->sqlstate == kUndefinedTable) {
    return std::optional<std::vector<std::string>>();
  }
  if (!reply.ok()) return Refused(*reply.failure, "cannot read which keys the database needs");
  std::vector<std::string> ids;
  for (size_t i = 0; i < reply.result.rows(); ++i) ids.emplace_back(reply.result.Bytes(i, 0));
  return std::optional(ids);
}

absl::StatusOr<std::vector<std::string>> ReadNeeded(PgConnection& connection) {
  auto ids = ReadTable(connection);
  if (!ids.ok()) return ids.status();
  return std::move(*ids).value_or(std::vector<std::string>());
}

absl::Status Make(PgConnection& connection) {
  absl::Status last;
  for (int i = 0; i < kMakeTries && connection.alive(); ++i) {
    const PgReply made = connection.Execute(kMake);
    if (made.ok()) return absl::OkStatus();
    last = Refused(*made.failure, "cannot make the table idempotency_response_keys");
    // Somebody else may have made it: a role that may make none may well use it.
    if (const auto table = ReadTable(connection); table.ok() && table->has_value()) {
      return absl::OkStatus();
    }
    if (made.failure->sqlstate == kInsufficientPrivilege) return last;
  }
  return last;
}

absl::Status Remember(PgConnection& connection, const std::string& id) {
  const auto table = ReadTable(connection);
  if (!table.ok()) return table.status();
  if (!table->has_value()) {
    if (absl::Status made = Make(connection); !made.ok()) return made;
  }
  const PgReply kept = connection.Execute(kRemember, PgParams().Bytes(id));
  if (!kept.ok()) return Refused(*kept.failure, "cannot note which keys the database needs");
  if (kept.warning.empty()) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("nobody knows whether the keys that are needed are durable: ", kept.warning));
}

}  // namespace

absl::Status CheckResponseKeys(PgConnection& connection, const KeyRing& keys,
                               const std::vector<std::string>& lost) {
  const NeededKeyList list{
      .read = [&] { return ReadNeeded(connection); },
      .remember = [&](const std::string& id) { return Remember(connection, id); }};
  return ShareNeededKeys("the database", list, keys, lost);
}

}  // namespace idempotency::keystore
