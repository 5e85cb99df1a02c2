#include "tests/proof/overload/process.h"

#include <filesystem>
#include <fstream>
#include <system_error>

namespace idempotency::proof {
namespace {

namespace fs = std::filesystem;

constexpr double kKibInMib = 1024;
constexpr double kBytesInMib = 1024 * 1024;

}  // namespace

Holdings HoldingsOf(pid_t pid) {
  Holdings holdings;
  const std::string process = "/proc/" + std::to_string(pid);
  std::ifstream status(process + "/status");
  for (std::string word; status >> word;) {
    double number = 0;
    if (word == "RssAnon:" && status >> number) holdings.memory_mib = number / kKibInMib;
    if (word == "Threads:" && status >> number) holdings.threads = static_cast<int>(number);
  }
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(process + "/fd", error)) {
    // It may have been closed meanwhile.
    const std::string target = fs::read_symlink(entry.path(), error).string();
    if (error) continue;
    ++(target.rfind('/', 0) == 0 ? holdings.files : holdings.connections);
  }
  return holdings;
}

double PeakOf(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; status >> word;) {
    double number = 0;
    if (word == "VmHWM:" && status >> number) return number / kKibInMib;
  }
  return 0;
}

void ForgetPeakOf(pid_t pid) {
  constexpr char kResetPeak[] = "5";
  std::ofstream("/proc/" + std::to_string(pid) + "/clear_refs") << kResetPeak;
}

double SizeOf(const std::string& directory) {
  double bytes = 0;
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(directory, error);
       !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    const auto size = fs::file_size(entry->path(), error);
    if (!error) bytes += static_cast<double>(size);
    // Files come and go.
    error.clear();
  }
  return bytes / kBytesInMib;
}

}  // namespace idempotency::proof
