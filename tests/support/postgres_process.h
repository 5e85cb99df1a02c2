// PostgreSQL as a child process, in a directory of its own, on loopback and a Unix socket.
//
//   PostgresServer postgres;
//   ... postgres.Uri("a_schema") ...
//   postgres.Kill();     // kill -9 of all its processes; Start() brings it back on the same files
//
// It runs as the user `postgres` where the test is root, as whom it refuses to run. It ends with
// the test. Thread safety: none, but for the getters.
#ifndef IDEMPOTENCY_TESTS_SUPPORT_POSTGRES_PROCESS_H_
#define IDEMPOTENCY_TESTS_SUPPORT_POSTGRES_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "tests/support/temp_directory.h"

namespace idempotency {

class PostgresServer {
 public:
  // Made and started. `settings`: name=value, besides what every server of ours has.
  explicit PostgresServer(std::vector<std::string> settings = {});
  // A standby of `primary`, which streams from it under this application_name.
  PostgresServer(const PostgresServer& primary, const std::string& application_name);
  ~PostgresServer();
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  // Waits until it accepts connections.
  void Start();
  void Kill();
  // SIGTERM, SIGHUP and the like; to the first process alone.
  void Signal(int number) const;
  // pg_ctl promote, and waits for its end.
  void Promote();

  int port() const { return port_; }
  // By which a test connects; the schema is made if it is not there.
  std::string Uri(const std::string& schema) const;
  // The same, of a schema that somebody else makes.
  std::string UriOf(const std::string& schema) const;
  // The same by TCP, as a URI that may be a flag.
  std::string TcpUri(const std::string& schema) const;
  // Runs SQL as the superuser, by psql; what it printed.
  std::string Sql(const std::string& sql) const;
  std::string Log() const;

 private:
  void MakeDirectory();
  std::vector<std::string> AsItsUser(std::vector<std::string> command) const;

  const std::vector<std::string> settings_;
  const TempDirectory files_;
  int port_ = 0;
  pid_t pid_ = -1;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_TESTS_SUPPORT_POSTGRES_PROCESS_H_
