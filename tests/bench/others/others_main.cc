// idempotency_load_others: the same load on what users would pick instead of idempotencyd.
#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/bench/flags.h"
#include "tests/bench/options.h"
#include "tests/bench/others/etcd_load.h"
#include "tests/bench/others/postgres_load.h"
#include "tests/bench/others/redis_load.h"
#include "tests/bench/plan.h"

namespace idempotency::bench {
namespace {

constexpr char kDescription[] =
    "Reserves fresh keys in other systems, as idempotency_load does in ours, and checks every\n"
    "answer. tests/bench/compare.sh runs both and compares.";

const std::set<std::string> kSystems = {"redis_set", "redis_lua", "postgres", "etcd"};

std::string ReadFile(const std::string& path) {
  const std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::unique_ptr<Load> MakeLoad(const std::string& system, const std::string& script, Plan* plan) {
  if (system == "postgres") return std::make_unique<PostgresLoad>(plan);
  if (system == "etcd") return std::make_unique<EtcdLoad>(plan);
  return std::make_unique<RedisLoad>(plan, system == "redis_lua" ? ReadFile(script) : "");
}

int Main(int argc, char** argv) {
  Options options;
  options.commands = 1;
  options.in_flight = 50;
  std::string system;
  std::string script;
  CLI::App app(kDescription, "idempotency_load_others");
  app.add_option("--system", system,
                 "redis_set: SET NX EX. redis_lua: a script that does what Reserve does.\n"
                 "postgres: INSERT .. ON CONFLICT DO NOTHING. etcd: Txn create-if-absent")
      ->check(CLI::IsMember(kSystems))
      ->required();
  app.add_option("--target", options.target, "host:port")->required();
  app.add_option("--script", script, "redis_lua: the script, others/reserve.lua")
      ->check(CLI::ExistingFile);
  app.add_option("--in-flight", options.in_flight,
                 "Connections (etcd: calls at a time over --connections)")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app.add_option("--connections", options.connections, "etcd: connections")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app.add_option("--commands", options.commands,
                 "Commands sent before their answers are awaited (postgres: in one transaction)")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  AddCommonFlags(&app, &options);
  if (const std::optional<int> end = Parse(&app, argc, argv)) return *end;
  std::string wrong = CheckCommonFlags(options);
  if (system == "redis_lua" && script.empty()) wrong = "--system=redis_lua needs --script.";
  if (system == "etcd" && options.commands != 1) wrong = "--system=etcd knows no --commands.";
  if (!wrong.empty()) {
    std::cerr << "idempotency_load_others: " << wrong << std::endl;
    return kExitWrongUsage;
  }
  ChooseSeed(&options);
  Plan plan(options);
  const Result result = MakeLoad(system, script, &plan)->Run();
  const std::string title =
      absl::StrCat(system, ", ", options.in_flight, " in flight, ", options.commands, " at once");
  return Finish(title, options, plan.faults(), result);
}

}  // namespace
}  // namespace idempotency::bench

int main(int argc, char** argv) { return idempotency::bench::Main(argc, argv); }
