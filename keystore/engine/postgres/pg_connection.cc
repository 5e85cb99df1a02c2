#include "keystore/engine/postgres/pg_connection.h"

#include <libpq-fe.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace idempotency::keystore {
namespace {

constexpr int kBinary = 1;
// Types as pg_type numbers them; the same in every server that speaks the protocol.
constexpr uint32_t kByteaOid = 17;
constexpr uint32_t kInt8Oid = 20;

void AppendBigEndian(uint64_t value, int bytes, std::string* out) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    out->push_back(static_cast<char>(value >> shift));
  }
}

// array := dimensions(4) has nulls(4) type(4) (length(4) lower bound(4))[dimensions]
//          (element length(4), -1 for null; element)*
std::string ArrayHead(uint32_t type, size_t count) {
  std::string out;
  AppendBigEndian(count == 0 ? 0 : 1, 4, &out);
  AppendBigEndian(1, 4, &out);
  AppendBigEndian(type, 4, &out);
  if (count == 0) return out;
  AppendBigEndian(count, 4, &out);
  AppendBigEndian(1, 4, &out);
  return out;
}

void AppendNull(std::string* out) { AppendBigEndian(std::numeric_limits<uint32_t>::max(), 4, out); }

std::string Trimmed(const char* message) {
  return std::string(absl::StripAsciiWhitespace(message == nullptr ? "" : message));
}

int PollMilliseconds(core::Duration span) {
  return static_cast<int>(std::clamp<int64_t>(span.count(), 0, std::numeric_limits<int>::max()));
}

