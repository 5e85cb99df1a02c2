#include "keystore/engine/postgres/pg_connection.h"

#include <libpq-fe.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace idempotency::keystore {
namespace {

constexpr int kBinary = 1;
// Where a list of ports leaves one out.
constexpr char kUsualPort[] = "5432";
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

PgTimer::PgTimer(core::Duration span)
    : fd_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  // Zero would be never.
  const int64_t ms = std::max<int64_t>(span.count(), 1);
  itimerspec at{};
  at.it_value = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1'000'000};
  timerfd_settime(fd_, 0, &at, nullptr);
}

PgTimer::~PgTimer() { close(fd_); }

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

// The same of what a URI says: a socket's directory or name, or a host.
bool IsLocalName(const std::string& name) {
  return IsLocal(name.c_str()) || name[0] == '/' || name[0] == '@' || name == "localhost";
}

// Empty where it is not set. `options` may be null.
std::string_view ValueOf(const PQconninfoOption* options, std::string_view name) {
  for (; options != nullptr && options->keyword != nullptr; ++options) {
    if (options->keyword == name && options->val != nullptr) return options->val;
  }
  return {};
}

// Options as libpq has them; null where it cannot read the URI.
struct FreeOptions {
  void operator()(PQconninfoOption* options) const { PQconninfoFree(options); }
};
using OptionsOfUri = std::unique_ptr<PQconninfoOption, FreeOptions>;

OptionsOfUri Parsed(const std::string& uri) {
  char* wrong = nullptr;
  OptionsOfUri parsed(PQconninfoParse(uri.c_str(), &wrong));
  PQfreemem(wrong);  // it quotes what it was given, which may hold a password
  return parsed;
}

// One of several hosts of a URI; empty: as the URI says.
struct Host {
  std::string name;
  std::string address;
  std::string port;
};

using Words = std::vector<std::string>;

Words ListOf(const OptionsOfUri& parsed, const OptionsOfUri& defaults, std::string_view name) {
  std::string_view value = ValueOf(parsed.get(), name);
  if (value.empty()) value = ValueOf(defaults.get(), name);
  if (value.empty()) return {};
  return absl::StrSplit(std::string(value), ',');
}

bool FitsTo(size_t hosts, const Words& list) {
  const bool has_empty = std::find(list.begin(), list.end(), "") != list.end();
  return list.empty() || (list.size() == hosts && !has_empty);
}

// In the order of the URI. One alone, and so empty, where it names one, or not each in full.
std::vector<Host> HostsOf(const std::string& uri) {
  const OptionsOfUri parsed = Parsed(uri);
  const OptionsOfUri defaults(PQconndefaults());
  const Words names = ListOf(parsed, defaults, "host");
  const Words addresses = ListOf(parsed, defaults, "hostaddr");
  const Words ports = ListOf(parsed, defaults, "port");
  const size_t count = std::max(names.size(), addresses.size());
  const bool are_apart = count > 1 && FitsTo(count, names) && FitsTo(count, addresses) &&
                         (ports.size() <= 1 || ports.size() == count);
  std::vector<Host> hosts(are_apart ? count : 1);
  for (size_t i = 0; are_apart && i < count; ++i) {
    if (!names.empty()) hosts[i].name = names[i];
    if (!addresses.empty()) hosts[i].address = addresses[i];
    if (!ports.empty()) hosts[i].port = ports.size() == 1 ? ports[0] : ports[i];
    if (hosts[i].port.empty()) hosts[i].port = kUsualPort;
  }
  return hosts;
}

// A connection that is being made. What stands before the URI can be overridden by it; what stands
// behind it cannot.
using BeginsConnection = pg_conn* (*)(const char* const*, const char* const*, int);
pg_conn* BeginConnection(BeginsConnection begin, const std::string& uri, const PgOptions& options,
                         const Host& host) {
  const char* const names[] = {"connect_timeout",
                               "keepalives_idle",
                               "keepalives_interval",
                               "keepalives_count",
                               "tcp_user_timeout",
                               "fallback_application_name",
                               "dbname",
                               "client_encoding",
                               "target_session_attrs",
                               "host",
                               "hostaddr",
                               "port",
                               nullptr};
  // What is empty says nothing.
  const char* const values[] = {"5",
                                "10",
                                "5",
                                "3",
                                "20000",
                                options.application_name.c_str(),
                                uri.c_str(),
                                "UTF8",
                                options.takes_writes ? "read-write" : "any",
                                host.name.c_str(),
                                host.address.c_str(),
                                host.port.c_str(),
                                nullptr};
  return begin(names, values, 1);
}

absl::Status NoSuchUri() {
  return absl::InvalidArgumentError(
      "the URI of PostgreSQL cannot be read; write postgresql://USER@HOST:PORT/DATABASE");
}

}  // namespace

