#include "tests/support/postgres_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "tests/support/becomes_true.h"
#include "tests/support/free_port.h"

namespace idempotency {
namespace {

constexpr char kBin[] = "/usr/lib/postgresql/15/bin/";
constexpr int kStartTries = 3000;
constexpr int kStartTryMs = 20;

// Its standard output and error go to `out`.
pid_t Spawn(std::vector<std::string> command, int out) {
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid != 0) return pid;
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  execvp(argv[0], argv.data());
  std::perror(argv[0]);
  _exit(127);
}

int WaitFor(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

struct Ended {
  int exit_code = 0;
  std::string out;
};

Ended RunToEnd(const std::vector<std::string>& command) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
  const pid_t pid = Spawn(command, ends[1]);
  close(ends[1]);
  Ended ended;
  char buffer[4096];
  for (ssize_t size = 0; (size = read(ends[0], buffer, sizeof(buffer))) > 0;) {
    ended.out.append(buffer, static_cast<size_t>(size));
  }
  close(ends[0]);
  ended.exit_code = WaitFor(pid);
  return ended;
}

std::string RunOrAbort(const std::vector<std::string>& command) {
  Ended ended = RunToEnd(command);
  if (ended.exit_code != 0) {
    std::fprintf(stderr, "%s failed (run deploy/install_deps.sh test); it says:\n%s\n",
                 command.back().c_str(), ended.out.c_str());
    std::abort();
  }
  return std::move(ended.out);
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// Of a process: its state, a letter; 'Z' where there is none any more.
char StateOf(pid_t pid) {
  const std::string stat = ReadFile("/proc/" + std::to_string(pid) + "/stat");
  const size_t name_end = stat.rfind(") ");
  return name_end == std::string::npos ? 'Z' : stat[name_end + 2];
}

// The children of a process by itself.
std::vector<pid_t> ChildrenOf(pid_t pid) {
  const std::string number = std::to_string(pid);
  std::istringstream words(ReadFile("/proc/" + number + "/task/" + number + "/children"));
  return {std::istream_iterator<pid_t>(words), {}};
}

}  // namespace

PostgresServer::PostgresServer(std::vector<std::string> settings) : settings_(std::move(settings)) {
  MakeDirectory();
  // Not synced: what a test loses with the machine, it has lost anyway.
  RunOrAbort(AsItsUser({std::string(kBin) + "initdb", "--no-sync", "--auth=trust", "-U", "postgres",
                        "--no-locale", "--encoding=UTF8", "-D", files_.file("pg/data")}));
  Start();
}

PostgresServer::PostgresServer(const PostgresServer& primary, const std::string& application_name)
    : settings_({"primary_conninfo=host=127.0.0.1 port=" + std::to_string(primary.port()) +
                 " user=postgres application_name=" + application_name}) {
  MakeDirectory();
  RunOrAbort(AsItsUser({std::string(kBin) + "pg_basebackup", "--no-sync", "--checkpoint=fast", "-R",
                        "-X", "stream", "-h", "127.0.0.1", "-p", std::to_string(primary.port()),
                        "-U", "postgres", "-D", files_.file("pg/data")}));
  Start();
}

PostgresServer::~PostgresServer() { Kill(); }

void PostgresServer::MakeDirectory() {
  port_ = FreePort();
  if (geteuid() != 0) {
    std::filesystem::create_directory(files_.file("pg"));
    return;
  }
  std::filesystem::permissions(files_.path(), std::filesystem::perms(0711));
  RunOrAbort({"install", "-d", "-o", "postgres", "-m", "0700", files_.file("pg")});
}

std::vector<std::string> PostgresServer::AsItsUser(std::vector<std::string> command) const {
  // With the test it ends, at once, as after a crash.
  std::vector<std::string> all{"setpriv", "--pdeathsig=QUIT"};
  if (geteuid() == 0) {
    for (const char* word : {"--reuid=postgres", "--regid=postgres", "--clear-groups"}) {
      all.emplace_back(word);
    }
  }
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

void PostgresServer::Start() {
  std::vector<std::string> command{std::string(kBin) + "postgres", "-D", files_.file("pg/data"),
                                   "-p", std::to_string(port_)};
  std::vector<std::string> settings = {"listen_addresses=127.0.0.1",
                                       "unix_socket_directories=" + files_.file("pg"),
                                       "max_connections=200",
                                       "shared_buffers=32MB",
                                       "autovacuum=off",
                                       "max_wal_senders=4"};
  settings.insert(settings.end(), settings_.begin(), settings_.end());
  for (const std::string& setting : settings) {
    command.emplace_back("-c");
    command.push_back(setting);
  }
  const int log = open(files_.file("log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  pid_ = Spawn(AsItsUser(std::move(command)), log);
  close(log);
  for (int i = 0; i < kStartTries; ++i) {
    const Ended ready = RunToEnd({std::string(kBin) + "pg_isready", "-q", "-h", files_.file("pg"),
                                  "-p", std::to_string(port_)});
    if (ready.exit_code == 0) return;
    if (waitpid(pid_, nullptr, WNOHANG) != 0) break;
    poll(nullptr, 0, kStartTryMs);
  }
  std::fprintf(stderr, "PostgreSQL does not start; it says:\n%s\n", Log().c_str());
  std::abort();
}

void PostgresServer::Kill() {
  if (pid_ <= 0) return;
  // The first process must not make others of them meanwhile.
  kill(pid_, SIGSTOP);
  BecomesTrue([this] { return StateOf(pid_) == 'T' || StateOf(pid_) == 'Z'; });
  const std::vector<pid_t> children = ChildrenOf(pid_);
  for (const pid_t child : children) kill(child, SIGKILL);
  kill(pid_, SIGKILL);
  WaitFor(pid_);
  pid_ = -1;
  // It does not start again while one of them has its memory.
  for (const pid_t child : children) BecomesTrue([child] { return StateOf(child) == 'Z'; });
}

void PostgresServer::Signal(int number) const { kill(pid_, number); }

void PostgresServer::Promote() {
  RunOrAbort(AsItsUser(
      {std::string(kBin) + "pg_ctl", "promote", "-w", "-s", "-D", files_.file("pg/data")}));
}

std::string PostgresServer::Uri(const std::string& schema) const {
  Sql("CREATE SCHEMA IF NOT EXISTS " + schema);
  return UriOf(schema);
}

std::string PostgresServer::UriOf(const std::string& schema) const {
  return "host=" + files_.file("pg") + " port=" + std::to_string(port_) +
         " user=postgres dbname=postgres options='-csearch_path=" + schema + "'";
}

std::string PostgresServer::TcpUri(const std::string& schema) const {
  Sql("CREATE SCHEMA IF NOT EXISTS " + schema);
  return "postgresql://postgres@127.0.0.1:" + std::to_string(port_) +
         "/postgres?options=-csearch_path%3D" + schema;
}

std::string PostgresServer::Sql(const std::string& sql) const {
  return RunOrAbort({std::string(kBin) + "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1",
                     "-h", files_.file("pg"), "-p", std::to_string(port_), "-U", "postgres", "-c",
                     sql});
}

std::string PostgresServer::Log() const { return ReadFile(files_.file("log")); }

}  // namespace idempotency