// False: nothing has happened for so long. Signals are waited through.
bool Poll(pollfd* fds, size_t count, core::Duration span) {
  int ready = 0;
  do {
    ready = ::poll(fds, count, PollMilliseconds(span));
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

}  // namespace

// --- Values --------------------------------------------------------------------------------------

PgParams& PgParams::Int(int64_t value) {
  AppendBigEndian(static_cast<uint64_t>(value), 8, &values_.emplace_back());
  return *this;
}

PgParams& PgParams::Bytes(std::string_view value) {
  values_.emplace_back(value);
  return *this;
}

PgParams& PgParams::Ints(const std::vector<std::optional<int64_t>>& values) {
  std::string& out = values_.emplace_back(ArrayHead(kInt8Oid, values.size()));
  for (const std::optional<int64_t>& value : values) {
    if (!value.has_value()) {
      AppendNull(&out);
      continue;
    }
    AppendBigEndian(8, 4, &out);
    AppendBigEndian(static_cast<uint64_t>(*value), 8, &out);
  }
  return *this;
}

PgParams& PgParams::ByteArrays(const std::vector<std::optional<std::string_view>>& values) {
  std::string& out = values_.emplace_back(ArrayHead(kByteaOid, values.size()));
  for (const std::optional<std::string_view>& value : values) {
    if (!value.has_value()) {
      AppendNull(&out);
      continue;
    }
    AppendBigEndian(value->size(), 4, &out);
    out.append(*value);
  }
  return *this;
}

void PgResult::Clear::operator()(pg_result* result) const { PQclear(result); }

size_t PgResult::rows() const { return static_cast<size_t>(PQntuples(result_.get())); }

bool PgResult::IsNull(size_t row, size_t column) const {
  return PQgetisnull(result_.get(), static_cast<int>(row), static_cast<int>(column)) != 0;
}

int64_t PgResult::Int(size_t row, size_t column) const {
  const std::string_view bytes = Bytes(row, column);
  if (bytes.size() != 8) return 0;
  uint64_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<uint8_t>(byte);
  return static_cast<int64_t>(value);
}

std::string_view PgResult::Bytes(size_t row, size_t column) const {
  const int r = static_cast<int>(row);
  const int c = static_cast<int>(column);
  return {PQgetvalue(result_.get(), r, c), static_cast<size_t>(PQgetlength(result_.get(), r, c))};
}

// --- Waiting -------------------------------------------------------------------------------------

PgWaker::PgWaker() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

PgWaker::~PgWaker() { close(fd_); }

void PgWaker::Wake() { [[maybe_unused]] const int failed = eventfd_write(fd_, 1); }

void PgWaker::Reset() {
  eventfd_t count = 0;
  [[maybe_unused]] const int empty = eventfd_read(fd_, &count);
}

void WaitFor(const PgWaker& waker, core::Duration span) {
  pollfd fd{.fd = waker.fd(), .events = POLLIN, .revents = 0};
  Poll(&fd, 1, span);
}

PgWait PgConnection::Wait(const PgWaker& waker, core::Duration span) {
  pollfd fds[] = {{.fd = PQsocket(connection_.get()), .events = POLLIN, .revents = 0},
                  {.fd = waker.fd(), .events = POLLIN, .revents = 0}};
  if (!alive_) return PgWait::kBroken;
  if (!Poll(fds, 2, span)) return PgWait::kQuiet;
  if (fds[0].revents != 0) alive_ = PQconsumeInput(connection_.get()) == 1;
  return alive_ ? PgWait::kEvent : PgWait::kBroken;
}

namespace {

// Of this machine: a loopback address, or none, as of a Unix socket.
bool IsLocal(const char* address) {
  const std::string_view text = address == nullptr ? "" : address;
  return text.empty() || text == "::1" || text.substr(0, 4) == "127.";
}

// Empty where it is not set. `options` may be null.
std::string_view ValueOf(const PQconninfoOption* options, std::string_view name) {
  for (; options != nullptr && options->keyword != nullptr; ++options) {
    if (options->keyword == name && options->val != nullptr) return options->val;
  }
  return {};
}

}  // namespace

// --- Connecting ----------------------------------------------------------------------------------

void PgConnection::Finish::operator()(pg_conn* connection) const { PQfinish(connection); }

PgConnection::PgConnection(pg_conn* connection, const PgOptions& options, bool attributes_named)
    : connection_(connection), options_(options), attributes_named_(attributes_named) {
  PQsetnonblocking(connection, 1);
  PQsetNoticeReceiver(connection, TakeNotice, this);
}

PgConnection::~PgConnection() = default;

absl::StatusOr<std::unique_ptr<PgConnection>> PgConnection::Connect(const std::string& uri,
                                                                    const PgOptions& options) {
  char* wrong = nullptr;
  PQconninfoOption* const parsed = PQconninfoParse(uri.c_str(), &wrong);
  const bool attributes_named = !ValueOf(parsed, "target_session_attrs").empty();
  PQconninfoFree(parsed);
  if (parsed == nullptr) {
    PQfreemem(wrong);  // it quotes what it was given, which may hold a password
    return absl::InvalidArgumentError(
        "the URI of PostgreSQL cannot be read; write postgresql://USER@HOST:PORT/DATABASE");
  }
  // What stands before the URI can be overridden by it; what stands behind it cannot.
  const char* const names[] = {"connect_timeout",
                               "keepalives_idle",
                               "keepalives_interval",
                               "keepalives_count",
                               "tcp_user_timeout",
                               "fallback_application_name",
                               "dbname",
                               "client_encoding",
                               "target_session_attrs",
                               nullptr};
  const char* const values[] = {"5",         "10",    "5",
                                "3",         "20000", options.application_name.c_str(),
                                uri.c_str(), "UTF8",  options.takes_writes ? "read-write" : "any",
                                nullptr};
  pg_conn* const raw = PQconnectdbParams(names, values, 1);
  if (raw == nullptr) return absl::UnavailableError("no memory for a connection");
  std::unique_ptr<PgConnection> connection(new PgConnection(raw, options, attributes_named));
  if (PQstatus(raw) != CONNECTION_OK) {
    return absl::UnavailableError(
        absl::StrCat("cannot connect to PostgreSQL: ", Trimmed(PQerrorMessage(raw))));
  }
  if (!options.allow_plaintext && PQsslInUse(raw) == 0 && !IsLocal(PQhostaddr(raw))) {
    return absl::FailedPreconditionError(
        "PostgreSQL would be spoken to in the clear; add sslmode=verify-full to its URI, or give "
        "--allow_plaintext where nobody listens");
  }
  return connection;
}

// --- Asking --------------------------------------------------------------------------------------

void PgConnection::TakeNotice(void* self, const pg_result* notice) {
  const char* const severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
  if (severity == nullptr || std::string_view(severity) != "WARNING") return;
  static_cast<PgConnection*>(self)->warning_ = Trimmed(PQresultErrorMessage(notice));
}

namespace {

// Parameters as libpq takes them; points into what it was made of.
struct Pointers {
  explicit Pointers(const PgParams& params) {
    for (const std::string& value : params.values()) {
      values.push_back(value.data());
      lengths.push_back(static_cast<int>(value.size()));
      formats.push_back(kBinary);
    }
  }
  int count() const { return static_cast<int>(values.size()); }

  std::vector<const char*> values;
  std::vector<int> lengths;
  std::vector<int> formats;
};

}  // namespace

PgReply PgConnection::Execute(const std::string& sql, const PgParams& params) {
  const Pointers at(params);
  return Receive(PQsendQueryParams(connection_.get(), sql.c_str(), at.count(), nullptr,
                                   at.values.data(), at.lengths.data(), at.formats.data(),
                                   kBinary) == 1);
}

PgReply PgConnection::Prepare(const std::string& name, const std::string& sql) {
  return Receive(PQsendPrepare(connection_.get(), name.c_str(), sql.c_str(), 0, nullptr) == 1);
}

PgReply PgConnection::ExecutePrepared(const std::string& name, const PgParams& params) {
  const Pointers at(params);
  return Receive(PQsendQueryPrepared(connection_.get(), name.c_str(), at.count(), at.values.data(),
                                     at.lengths.data(), at.formats.data(), kBinary) == 1);
}

PgReply PgConnection::Run(const std::string& sql) {
  return Receive(PQsendQuery(connection_.get(), sql.c_str()) == 1);
}

PgReply PgConnection::Receive(bool sent) {
  warning_.clear();
  PgReply reply;
  if (!alive_ || !sent) return Broken();
  for (;;) {
    if (!AwaitAnswer()) return Broken();
    pg_result* const raw = PQgetResult(connection_.get());
    if (raw == nullptr) break;
    PgResult result(raw);
    const ExecStatusType status = PQresultStatus(raw);
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) {
      reply.result = std::move(result);
    } else if (!reply.failure.has_value()) {
      const char* const sqlstate = PQresultErrorField(raw, PG_DIAG_SQLSTATE);
      if (sqlstate == nullptr) return Broken();  // libpq's own: the server has not answered
      reply.failure =
          PgFailure{.sqlstate = sqlstate, .message = Trimmed(PQresultErrorMessage(raw))};
    }
  }
  // A server that takes its leave says why, and whether it had done what was asked is not certain.
  if (PQstatus(connection_.get()) != CONNECTION_OK) return Broken();
  reply.warning = std::move(warning_);
  return reply;
}

