// One connection to a server that speaks PostgreSQL's protocol, by libpq, which nobody else here
// includes. Values go in the binary format both ways: 8-byte integers, bytes, and arrays of these.
//
//   auto connection = PgConnection::Connect(uri, options);
//   PgReply reply = (*connection)->Execute("SELECT $1::int8 + 1", PgParams().Int(41));
//   if (reply.ok()) Use(reply.result.Int(0, 0));
//
// Thread safety: none, but for PgWaker; each connection is used by one thread at a time.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_PG_CONNECTION_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_PG_CONNECTION_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "keystore/core/time.h"

struct pg_conn;
struct pg_result;

namespace idempotency::keystore {

// What a statement is given, in order.
class PgParams {
 public:
  PgParams& Int(int64_t value);
  PgParams& Bytes(std::string_view value);
  PgParams& Ints(const std::vector<std::optional<int64_t>>& values);
  PgParams& ByteArrays(const std::vector<std::optional<std::string_view>>& values);

  const std::vector<std::string>& values() const { return values_; }

 private:
  std::vector<std::string> values_;
};

// Rows of an answer. Whoever asks for a value knows its type.
class PgResult {
 public:
  PgResult() = default;
  explicit PgResult(pg_result* result) : result_(result) {}

  size_t rows() const;
  bool IsNull(size_t row, size_t column) const;
  // Of an 8-byte integer; zero for anything else.
  int64_t Int(size_t row, size_t column) const;
  // As long as this object. Bytes, or the text of a text.
  std::string_view Bytes(size_t row, size_t column) const;

 private:
  struct Clear {
    void operator()(pg_result* result) const;
  };
  std::unique_ptr<pg_result, Clear> result_;
};

struct PgFailure {
  // The server's five letters. Empty: there is no answer, and the connection is of no use any more.
  std::string sqlstate;
  std::string message;
};

struct PgReply {
  PgResult result;
  std::optional<PgFailure> failure;
  // The server has warned, as it does where a commit is not as durable as was asked for.
  std::string warning;

  bool ok() const { return !failure.has_value(); }
};

struct PgNotification {
  std::string payload;
  int sender = 0;  // its backend
};

// When no more is waited for: a span, from its making on, that any number of waits share.
//
// Thread safety: all methods may be called from any thread.
class PgTimer {
 public:
  explicit PgTimer(core::Duration span);
  ~PgTimer();
  PgTimer(const PgTimer&) = delete;
  PgTimer& operator=(const PgTimer&) = delete;

  // Can be read from once the span is over.
  int fd() const { return fd_; }

 private:
  const int fd_;
};

struct PgOptions {
  // As other sessions see it in pg_stat_activity.
  std::string application_name = "idempotencyd";
  // Without a byte from the server for so long, a statement counts as unanswered.
  core::Duration reply_timeout = std::chrono::seconds(30);
  // And so it does when this is over, which must outlive the connection; null: there is none.
  const PgTimer* until = nullptr;
  // Also a server on another machine may be spoken to without TLS.
  bool allow_plaintext = false;
  // Only a server that takes writes will do.
  bool takes_writes = true;
  // Of the hosts that the URI names, this one alone. It has to be one of HostsNamed.
  std::optional<size_t> only_host;
};

// Who is at the other end.
struct PgPeer {
  std::string host;
  bool tls = false;
  // What was asked for: libpq's word, such as "prefer" or "verify-full".
  std::string sslmode;
  // On this machine, as is every other host that the URI names.
  bool local = false;
  // How many hosts the URI names, and whether it says which of them will do.
  size_t hosts = 1;
  bool attributes_named = false;
};

enum class PgWait : uint8_t { kEvent, kQuiet, kBroken };

// Ends a Wait of another thread.
class PgWaker {
 public:
  PgWaker();
  ~PgWaker();
  PgWaker(const PgWaker&) = delete;
  PgWaker& operator=(const PgWaker&) = delete;

  void Wake();
  void Reset();
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// Sleeps without a connection, as PgConnection::Wait does with one.
void WaitFor(const PgWaker& waker, core::Duration span);

class PgConnection {
 public:
  // To one of the servers that the URI names. UNAVAILABLE where there is
  // none, INVALID_ARGUMENT for a URI that is none, FAILED_PRECONDITION where TLS is missing; the
  // message shows no password.
  static absl::StatusOr<std::unique_ptr<PgConnection>> Connect(const std::string& uri,
                                                               const PgOptions& options);
  // How many hosts can be asked for one by one; at least one.
  static size_t HostsNamed(const std::string& uri);
  // One that takes writes; else, whatever `options` say, one that answers. All hosts are asked at
  // once, so that one that is silent keeps nobody from the others, and none beyond `until` (but for
  // the look-up of their names, which libpq does in a call that cannot be left). The URI's
  // connect_timeout means nothing here.
  struct Found {
    absl::Status takes_writes;
    absl::StatusOr<std::unique_ptr<PgConnection>> connection;
  };
  static Found Find(const std::string& uri, const PgOptions& options, const PgTimer& until);
  // To each host that takes writes, in the order of HostsNamed; asked as by Find, but all are
  // waited for.
  static std::vector<absl::StatusOr<std::unique_ptr<PgConnection>>> ConnectToEach(
      const std::string& uri, const PgOptions& options, const PgTimer& until);
  ~PgConnection();
  PgConnection(const PgConnection&) = delete;
  PgConnection& operator=(const PgConnection&) = delete;

  // One statement, and everything it does in a transaction of its own.
  PgReply Execute(const std::string& sql, const PgParams& params = {});
  PgReply Prepare(const std::string& name, const std::string& sql);
  PgReply ExecutePrepared(const std::string& name, const PgParams& params);
  // Several statements in one transaction, without parameters; rows are in the text format.
  PgReply Run(const std::string& sql);

  // False: it has broken, and nothing can be asked any more.
  bool alive() const { return alive_; }

  // Sleeps until the server has told something, somebody wakes it, or the time is over.
  PgWait Wait(const PgWaker& waker, core::Duration span);
  std::vector<PgNotification> TakeNotifications();
  int backend() const;
  PgPeer Peer() const;

 private:
  class Candidate;
  using Candidates = std::vector<std::unique_ptr<Candidate>>;
  struct Finish {
    void operator()(pg_conn* connection) const;
  };
  using RawConnection = std::unique_ptr<pg_conn, Finish>;
  // What a URI says of the servers, read before one is connected to.
  struct Named {
    size_t hosts = 1;
    bool local = false;
    bool attributes = false;
  };

  PgConnection(RawConnection connection, const PgOptions& options, const Named& named);
  static Named NamedBy(const std::string& uri);
  // Whether it is one, and may be used.
  static absl::StatusOr<std::unique_ptr<PgConnection>> Accept(RawConnection connection,
                                                              const PgOptions& options,
                                                              const Named& named);
  static bool AreSettled(const Candidates& candidates);
  // Until it is enough, or too late.
  static void GoOnWith(const Candidates& candidates, const PgTimer& until,
                       bool (*is_enough)(const Candidates&));
  // None of them is waited for any more.
  static Found BestOf(const Candidates& candidates);

  // Flushes what was sent, and takes all of what comes back.
  PgReply Receive(bool sent);
  bool AwaitAnswer();
  PgReply Broken();
  static void TakeNotice(void* self, const pg_result* notice);

  const RawConnection connection_;
  const PgOptions options_;
  const Named named_;
  bool alive_ = true;
  std::string warning_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_POSTGRES_PG_CONNECTION_H_
