// Runs some scenarios a fixed number of times under callgrind, which counts instructions instead
// of time: the same on a busy machine as on an idle one. guard.py starts it and compares.
//
// Every scenario ends with a dump of its own, whose trigger is "NAME OPERATIONS". Counted is
// nothing but Run, and nothing but this thread: toggling is a thread's own affair, and RocksDB's
// threads never toggle.
#include <rocksdb/version.h>
#include <valgrind/callgrind.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "tests/bench/micro/scenario.h"

namespace idempotency::bench {
namespace {

constexpr char kUsage[] =
    R"(usage: valgrind --tool=callgrind --collect-atstart=no micro_count [NAME ...]
       micro_count --list | --toolchain | --help

Counts the instructions of these scenarios, or of all that have a baseline; guard.py compares.

  --list        the names
  --toolchain   what it was built with, one "NAME VALUE" a line
)";

struct Counted {
  const char* name;
  int runs;
};

constexpr Counted kCounted[] = {
    {"step/reserve_fresh", 4},         {"step/reserve_in_progress", 4},
    {"step/reserve_replay", 4},        {"step/complete", 4},
    {"codec/encode_key", 4},           {"codec/decode_key", 4},
    {"codec/encode_pending", 4},       {"codec/decode_pending", 4},
    {"codec/encode_complete", 4},      {"codec/decode_complete", 4},
    {"engine/commit_reserve/32", 32},  {"engine/commit_reserve/256", 16},
    {"engine/commit_complete/32", 32}, {"engine/commit_complete/256", 16},
    {"engine/read_absent/32", 32},     {"engine/read_memtable/32", 32},
    {"engine/read_table/32", 32},      {"shell_memory/life_cycle/32", 32},
    {"shell_memory/replay/32", 32},    {"shell_rocksdb/life_cycle/32", 32},
};

// What is made once (caches, arenas, lazily bound symbols) is made in these.
constexpr int kWarmUpRuns = 2;
// A power of two, and few: storing them is counted by nobody and takes its time.
constexpr uint64_t kStoredKeys = 2048;

void PrintToolchain() {
  std::printf("compiler %s\n", __VERSION__);
  std::printf("rocksdb %d.%d.%d\n", ROCKSDB_MAJOR, ROCKSDB_MINOR, ROCKSDB_PATCH);
#ifdef NDEBUG
  std::printf("build release\n");
#else
  std::printf("build debug\n");
#endif
}

void Count(const ScenarioEntry& entry, const Settings& settings, int runs) {
  const std::unique_ptr<Scenario> scenario = entry.make(settings);
  for (int i = 0; i < kWarmUpRuns; ++i) {
    scenario->Prepare();
    scenario->Run();
  }
  CALLGRIND_ZERO_STATS;
  for (int i = 0; i < runs; ++i) {
    scenario->Prepare();
    CALLGRIND_TOGGLE_COLLECT;
    scenario->Run();
    CALLGRIND_TOGGLE_COLLECT;
  }
  const size_t operations = scenario->operations() * static_cast<size_t>(runs);
  const std::string trigger = entry.name + " " + std::to_string(operations);
  CALLGRIND_DUMP_STATS_AT(trigger.c_str());
}

bool Wanted(const Counted& counted, int argc, char** argv) {
  return argc == 1 || std::any_of(argv + 1, argv + argc, [&counted](const char* name) {
           return std::strcmp(name, counted.name) == 0;
         });
}

int CountAll(int argc, char** argv) {
  if (RUNNING_ON_VALGRIND == 0) {
    std::fputs("micro_count: counts nothing without callgrind; see --help\n", stderr);
    return 2;
  }
  const Settings settings{.directory = std::filesystem::temp_directory_path().string(),
                          .keys = kStoredKeys};
  const ScenarioEntries entries = AllScenarios();
  for (const Counted& counted : kCounted) {
    if (!Wanted(counted, argc, argv)) continue;
    const auto entry =
        std::find_if(entries.begin(), entries.end(),
                     [&counted](const ScenarioEntry& each) { return each.name == counted.name; });
    Require(entry != entries.end(), std::string(counted.name) + " is no scenario");
    Count(*entry, settings, counted.runs);
  }
  return 0;
}

int Main(int argc, char** argv) {
  const std::string_view first = argc == 2 ? argv[1] : "";
  if (first == "--list") {
    for (const Counted& counted : kCounted) std::printf("%s\n", counted.name);
  } else if (first == "--toolchain") {
    PrintToolchain();
  } else if (first == "--help") {
    std::fputs(kUsage, stdout);
  } else if (first.rfind('-', 0) == 0) {
    std::fputs(kUsage, stderr);
    return 2;
  } else {
    return CountAll(argc, argv);
  }
  return 0;
}

}  // namespace
}  // namespace idempotency::bench

int main(int argc, char** argv) { return idempotency::bench::Main(argc, argv); }
