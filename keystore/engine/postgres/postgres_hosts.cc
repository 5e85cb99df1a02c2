#include "keystore/engine/postgres/postgres_hosts.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "keystore/engine/postgres/postgres_schema.h"

namespace idempotency::keystore {
namespace {

struct Seen {
  size_t host = 0;
  PostgresPlace place;
  bool has_tables = false;
};

absl::StatusOr<Seen> LookAt(size_t host, PgConnection& connection) {
  const absl::StatusOr<PostgresPlace> place = ReadPlace(connection);
  if (!place.ok()) return place.status();
  return Seen{.host = host, .place = *place, .has_tables = HasTables(connection)};
}

// In the order of the URI, where nothing else decides. Timelines of different clusters have nothing
// to do with each other.
size_t Newest(const std::vector<Seen>& seen) {
  const auto has_tables = [](const Seen& one) { return one.has_tables; };
  auto ours = std::find_if(seen.begin(), seen.end(), has_tables);
  if (ours == seen.end()) ours = seen.begin();
  const Seen* newest = &*ours;
  for (const Seen& one : seen) {
    if (one.place.cluster != ours->place.cluster) continue;
    if (one.place.timeline > newest->place.timeline) newest = &one;
  }
  return newest->host;
}

}  // namespace

absl::StatusOr<size_t> NewestHost(const std::string& uri, const PgOptions& options,
                                  core::Duration look_timeout) {
  const PgTimer until(look_timeout);
  PgOptions looking = options;
  looking.reply_timeout = std::min(options.reply_timeout, look_timeout);
  std::vector<Seen> seen;
  std::vector<std::string> failures;
  absl::StatusCode code = absl::StatusCode::kUnavailable;
  auto connections = PgConnection::ConnectToEach(uri, looking, until);
  for (size_t i = 0; i < connections.size(); ++i) {
    const absl::StatusOr<Seen> one = connections[i].ok()
                                         ? LookAt(i, **connections[i])
                                         : absl::StatusOr<Seen>(connections[i].status());
    if (one.ok()) {
      seen.push_back(*one);
      continue;
    }
    failures.emplace_back(one.status().message());
    // What waiting does not mend.
    if (!absl::IsUnavailable(one.status())) code = one.status().code();
  }
  if (seen.empty()) return absl::Status(code, absl::StrJoin(failures, "; "));
  return Newest(seen);
}

absl::Status TryHosts(const std::string& uri, const PgOptions& options, KnownHost* known,
                      const std::function<absl::Status(const PgOptions&)>& attempt) {
  const size_t hosts = PgConnection::HostsNamed(uri);
  std::vector<size_t> order(hosts);
  std::iota(order.begin(), order.end(), 0);
  const size_t first = known->load();
  if (first < hosts) {
    const auto place = order.begin() + static_cast<ptrdiff_t>(first);
    std::rotate(order.begin(), place, place + 1);
  }
  // What no other host would change, unless it is the one.
  absl::Status final = absl::OkStatus();
  std::vector<std::string> failures;
  for (const size_t host : order) {
    PgOptions one = options;
    if (hosts > 1) one.only_host = host;
    const absl::Status status = attempt(one);
    if (status.ok()) {
      *known = host;
      return status;
    }
    if (final.ok() && !absl::IsUnavailable(status) && !absl::IsAborted(status)) final = status;
    failures.emplace_back(status.message());
  }
  return final.ok() ? absl::UnavailableError(absl::StrJoin(failures, "; ")) : final;
}

}  // namespace idempotency::keystore
