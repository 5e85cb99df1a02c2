#include "tests/proof/crash/program.h"

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "keystore/clock.h"

namespace idempotency::proof {
namespace {

// Broken things are alike: the first few tell.
constexpr uint64_t kMaxComplaints = 20;

uint64_t Number(const std::string& text) { return std::strtoull(text.c_str(), nullptr, 10); }

double Seconds() { return static_cast<double>(keystore::ReadKernelTime().boot.count()) / 1000.0; }

bool Take(const std::string& argument, Settings& settings) {
  const size_t equals = argument.find('=');
  const std::string name = argument.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
  if (name == "--seed") {
    settings.seed = Number(value);
  } else if (name == "--floor") {
    settings.floor = Number(value);
  } else if (name == "--seconds") {
    settings.seconds = Number(value);
  } else {
    return false;
  }
  return true;
}

}  // namespace

Settings ReadSettings(int argc, char** argv, const char* usage, const Settings& defaults) {
  Settings settings = defaults;
  settings.others.clear();
  if (const char* seconds = std::getenv("PROOF_SECONDS")) settings.seconds = Number(seconds);
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    const std::string name =
        argument.substr(0, equals).substr(argument.rfind("--", 0) == 0 ? 2 : 0);
    if (argument == "--help" || argument == "-h") {
      std::printf("%s", usage);
      std::exit(0);
    }
    if (defaults.has(name)) {
      settings.others[name] = equals == std::string::npos ? "" : argument.substr(equals + 1);
    } else if (!Take(argument, settings)) {
      std::fprintf(stderr, "%s", usage);
      std::exit(2);
    }
  }
  std::printf("seed %" PRIu64 "\n", settings.seed);
  std::fflush(stdout);
  return settings;
}

uint64_t JobsOf(const Settings& settings, uint64_t otherwise) {
  const auto jobs = settings.others.find("jobs");
  return jobs == settings.others.end() ? otherwise : std::max<uint64_t>(Number(jobs->second), 1);
}

uint64_t Processors() { return std::max(1u, std::thread::hardware_concurrency()); }

void InTurns(uint64_t jobs, const std::function<bool(uint64_t)>& work) {
  std::atomic<uint64_t> next{0};
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < jobs; ++i) {
    threads.emplace_back([&] {
      while (work(next++)) {
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void PreferMemory() {
  constexpr char kMemory[] = "/dev/shm";
  std::error_code error;
  if (std::getenv("TMPDIR") == nullptr && std::filesystem::is_directory(kMemory, error)) {
    setenv("TMPDIR", kMemory, 0);
  }
}

Tally::Tally(const Settings& settings) : settings_(settings), begin_(Seconds()) {}

bool Tally::GoesOn() const {
  absl::MutexLock lock(&mutex_);
  if (failed_ >= kMaxComplaints) return false;
  if (settings_.seconds == 0) return passed_ + failed_ < settings_.floor;
  return Seconds() - begin_ < static_cast<double>(settings_.seconds);
}

void Tally::Passed(uint64_t count) {
  absl::MutexLock lock(&mutex_);
  passed_ += count;
}

void Tally::Failed(const std::string& what) {
  absl::MutexLock lock(&mutex_);
  ++failed_;
  std::printf("FAILED: %s\n", what.c_str());
  std::fflush(stdout);
}

uint64_t Tally::tried() const {
  absl::MutexLock lock(&mutex_);
  return passed_ + failed_;
}

int Tally::Summary(const char* what) {
  absl::MutexLock lock(&mutex_);
  const uint64_t tried = passed_ + failed_;
  std::printf("%" PRIu64 " %s in %.0f s\n", tried, what, Seconds() - begin_);
  if (tried < settings_.floor) {
    ++failed_;
    std::printf("FAILED: fewer than %" PRIu64 " %s\n", settings_.floor, what);
  }
  std::printf("%" PRIu64 " passed, %" PRIu64 " failed\n", passed_, failed_);
  return failed_ == 0 && passed_ > 0 ? 0 : 1;
}

}  // namespace idempotency::proof