// --- Connecting ----------------------------------------------------------------------------------

void PgConnection::Finish::operator()(pg_conn* connection) const { PQfinish(connection); }

PgConnection::PgConnection(RawConnection connection, const PgOptions& options, const Named& named)
    : connection_(std::move(connection)), options_(options), named_(named) {
  PQsetnonblocking(connection_.get(), 1);
  PQsetNoticeReceiver(connection_.get(), TakeNotice, this);
}

PgConnection::~PgConnection() = default;

absl::StatusOr<std::unique_ptr<PgConnection>> PgConnection::Accept(RawConnection connection,
                                                                   const PgOptions& options,
                                                                   const Named& named) {
  pg_conn* const raw = connection.get();
  if (raw == nullptr) return absl::UnavailableError("no memory for a connection");
  if (PQstatus(raw) != CONNECTION_OK) {
    return absl::UnavailableError(
        absl::StrCat("cannot connect to PostgreSQL: ", Trimmed(PQerrorMessage(raw))));
  }
  if (!options.allow_plaintext && PQsslInUse(raw) == 0 && !IsLocal(PQhostaddr(raw))) {
    return absl::FailedPreconditionError(
        "PostgreSQL would be spoken to in the clear; add sslmode=verify-full to its URI, or give "
        "--allow_plaintext where nobody listens");
  }
  return std::unique_ptr<PgConnection>(new PgConnection(std::move(connection), options, named));
}

PgConnection::Named PgConnection::NamedBy(const std::string& uri) {
  const OptionsOfUri parsed = Parsed(uri);
  const OptionsOfUri defaults(PQconndefaults());
  Words names = ListOf(parsed, defaults, "hostaddr");
  if (names.empty()) names = ListOf(parsed, defaults, "host");
  return {.hosts = std::max<size_t>(names.size(), 1),
          .local = std::all_of(names.begin(), names.end(), IsLocalName),
          .attributes = !ValueOf(parsed.get(), "target_session_attrs").empty()};
}

absl::StatusOr<std::unique_ptr<PgConnection>> PgConnection::Connect(const std::string& uri,
                                                                    const PgOptions& options) {
  if (Parsed(uri) == nullptr) return NoSuchUri();
  const Host host = options.only_host.has_value() ? HostsOf(uri)[*options.only_host] : Host{};
  RawConnection raw(BeginConnection(PQconnectdbParams, uri, options, host));
  return Accept(std::move(raw), options, NamedBy(uri));
}

size_t PgConnection::HostsNamed(const std::string& uri) { return HostsOf(uri).size(); }

// --- Finding -------------------------------------------------------------------------------------

// One host, asked for a session that takes writes, and where it refuses that, perhaps for any.
class PgConnection::Candidate {
 public:
  Candidate(const std::string* uri, const PgOptions& options, const Named& named, Host host,
            bool any_will_do)
      : uri_(uri),
        options_(options),
        named_(named),
        host_(std::move(host)),
        any_will_do_(any_will_do) {
    options_.takes_writes = true;
    Begin();
  }

  bool takes_writes() const { return connected_.ok() && options_.takes_writes; }
  bool is_settled() const { return raw_ == nullptr; }

  // For what it waits; nothing that is waited for where it is settled.
  pollfd Waits() const {
    pollfd fd{.fd = -1, .events = POLLIN, .revents = 0};
    if (is_settled()) return fd;
    fd.fd = PQsocket(raw_.get());
    if (next_ == PGRES_POLLING_WRITING) fd.events = POLLOUT;
    return fd;
  }

  // That has come.
  void GoOn() {
    next_ = PQconnectPoll(raw_.get());
    if (next_ == PGRES_POLLING_READING || next_ == PGRES_POLLING_WRITING) return;
    Settle(Accept(std::move(raw_), options_, named_));
  }

  void GiveUp() {
    if (is_settled()) return;
    const absl::Status late = absl::UnavailableError(
        absl::StrCat("no answer in time from ", PQhost(raw_.get()), ":", PQport(raw_.get())));
    raw_.reset();
    if (options_.takes_writes) refusal_ = late;
    connected_ = late;
  }

  // Of the session that takes writes.
  const absl::Status& refusal() const { return refusal_; }
  absl::StatusOr<std::unique_ptr<PgConnection>>& connected() { return connected_; }

 private:
  void Begin() {
    next_ = PGRES_POLLING_WRITING;
    raw_.reset(BeginConnection(PQconnectStartParams, *uri_, options_, host_));
    const bool begun = raw_ != nullptr && PQstatus(raw_.get()) != CONNECTION_BAD;
    if (!begun) Settle(Accept(std::move(raw_), options_, named_));
  }

