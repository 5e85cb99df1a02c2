#include "service/flags.h"

#include <cstddef>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/flags/marshalling.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "service/exporter/http_listener.h"
#include "service/log.h"
#include "service/offline_progress.h"
#include "service/transfer_mode.h"

namespace idempotency::service {
namespace {

constexpr int kMaxMegabytes = 1024 * 1024;
constexpr int kMaxCount = 1'000'000'000;
constexpr int kMaxMetadataKib = 1024;
constexpr int kMaxPostgresConnections = 100;
constexpr int kMaxClockSkewMs = 60'000;
// gRPC counts milliseconds in an int.
constexpr int kMaxSeconds = 2'000'000;

struct Row {
  const char* name;
  std::variant<std::string Flags::*, bool Flags::*, int Flags::*> member;
  const char* help;

  bool is_truth() const { return std::holds_alternative<bool Flags::*>(member); }
};

constexpr Row kRows[] = {
    {"data_dir", &Flags::data_dir,
     "Directory of the store; made if its parent exists (the default also if not). One\n"
     "process at a time."},
    {"listen", &Flags::listen,
     "Where to listen: an address with a port (0: any free one), or unix:/path. One that\n"
     "other machines can reach needs TLS and a way to know who calls, which the sections\n"
     "tls and identity of --config give."},
    {"allow_plaintext", &Flags::allow_plaintext,
     "For development: listen without TLS where other machines can connect. Tokens are\n"
     "refused on such connections."},
    {"allow_anonymous", &Flags::allow_anonymous,
     "Listen with TLS where other machines can connect, and let whoever can do everything:\n"
     "where the network alone decides who may."},
    {"tls_min_version", &Flags::tls_min_version,
     "The oldest version of TLS that is spoken: 1.3, or 1.2 for old clients."},
    {"config", &Flags::config,
     "YAML file of namespaces, limits, TLS and who may call; read again at SIGHUP. Without\n"
     "one every namespace works under the built-in defaults."},
    {"check_config", &Flags::check_config,
     "Check the file of --config and the files that it names, say what is wrong, and exit."},
    {"engine", &Flags::engine,
     "rocksdb, which keeps the store in --data_dir; etcd or postgres, which several servers\n"
     "share; or memory, which keeps nothing across a restart: for tests only."},
    {"etcd_endpoints", &Flags::etcd_endpoints,
     "etcd: HOST:PORT of the members of one cluster, with commas between."},
    {"etcd_prefix", &Flags::etcd_prefix,
     "etcd: what every key begins with. Servers with the same prefix share one store."},
    {"etcd_ca", &Flags::etcd_ca,
     "etcd: the authority of its members' certificates (PEM), and so TLS. Needed where etcd is\n"
     "not on loopback, unless --allow_plaintext says otherwise."},
    {"etcd_certificate", &Flags::etcd_certificate,
     "etcd: our own certificate (PEM), where it asks for one."},
    {"etcd_key", &Flags::etcd_key, "etcd: the key of --etcd_certificate (PEM)."},
    {"etcd_user", &Flags::etcd_user,
     "etcd: the user that may read and write the keys of --etcd_prefix, where it asks who calls."},
    {"etcd_password_file", &Flags::etcd_password_file,
     "etcd: a file whose first line is the password of --etcd_user."},
    {"etcd_max_request_kb", &Flags::etcd_max_request_kb,
     "etcd: its --max-request-bytes, in KiB. An answer that does not fit is stored without its\n"
     "body."},
    {"etcd_quota_mb", &Flags::etcd_quota_mb,
     "etcd: its --quota-backend-bytes, in MiB; etcd 3.6 and newer say it themselves. New keys are\n"
     "refused when six sevenths are in use."},
    {"postgres_uri", &Flags::postgres_uri,
     "postgres: postgresql://USER@HOST/DATABASE, as libpq reads it: several hosts, sslmode and\n"
     "all. What it does not say, PGPASSFILE and the like do: a password is best left to those. A\n"
     "server that is not on this machine has to speak TLS, unless --allow_plaintext says "
     "otherwise."},
    {"postgres_connections", &Flags::postgres_connections,
     "postgres: how many connections work; two more are used for upkeep."},
    {"clock_skew_ms", &Flags::clock_skew_ms,
     "How far the clocks of servers that share a store may be apart, in milliseconds. A lease\n"
     "that ends is free for others only so much later."},
    {"log_level", &Flags::log_level,
     "debug (a line for every command), info, warning or error; JSON lines on stderr."},
    {"audit_log", &Flags::audit_log,
     "Where a JSON line is written for each administrative act and each denial: a file, which\n"
     "is made (0640), only appended to, and opened anew at SIGHUP; or stderr. An act whose line\n"
     "cannot be written (in a file: and synced) is refused. The lines name operations."},
    {"port_file", &Flags::port_file,
     "Write the port that is listened on to this file, once calls are answered."},
    {"metrics_listen", &Flags::metrics_listen,
     "Where to answer GET /metrics (for Prometheus), /healthz and /readyz, in plain HTTP: an\n"
     "address with a port, such as 127.0.0.1:9464. Whoever can reach it can read it: it holds\n"
     "names of namespaces, no keys, scopes or bodies. Empty: nowhere."},
    {"ballast_mb", &Flags::ballast_mb,
     "Size in MiB of a file that is deleted when the disk is full, so that running\n"
     "operations can still be completed. 0: none."},
    {"block_cache_mb", &Flags::block_cache_mb, "RocksDB's block cache, in MiB."},
    {"memtable_mb", &Flags::memtable_mb,
     "What RocksDB gathers of one column family in memory, in MiB."},
    {"log_ahead_mb", &Flags::log_ahead_mb,
     "How much of RocksDB's log is filled with zeros in front of what is written, in MiB, at most\n"
     "a quarter of --memtable_mb, 8 say: single calls are faster then, where the file system\n"
     "writes in place (ext4, XFS). None is made while the disk has little room. 0: none."},
    {"max_connections", &Flags::max_connections,
     "Connections at once; those beyond are reset. Fewer where the limit of open files is\n"
     "too low for as many: each takes two, and the store needs some."},
    {"max_connections_per_peer", &Flags::max_connections_per_peer,
     "Of them from one address, one IPv6 network (/64), or one user of a Unix socket. Where a\n"
     "proxy stands in front, everybody comes from its address."},
    {"max_cancelled_calls", &Flags::max_cancelled_calls,
     "A connection on which more calls are cancelled within 10 s, or an eighth of them at\n"
     "once, is reset, and its peer is kept out for 1 s; each further time for twice as long,\n"
     "up to a minute."},
    {"max_streams_per_connection", &Flags::max_streams_per_connection,
     "Calls and streams at once on a connection, waiting ones among them. Who begins half as many\n"
     "again is kept out, as for cancelled calls."},
    {"max_metadata_kb", &Flags::max_metadata_kb,
     "Size in KiB of all headers of a call, tokens among them. A call with more is refused, and a\n"
     "connection with far more, or with more time and again, is reset."},
    {"handshake_timeout_s", &Flags::handshake_timeout_s,
     "Seconds for TLS and HTTP/2 to be set up on a connection."},
    {"max_connection_idle_s", &Flags::max_connection_idle_s,
     "Seconds without a call after which a connection is closed. 0: never."},
    {"max_connection_age_s", &Flags::max_connection_age_s,
     "Seconds after which, more or less a tenth, a connection is asked to go, so that clients\n"
     "spread over servers again; its calls have two minutes to end. 0: never."},
    {"keepalive_s", &Flags::keepalive_s,
     "Seconds of silence after which a peer is asked whether it is still there."},
    {"min_ping_interval_s", &Flags::min_ping_interval_s,
     "Seconds that a client leaves between its pings; who does not is disconnected."},
    {"trust_clock", &Flags::trust_clock,
     "The wall clock is right, however far it is ahead of the last run: leave the state\n"
     "in which nothing expires and no unknown outcome is attempted again."},
    {"accept_loss", &Flags::accept_loss,
     "The store has lost records that were acknowledged, and no backup is left: start all\n"
     "the same, once, with the number that the refusal to start names. What was pending\n"
     "becomes UNRESOLVED; operations begun before are TOO_OLD where operation_age shows it.\n"
     "Of all others that are lost nothing is known: they will be granted again."},
    {"response_keys", &Flags::response_keys,
     "Directory of the keys that stored responses and progress are sealed with: ID.key\n"
     "holds 64 hex digits (openssl rand -hex 32), and `current` the ID that new ones are\n"
     "sealed with. Read once, at start. Without it they are stored as they are."},
    {"lost_response_keys", &Flags::lost_response_keys,
     "IDs, with commas between, of keys that are lost for good: what was sealed with them\n"
     "cannot be replayed any more; that an operation has ended stays known."},
    {"rewrap", &Flags::rewrap,
     "Do not serve: seal everything in the store with the current key, so that older keys\n"
     "are needed no more, and exit. The service must not be running on it."},
    {"backup_dir", &Flags::backup_dir,
     "Directory that idempotencyctl backup copies the store to, and that --verify_backup and\n"
     "--restore_backup read; on another volume than the store's. Empty: no backups."},
    {"backups_kept", &Flags::backups_kept,
     "How many of them are kept, the newest. What several share is there once."},
    {"verify_backup", &Flags::verify_backup,
     "Do not serve: read the backup of this id, or `latest`, back from --backup_dir, every\n"
     "file and every record, and exit; 0 where it is whole."},
    {"restore_backup", &Flags::restore_backup,
     "Do not serve: make the store --data_dir, which must not be there yet, out of the backup\n"
     "of this id, or `latest`, and exit. What was pending in it becomes UNRESOLVED; operations\n"
     "begun before now of which it knows nothing are TOO_OLD where operation_age shows it."},
    {"transfer", &Flags::transfer,
     "Serve only to move all records to another engine: export answers idempotencyctl export and\n"
     "retire, and what only reads, also of a store that is retired; import answers idempotencyctl\n"
     "import alone. Every call that would change a record is refused as UNAVAILABLE, and nothing\n"
     "that has expired is removed. Stop all other servers of the same store first."},
    {"progress", &Flags::progress,
     "How far --verify_backup, --restore_backup and --rewrap are: auto is a line that is\n"
     "written over where standard error is a terminal, and else lines of the log; always is\n"
     "the one, never the other."},
    {"core_dumps", &Flags::core_dumps,
     "For debugging: let the system write core dumps, and other processes of this user look\n"
     "into this one. They show answers, progress, credentials and keys."},
    {"version", &Flags::version, "Print the version and exit."},
    {"help", &Flags::help, "Print this and exit."},
};

absl::Status Wrong(std::string message) {
  return absl::InvalidArgumentError(absl::StrCat(message, " Try idempotencyd --help."));
}

const Row* Find(std::string_view name) {
  for (const Row& row : kRows) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

// One argument, and what it says.
struct Given {
  const Row* row = nullptr;
  std::string value;
};

// Moves *next behind the flag, and behind its value where that stands by itself.
absl::StatusOr<Given> ReadOne(const std::vector<std::string>& arguments, size_t* next) {
  const std::string& argument = arguments[(*next)++];
  const size_t dashes = argument.find_first_not_of('-');
  if (dashes != 1 && dashes != 2) return Wrong(absl::StrCat("\"", argument, "\" is not a flag."));
  const size_t equals = argument.find('=');
  const bool has_value = equals != std::string::npos;
  const std::string name = argument.substr(dashes, has_value ? equals - dashes : std::string::npos);
  const Row* const row = Find(name);
  if (row == nullptr) {
    const Row* const negated = name.rfind("no", 0) == 0 ? Find(name.substr(2)) : nullptr;
    if (negated != nullptr && negated->is_truth() && !has_value) return Given{negated, "false"};
    return Wrong(absl::StrCat("There is no flag --", name, "."));
  }
  if (has_value) return Given{row, argument.substr(equals + 1)};
  if (row->is_truth()) return Given{row, "true"};
  if (*next == arguments.size()) return Wrong(absl::StrCat("--", name, " needs a value."));
  return Given{row, arguments[(*next)++]};
}

absl::Status Assign(const Given& given, Flags* flags) {
  std::string why;
  const bool is_value =
      std::visit([&](auto member) { return absl::ParseFlag(given.value, &(flags->*member), &why); },
                 given.row->member);
  if (is_value) return absl::OkStatus();
  return Wrong(
      absl::StrCat("--", given.row->name, "=", given.value, " is not a value of this flag."));
}

absl::Status CheckRange(const char* name, int value, int least, int most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return Wrong(
      absl::StrCat("--", name, "=", value, " is out of range; use ", least, " to ", most, "."));
}

absl::Status CheckMegabytes(const char* name, int value, int least) {
  return CheckRange(name, value, least, kMaxMegabytes);
}

absl::Status CheckConnections(const Flags& flags) {
  struct Range {
    const char* name;
    int value;
    int least;
    int most;
  };
  const Range ranges[] = {
      {"max_connections", flags.max_connections, 1, kMaxCount},
      {"max_connections_per_peer", flags.max_connections_per_peer, 1, kMaxCount},
      {"max_cancelled_calls", flags.max_cancelled_calls, 1, kMaxCount},
      {"max_streams_per_connection", flags.max_streams_per_connection, 1, kMaxCount},
      {"max_metadata_kb", flags.max_metadata_kb, 1, kMaxMetadataKib},
      {"handshake_timeout_s", flags.handshake_timeout_s, 1, kMaxSeconds},
      {"max_connection_idle_s", flags.max_connection_idle_s, 0, kMaxSeconds},
      {"max_connection_age_s", flags.max_connection_age_s, 0, kMaxSeconds},
      {"keepalive_s", flags.keepalive_s, 1, kMaxSeconds},
      {"min_ping_interval_s", flags.min_ping_interval_s, 1, kMaxSeconds},
  };
  absl::Status status;
  for (const Range& range : ranges) {
    status.Update(CheckRange(range.name, range.value, range.least, range.most));
  }
  return status;
}

bool IsBackupName(const std::string& name) {
  int id = 0;
  return name.empty() || name == Flags::kLatestBackup || (absl::SimpleAtoi(name, &id) && id > 0);
}

absl::Status CheckBackups(const Flags& flags) {
  const bool offline = !flags.verify_backup.empty() || !flags.restore_backup.empty();
  if (!IsBackupName(flags.verify_backup) || !IsBackupName(flags.restore_backup)) {
    return Wrong("--verify_backup and --restore_backup take the id of a backup, or latest.");
  }
  if (offline && flags.backup_dir.empty()) {
    return Wrong("--verify_backup and --restore_backup need the backups: --backup_dir=DIRECTORY.");
  }
  if (!flags.verify_backup.empty() && !flags.restore_backup.empty()) {
    return Wrong("Use --verify_backup or --restore_backup: restoring verifies, too.");
  }
  if (flags.engine != "rocksdb" && (offline || !flags.backup_dir.empty())) {
    return Wrong("--backup_dir needs a store of our own: --engine=rocksdb.");
  }
  return CheckRange("backups_kept", flags.backups_kept, 1, kMaxCount);
}

bool IsOnLoopback(std::string_view endpoint) {
  for (const std::string_view host : {"127.0.0.1:", "localhost:", "[::1]:"}) {
    if (endpoint.substr(0, host.size()) == host) return true;
  }
  return false;
}

absl::Status CheckEtcd(const Flags& flags) {
  if (flags.engine != "etcd") return absl::OkStatus();
  if (flags.etcd_endpoints.empty()) {
    return Wrong("--engine=etcd needs its members: --etcd_endpoints=HOST:PORT,...");
  }
  for (const absl::string_view endpoint : absl::StrSplit(flags.etcd_endpoints, ',')) {
    if (!absl::StrContains(endpoint, ':')) {
      return Wrong(absl::StrCat("--etcd_endpoints: \"", endpoint, "\" is not HOST:PORT."));
    }
    if (flags.etcd_ca.empty() && !flags.allow_plaintext &&
        !IsOnLoopback({endpoint.data(), endpoint.size()})) {
      return Wrong(absl::StrCat("etcd at ", endpoint,
                                " would be spoken to in the clear; give --etcd_ca, or "
                                "--allow_plaintext where nobody listens."));
    }
  }
  if (flags.etcd_user.empty() != flags.etcd_password_file.empty()) {
    return Wrong("--etcd_user and --etcd_password_file go together.");
  }
  absl::Status status =
      CheckRange("etcd_max_request_kb", flags.etcd_max_request_kb, 256, kMaxMegabytes);
  status.Update(CheckRange("etcd_quota_mb", flags.etcd_quota_mb, 16, kMaxMegabytes));
  return status;
}

absl::Status CheckPostgres(const Flags& flags) {
  if (flags.engine != "postgres") return absl::OkStatus();
  if (flags.postgres_uri.empty()) {
    return Wrong(
        "--engine=postgres needs a database: --postgres_uri=postgresql://USER@HOST/DATABASE");
  }
  return CheckRange("postgres_connections", flags.postgres_connections, 1, kMaxPostgresConnections);
}

absl::Status CheckEngine(const Flags& flags) {
  for (const char* engine : {"rocksdb", "memory", "etcd", "postgres"}) {
    if (flags.engine == engine) return absl::OkStatus();
  }
  return Wrong(
      absl::StrCat("--engine=", flags.engine, " is none of rocksdb, etcd, postgres and memory."));
}

absl::Status Check(const Flags& flags) {
  if (!ParseLogLevel(flags.log_level)) {
    return Wrong(absl::StrCat("--log_level=", flags.log_level,
                              " is none of debug, info, warning and error."));
  }
  if (absl::Status engine = CheckEngine(flags); !engine.ok()) return engine;
  if (!flags.metrics_listen.empty()) {
    const absl::Status address = CheckMetricsAddress(flags.metrics_listen);
    if (!address.ok()) return Wrong(std::string(address.message()));
  }
  if (flags.tls_min_version != "1.2" && flags.tls_min_version != "1.3") {
    return Wrong(
        absl::StrCat("--tls_min_version=", flags.tls_min_version, " is neither 1.3 nor 1.2."));
  }
  if (!ParseTransferMode(flags.transfer)) {
    return Wrong(absl::StrCat("--transfer=", flags.transfer, " is neither export nor import."));
  }
  if (!IsProgressMode(flags.progress)) {
    return Wrong(
        absl::StrCat("--progress=", flags.progress, " is none of auto, always and never."));
  }
  if (flags.audit_log.empty()) {
    return Wrong("--audit_log must not be empty: name a file, or stderr.");
  }
  if (flags.engine == "rocksdb" && flags.data_dir.empty()) {
    return Wrong("--data_dir must not be empty.");
  }
  if (flags.check_config && flags.config.empty()) {
    return Wrong("--check_config needs the file to check: --config=FILE.");
  }
  if (flags.engine == "memory" && (flags.rewrap || !flags.response_keys.empty())) {
    return Wrong("--response_keys and --rewrap need a store that is kept: --engine=rocksdb.");
  }
  if (flags.engine != "rocksdb" && (flags.rewrap || flags.accept_loss != 0)) {
    return Wrong("--rewrap and --accept_loss need a store of our own: --engine=rocksdb.");
  }
  if (absl::Status etcd = CheckEtcd(flags); !etcd.ok()) return etcd;
  if (absl::Status postgres = CheckPostgres(flags); !postgres.ok()) return postgres;
  if (absl::Status backups = CheckBackups(flags); !backups.ok()) return backups;
  absl::Status sizes = CheckMegabytes("block_cache_mb", flags.block_cache_mb, 1);
  sizes.Update(CheckMegabytes("memtable_mb", flags.memtable_mb, 1));
  sizes.Update(CheckMegabytes("ballast_mb", flags.ballast_mb, 0));
  sizes.Update(CheckMegabytes("log_ahead_mb", flags.log_ahead_mb, 0));
  sizes.Update(CheckRange("clock_skew_ms", flags.clock_skew_ms, 0, kMaxClockSkewMs));
  sizes.Update(CheckConnections(flags));
  if (flags.accept_loss < 0) {
    sizes.Update(Wrong(absl::StrCat("--accept_loss=", flags.accept_loss,
                                    " is not a number that a refusal to start names.")));
  }
  return sizes;
}

std::string DefaultOf(const Row& row) {
  const Flags defaults;
  return std::visit([&](auto member) { return absl::UnparseFlag(defaults.*member); }, row.member);
}

// Every line of `text` behind an indent.
std::string Indented(std::string_view text) {
  std::string out = "      ";
  for (const char c : text) {
    out.push_back(c);
    if (c == '\n') out.append("      ");
  }
  return out;
}

}  // namespace

absl::StatusOr<Flags> ParseFlags(const std::vector<std::string>& arguments) {
  Flags flags;
  for (size_t next = 0; next < arguments.size();) {
    const absl::StatusOr<Given> given = ReadOne(arguments, &next);
    if (!given.ok()) return given.status();
    if (absl::Status status = Assign(*given, &flags); !status.ok()) return status;
  }
  if (flags.help || flags.version) return flags;
  if (absl::Status status = Check(flags); !status.ok()) return status;
  return flags;
}

std::string HelpText() {
  std::string text =
      "idempotencyd keeps what services need to know to retry without doing things twice.\n"
      "\n"
      "  idempotencyd --data_dir=/var/lib/idempotencyd\n"
      "  idempotencyd --config=namespaces.yaml --check_config\n"
      "\n"
      "Flags:\n";
  for (const Row& row : kRows) {
    const std::string usual = DefaultOf(row);
    const bool shown = !row.is_truth() && !usual.empty();
    absl::StrAppend(&text, "  --", row.name, shown ? "=" : "", shown ? usual : "", "\n",
                    Indented(row.help), "\n");
  }
  return absl::StrCat(
      text,
      "\n"
      "Signals: SIGTERM and SIGINT finish what was accepted and stop; SIGHUP reads the\n"
      "configuration again, and keeps the old one where the new one is wrong, and opens\n"
      "--audit_log anew. Certificates, keys and tokens are looked at about once a second, too.\n"
      "\n"
      "Exit codes: 0 stopped as asked, 1 could not start, 2 wrong flags or configuration,\n"
      "70 the store failed while running (start again to reopen it).\n");
}

}  // namespace idempotency::service
