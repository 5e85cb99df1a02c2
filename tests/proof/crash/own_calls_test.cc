#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

#include "gtest/gtest.h"

namespace idempotency::proof {
namespace {

constexpr int kChildren = 500;
// A child that hangs is ended after this.
constexpr unsigned kPatienceSeconds = 30;

// As the harnesses start servers and stores, while their proxies close connections.
int StatusOfAChildThatOpensAFile() {
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(kPatienceSeconds);
    _exit(open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0 ? 0 : 1);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  return status;
}

TEST(OwnCalls, AChildThatIsMadeWhileOthersCloseFilesDoesNotHang) {
  std::atomic<bool> stop{false};
  std::array<std::thread, 3> busy;
  for (std::thread& one : busy) {
    one = std::thread([&stop] {
      while (!stop) close(open("/dev/null", O_RDONLY | O_CLOEXEC));
    });
  }
  int status = 0;
  for (int i = 0; i < kChildren && status == 0; ++i) status = StatusOfAChildThatOpensAFile();
  stop = true;
  for (std::thread& one : busy) one.join();
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace idempotency::proof
