#include "tests/bench/others/postgres_load.h"

#include <libpq-fe.h>
#include <sys/socket.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::bench {
namespace {

constexpr char kTable[] =
    "CREATE TABLE IF NOT EXISTS operation ("
    "  name_space text, scope text, key text, algorithm text, digest bytea, attempt_id text,"
    "  state smallint, token bigint, lease_expire timestamptz, worker text, response bytea,"
    "  PRIMARY KEY (name_space, scope, key))";

// A sequence for the token, and a SELECT for the loser, would cost more: this much is the least
// that a store of one's own does.
constexpr char kInsert[] =
    "INSERT INTO operation (name_space, scope, key, algorithm, digest, attempt_id, state, token,"
    "                       lease_expire, worker)"
    " VALUES ('bench', $1, $2, 'sha256/bytes-1', $3, $4, 1, 1, now() + interval '1 hour',"
    "         'bench-1')"
    " ON CONFLICT DO NOTHING";

constexpr char kStatement[] = "reserve";
constexpr int kParameters = 4;
constexpr int kBinary = 1;

std::string_view KeyOf(const Identity& id) { return {id.key, kKeyBytes}; }

void Execute(PGconn* connection, const char* sql) {
  PGresult* const result = PQexec(connection, sql);
  if (PQresultStatus(result) != PGRES_COMMAND_OK) Die(PQerrorMessage(connection));
  PQclear(result);
}

Answer ToAnswer(const Identity& id, const PGresult* result) {
  Answer answer;
  answer.key = KeyOf(id);
  answer.token = 1;
  answer.is_error = PQresultStatus(result) != PGRES_COMMAND_OK;
  if (answer.is_error) answer.message = PQresultErrorMessage(result);
  const char* const changed = PQcmdTuples(const_cast<PGresult*>(result));
  const bool acquired = std::strcmp(changed, "1") == 0;
  answer.outcome = acquired ? v1::RESERVE_OUTCOME_ACQUIRED : v1::RESERVE_OUTCOME_IN_PROGRESS;
  return answer;
}

}  // namespace

struct PostgresLoad::Connection : Peer {
  ~Connection() override { PQfinish(pg); }

  // Takes what has arrived; true once the answer is complete.
  bool Receive(bool is_pipelined) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // libpq is not to be used by who sends and who receives at a time.
  absl::Mutex mutex;
  PGconn* pg = nullptr;
  size_t answered ABSL_GUARDED_BY(mutex) = 0;
  std::vector<std::pair<uint32_t, PGresult*>> results ABSL_GUARDED_BY(mutex);
};

bool PostgresLoad::Connection::Receive(bool is_pipelined) {
  while (PQisBusy(pg) == 0) {
    PGresult* const result = PQgetResult(pg);
    if (result == nullptr) {
      // Behind each command; without a pipeline it ends the answer.
      if (!is_pipelined) return true;
      continue;
    }
    if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
      PQclear(result);
      return true;
    }
    if (answered < active.size()) {
      // Nothing counts before its transaction has ended.
      results.emplace_back(active[answered++], result);
    } else {
      PQclear(result);
    }
  }
  return false;
}

std::unique_ptr<SocketLoad::Peer> PostgresLoad::NewPeer() {
  const HostAndPort at = SplitTarget(options().target);
  auto connection = std::make_unique<Connection>();
  connection->pg = PQconnectdb(absl::StrCat("host=", at.host, " port=", at.port,
                                            " dbname=postgres user=postgres sslmode=disable")
                                   .c_str());
  if (PQstatus(connection->pg) != CONNECTION_OK) Die(PQerrorMessage(connection->pg));
  if (!std::exchange(has_table_, true)) {
    Execute(connection->pg, "SET client_min_messages = warning");
    Execute(connection->pg, kTable);
  }
  PGresult* const prepared = PQprepare(connection->pg, kStatement, kInsert, kParameters, nullptr);
  if (PQresultStatus(prepared) != PGRES_COMMAND_OK) Die(PQerrorMessage(connection->pg));
  PQclear(prepared);
  PQsetnonblocking(connection->pg, 1);
  if (is_pipelined() && PQenterPipelineMode(connection->pg) != 1) Die("no pipeline mode");
  connection->socket = PQsocket(connection->pg);
  return connection;
}

void PostgresLoad::Send(Slot* slot) {
  auto* const connection = static_cast<Connection*>(slot);
  PGconn* const pg = connection->pg;
  absl::MutexLock lock(&connection->mutex);
  connection->answered = 0;
  const std::vector<uint32_t>& active = connection->active;
  bool sent = true;
  for (const uint32_t index : active) {
    const Identity& id = connection->callers[index].id();
    const char* const values[] = {id.scope, id.key, id.digest, id.attempt};
    const int lengths[] = {kScopeBytes, kKeyBytes, kDigestBytes, kAttemptBytes};
    const int formats[] = {kBinary, kBinary, kBinary, kBinary};
    sent = sent &&
           PQsendQueryPrepared(pg, kStatement, kParameters, values, lengths, formats, kBinary) == 1;
  }
  if (is_pipelined()) sent = sent && PQpipelineSync(pg) == 1;
  // It is far less than a socket's buffer holds. Where it failed, the reading thread finds the
  // connection closed.
  if (!sent || PQflush(pg) != 0) shutdown(connection->socket, SHUT_RDWR);
}

void PostgresLoad::OnReadable(Peer* peer) {
  auto* const connection = static_cast<Connection*>(peer);
  std::string lost;
  std::vector<std::pair<uint32_t, PGresult*>> results;
  {
    absl::MutexLock lock(&connection->mutex);
    if (PQconsumeInput(connection->pg) != 1) {
      lost = absl::StrCat("lost: ", PQerrorMessage(connection->pg));
    } else if (connection->Receive(is_pipelined())) {
      results = std::exchange(connection->results, {});
    }
  }
  if (!lost.empty()) return OnLost(peer, lost);
  const int64_t now = MonotonicNanos();
  for (const auto& [index, result] : results) {
    OnAnswer(peer, index, ToAnswer(connection->callers[index].id(), result), now);
    PQclear(result);
  }
}

}  // namespace idempotency::bench
