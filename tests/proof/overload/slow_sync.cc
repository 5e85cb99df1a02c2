// Loaded in front of a server (LD_PRELOAD): each fdatasync takes SLOW_SYNC_MS longer, as on a disk
// that is too slow for what is asked of it. RocksDB syncs its log so.
#include <dlfcn.h>
#include <poll.h>
#include <unistd.h>

#include <cstdlib>

namespace {

using Sync = int (*)(int);

int Milliseconds() {
  const char* const text = std::getenv("SLOW_SYNC_MS");
  return text == nullptr ? 0 : std::atoi(text);
}

}  // namespace

extern "C" int fdatasync(int fd) {
  static const auto kReal = reinterpret_cast<Sync>(dlsym(RTLD_NEXT, "fdatasync"));
  static const int kDelay = Milliseconds();
  poll(nullptr, 0, kDelay);
  return kReal(fd);
}
