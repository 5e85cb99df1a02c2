#include "service/flags.h"

#include <cstddef>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/flags/marshalling.h"
#include "absl/strings/str_cat.h"
#include "service/log.h"

namespace idempotency::service {
namespace {

constexpr int kMaxMegabytes = 1024 * 1024;

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
     "Where to listen: a loopback address with a port (0: any free one), or\n"
     "unix:/path. Plaintext, and whoever can connect may do everything."},
    {"config", &Flags::config,
     "YAML file of namespaces and limits; read again at SIGHUP. Without one every\n"
     "namespace works under the built-in defaults."},
    {"check_config", &Flags::check_config,
     "Check the file of --config, say what is wrong, and exit."},
    {"engine", &Flags::engine,
     "rocksdb; or memory, which keeps nothing across a restart: for tests only."},
    {"log_level", &Flags::log_level,
     "debug (a line for every command), info, warning or error; JSON lines on stderr."},
    {"port_file", &Flags::port_file,
     "Write the port that is listened on to this file, once calls are answered."},
    {"ballast_mb", &Flags::ballast_mb,
     "Size in MiB of a file that is deleted when the disk is full, so that running\n"
     "operations can still be completed. 0: none."},
    {"block_cache_mb", &Flags::block_cache_mb, "RocksDB's block cache, in MiB."},
    {"memtable_mb", &Flags::memtable_mb,
     "What RocksDB gathers of one column family in memory, in MiB."},
    {"trust_clock", &Flags::trust_clock,
     "The wall clock is right, however far it is ahead of the last run: leave the state\n"
     "in which nothing expires and no unknown outcome is attempted again."},
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

absl::Status CheckMegabytes(const char* name, int value, int least) {
  if (value >= least && value <= kMaxMegabytes) return absl::OkStatus();
  return Wrong(absl::StrCat("--", name, "=", value, " is out of range; use ", least, " to ",
                            kMaxMegabytes, "."));
}

absl::Status Check(const Flags& flags) {
  if (!ParseLogLevel(flags.log_level)) {
    return Wrong(absl::StrCat("--log_level=", flags.log_level,
                              " is none of debug, info, warning and error."));
  }
  if (flags.engine != "rocksdb" && flags.engine != "memory") {
    return Wrong(absl::StrCat("--engine=", flags.engine, " is neither rocksdb nor memory."));
  }
  if (flags.engine == "rocksdb" && flags.data_dir.empty()) {
    return Wrong("--data_dir must not be empty.");
  }
  if (flags.check_config && flags.config.empty()) {
    return Wrong("--check_config needs the file to check: --config=FILE.");
  }
  absl::Status sizes = CheckMegabytes("block_cache_mb", flags.block_cache_mb, 1);
  sizes.Update(CheckMegabytes("memtable_mb", flags.memtable_mb, 1));
  sizes.Update(CheckMegabytes("ballast_mb", flags.ballast_mb, 0));
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
      "configuration again, and keeps the old one where the new one is wrong.\n"
      "\n"
      "Exit codes: 0 stopped as asked, 1 could not start, 2 wrong flags or configuration,\n"
      "70 the store failed while running (start again to reopen it).\n");
}

}  // namespace idempotency::service
