// What is started for a run: one store, and the servers of ours on it, each behind a proxy whose
// port stays.
//
//   Site site({.store = Store::kEtcd, .servers = 3, .seed = 1, .troubled = true});
//   std::string wrong = site.Start();
//   ... clients connect to site.ports() ...
//   wrong = site.Disturb(board);       // the next bad thing, and back again
//
// Thread safety: ports may be called from any thread, the rest from one.
#ifndef IDEMPOTENCY_TESTS_PROOF_NETWORK_SITE_H_
#define IDEMPOTENCY_TESTS_PROOF_NETWORK_SITE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/proof/crash/daemon.h"
#include "tests/proof/network/board.h"
#include "tests/proof/network/troubled_proxy.h"
#include "tests/proof/sim/random.h"
#include "tests/support/etcd_process.h"
#include "tests/support/postgres_process.h"
#include "tests/support/temp_directory.h"

namespace idempotency::proof::network {

enum class Store : uint8_t {
  kRocksDb,   // of the one server's own
  kEtcd,      // three members
  kPostgres,  // one
};

// What is to befall it, in turn.
enum class Blows : uint8_t { kAll, kKills, kNone };

struct SiteOptions {
  Store store = Store::kRocksDb;
  size_t servers = 1;
  // Of the servers.
  std::string program = Daemon::Program();
  std::vector<std::string> more_flags;
  uint64_t seed = 1;
  // Whether the proxies do anything to connections.
  bool troubled = false;
  Blows blows = Blows::kAll;
};

class Site {
 public:
  explicit Site(const SiteOptions& options);
  ~Site();

  // "" or what is wrong, as everywhere below.
  std::string Start();
  // Does the next bad thing, and has all of it again afterwards.
  std::string Disturb(Board& board);
  // SIGTERM to one server, which has to end well; and starts it again.
  std::string Drain(size_t which);
  // No further connection is troubled.
  void CalmDown(bool calm) { calm_ = calm; }

  bool shared() const { return options_.store != Store::kRocksDb; }
  // Behind which proxies trouble.
  std::vector<int> ports() const;
  // Of the servers themselves.
  std::vector<int> own_ports() const;
  // After how many more answers it is to be disturbed again.
  uint64_t DrawPeace();

  uint64_t connections() const;
  // What has befallen the servers, the store and the network, by name. Everything that there is has
  // its place, also where it has not happened.
  std::map<std::string, uint64_t> met() const;

 private:
  struct Door;

  std::vector<std::string> Flags();
  std::string StartServer(size_t which);
  std::string Kill(size_t which);
  std::string Pause(size_t which, Board& board);
  std::string HurtStore(Board& board);

  const SiteOptions options_;
  const TempDirectory directory_;
  std::optional<EtcdCluster> etcd_;
  std::optional<PostgresServer> postgres_;
  Random random_;
  std::atomic<bool> calm_{false};
  std::vector<std::unique_ptr<Door>> doors_;
  uint64_t blows_ = 0;
  std::map<std::string, uint64_t> met_;
};

}  // namespace idempotency::proof::network

#endif  // IDEMPOTENCY_TESTS_PROOF_NETWORK_SITE_H_
