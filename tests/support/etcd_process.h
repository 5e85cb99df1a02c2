// etcd as child processes on loopback, each with a directory of its own: one member, or a cluster.
//
//   EtcdCluster etcd(1);
//   ... etcd.endpoints() ...
//   etcd.member(0).Kill();    // kill -9; Start() brings it back on the same files
//
// A member ends with the test. Thread safety: none, but for the getters.
#ifndef IDEMPOTENCY_TESTS_SUPPORT_ETCD_PROCESS_H_
#define IDEMPOTENCY_TESTS_SUPPORT_ETCD_PROCESS_H_

#include <signal.h>
#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/temp_directory.h"

namespace idempotency {

class EtcdMember {
 public:
  // `arguments`: what etcd is told besides its directory.
  EtcdMember(std::string endpoint, std::vector<std::string> arguments);
  ~EtcdMember();
  EtcdMember(const EtcdMember&) = delete;
  EtcdMember& operator=(const EtcdMember&) = delete;

  void Start();
  void Kill();
  // SIGSTOP and SIGCONT: it is there, and answers nothing.
  void Freeze() { Signal(SIGSTOP); }
  void Thaw() { Signal(SIGCONT); }
  bool running() const { return pid_ > 0; }

  const std::string& endpoint() const { return endpoint_; }
  // Of its files, to be copied or replaced while it is not running.
  std::string data_dir() const { return files_.file("data"); }
  std::string Log() const;

 private:
  void Signal(int number);

  const std::string endpoint_;
  const std::vector<std::string> arguments_;
  const TempDirectory files_;
  pid_t pid_ = -1;
};

class EtcdCluster {
 public:
  // Started; returns when every member accepts connections, which is a little before the cluster
  // answers. More arguments go to every member; with --cert-file clients have to speak TLS.
  explicit EtcdCluster(size_t members, const std::vector<std::string>& more = {});

  EtcdMember& member(size_t i) { return *members_[i]; }
  size_t size() const { return members_.size(); }
  std::vector<std::string> endpoints() const;
  // As --etcd_endpoints takes them.
  std::string endpoints_flag() const;

 private:
  std::vector<std::unique_ptr<EtcdMember>> members_;
};

// Asks a member of etcd's own gateway for JSON, without TLS; whether it said 200.
bool EtcdPost(const std::string& endpoint, const std::string& path, const std::string& json);

// Waits a little: for a process that does not tell when it is ready.
void WaitABit(int milliseconds);

}  // namespace idempotency

#endif  // IDEMPOTENCY_TESTS_SUPPORT_ETCD_PROCESS_H_