bool PgConnection::AwaitAnswer() {
  for (;;) {
    const int unflushed = PQflush(connection_.get());
    if (unflushed < 0) return false;
    if (unflushed == 0 && PQisBusy(connection_.get()) == 0) return true;
    pollfd fd{.fd = PQsocket(connection_.get()), .events = POLLIN, .revents = 0};
    if (unflushed == 1) fd.events |= POLLOUT;
    if (!Poll(&fd, 1, options_.reply_timeout)) return false;
    const bool readable = (fd.revents & ~POLLOUT) != 0;
    if (readable && PQconsumeInput(connection_.get()) != 1) return false;
  }
}

PgReply PgConnection::Broken() {
  alive_ = false;
  std::string message = Trimmed(PQerrorMessage(connection_.get()));
  if (message.empty()) message = "no answer in time";
  return PgReply{.failure = PgFailure{.message = std::move(message)}};
}

std::vector<PgNotification> PgConnection::TakeNotifications() {
  std::vector<PgNotification> all;
  while (PGnotify* const notify = PQnotifies(connection_.get())) {
    all.push_back({.payload = notify->extra, .sender = notify->be_pid});
    PQfreemem(notify);
  }
  return all;
}

int PgConnection::backend() const { return PQbackendPID(connection_.get()); }

PgPeer PgConnection::Peer() const {
  pg_conn* const raw = connection_.get();
  PQconninfoOption* const used = PQconninfo(raw);
  std::string_view hosts = ValueOf(used, "host");
  if (hosts.empty()) hosts = ValueOf(used, "hostaddr");
  const auto commas = std::count(hosts.begin(), hosts.end(), ',');
  PQconninfoFree(used);
  return {.host = PQhost(raw),
          .tls = PQsslInUse(raw) != 0,
          .local = IsLocal(PQhostaddr(raw)),
          .hosts = static_cast<size_t>(commas) + 1,
          .attributes_named = attributes_named_};
}

}  // namespace idempotency::keystore