  void Settle(absl::StatusOr<std::unique_ptr<PgConnection>> connected) {
    raw_.reset();
    connected_ = std::move(connected);
    if (connected_.ok() || !options_.takes_writes) return;
    refusal_ = connected_.status();
    if (!any_will_do_) return;
    options_.takes_writes = false;
    Begin();
  }

  const std::string* const uri_;
  PgOptions options_;
  const Named named_;
  const Host host_;
  const bool any_will_do_;
  RawConnection raw_;
  PostgresPollingStatusType next_ = PGRES_POLLING_WRITING;
  absl::Status refusal_;
  absl::StatusOr<std::unique_ptr<PgConnection>> connected_ = absl::UnavailableError("not asked");
};

PgConnection::Found PgConnection::Find(const std::string& uri, const PgOptions& options,
                                       const PgTimer& until) {
  if (Parsed(uri) == nullptr) return {.takes_writes = NoSuchUri(), .connection = NoSuchUri()};
  const Named named = NamedBy(uri);
  Candidates candidates;
  for (Host& host : HostsOf(uri)) {
    candidates.push_back(std::make_unique<Candidate>(&uri, options, named, std::move(host), true));
  }
  GoOnWith(candidates, until, [](const Candidates& all) {
    const auto takes = [](const auto& one) { return one->takes_writes(); };
    return std::any_of(all.begin(), all.end(), takes) || AreSettled(all);
  });
  return BestOf(candidates);
}

std::vector<absl::StatusOr<std::unique_ptr<PgConnection>>> PgConnection::ConnectToEach(
    const std::string& uri, const PgOptions& options, const PgTimer& until) {
  std::vector<absl::StatusOr<std::unique_ptr<PgConnection>>> connections;
  if (Parsed(uri) == nullptr) {
    connections.emplace_back(NoSuchUri());
    return connections;
  }
  const Named named = NamedBy(uri);
  Candidates candidates;
  for (Host& host : HostsOf(uri)) {
    candidates.push_back(std::make_unique<Candidate>(&uri, options, named, std::move(host), false));
  }
  GoOnWith(candidates, until, AreSettled);
  for (const auto& one : candidates) {
    one->GiveUp();
    connections.push_back(std::move(one->connected()));
  }
  return connections;
}

bool PgConnection::AreSettled(const Candidates& candidates) {
  return std::all_of(candidates.begin(), candidates.end(),
                     [](const auto& one) { return one->is_settled(); });
}

void PgConnection::GoOnWith(const Candidates& candidates, const PgTimer& until,
                            bool (*is_enough)(const Candidates&)) {
  while (!is_enough(candidates)) {
    std::vector<pollfd> fds;
    for (const auto& one : candidates) fds.push_back(one->Waits());
    fds.push_back({.fd = until.fd(), .events = POLLIN, .revents = 0});
    Poll(fds.data(), fds.size(), core::Duration::max());
    if (fds.back().revents != 0) break;
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (fds[i].revents != 0) candidates[i]->GoOn();
    }
  }
}

PgConnection::Found PgConnection::BestOf(const Candidates& candidates) {
  Found found;
  Words refusals;
  Words failures;
  for (const auto& one : candidates) {
    one->GiveUp();
    if (one->takes_writes()) return {.connection = std::move(one->connected())};
    refusals.emplace_back(one->refusal().message());
    failures.emplace_back(one->connected().status().message());
  }
  found.takes_writes = absl::UnavailableError(absl::StrJoin(refusals, "; "));
  found.connection = absl::UnavailableError(absl::StrJoin(failures, "; "));
  for (const auto& one : candidates) {
    if (!found.connection.ok() && one->connected().ok()) {
      found.connection = std::move(one->connected());
    }
  }
  return found;
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
    // One that is below zero is not looked at.
    const int until = options_.until == nullptr ? -1 : options_.until->fd();
    pollfd fds[] = {{.fd = PQsocket(connection_.get()), .events = POLLIN, .revents = 0},
                    {.fd = until, .events = POLLIN, .revents = 0}};
    if (unflushed == 1) fds[0].events |= POLLOUT;
    if (!Poll(fds, 2, options_.reply_timeout) || fds[1].revents != 0) return false;
    const bool readable = (fds[0].revents & ~POLLOUT) != 0;
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
  const OptionsOfUri used(PQconninfo(raw));
  return {.host = PQhost(raw),
          .tls = PQsslInUse(raw) != 0,
          .sslmode = std::string(ValueOf(used.get(), "sslmode")),
          .local = named_.local && IsLocal(PQhostaddr(raw)),
          .hosts = named_.hosts,
          .attributes_named = named_.attributes};
}

}  // namespace idempotency::keystore
