// Accepts connections and hands them to gRPC, which serves them as if it had accepted them.
//
//   auto listener = Listener::Open("127.0.0.1:7420", limits, log);   // bound from here on
//   (*listener)->AddTo(&builder, credentials);                       // any server credentials
//   auto server = builder.BuildAndStart();
//   (*listener)->Start();                                            // accepts from here on
//   ...
//   (*listener)->Stop();                                             // before server->Shutdown()
//
// gRPC 1.51 stops accepting for ever once it has met the end of the descriptors, knows no bound
// for connections, and none for calls that are begun and cancelled. Here a connection beyond a
// limit is refused at once (its peer sees a reset), one that misbehaves is cut off
// (connection_watch.h, frame_guard.h) and its peer kept out for a while (peer_limits.h); where
// descriptors run out, accepting goes on as soon as there are some. Calls themselves never come
// through here.
//
// Of each connection a second descriptor is kept, which tells when it has ended, and with which
// it can be cut off. Connections are handed over on a thread of their own: gRPC begins to read on
// the thread that brings one, and stays for as long as more comes; whoever watches must not.
#ifndef IDEMPOTENCY_SERVICE_LISTENER_LISTENER_H_
#define IDEMPOTENCY_SERVICE_LISTENER_LISTENER_H_

#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "keystore/core/time.h"
#include "service/listener/call_counter.h"
#include "service/listener/connection_watch.h"
#include "service/listener/listen_sockets.h"
#include "service/listener/peer_address.h"
#include "service/listener/peer_limits.h"
#include "service/listener/read_guard.h"
#include "service/listener/unique_fd.h"
#include "service/log.h"
#include "service/worker.h"

namespace idempotency::service {

// How many connections fit under a limit of descriptors: each takes two, and what RocksDB, gRPC
// and the rest of the process need is left to them.
uint32_t ConnectionsWithin(uint64_t max_descriptors);

// Thread safety: Open, AddTo, Start and Stop belong to one thread; the rest may be called from any.
class Listener {
 public:
  struct Counts {
    uint64_t open = 0;
    uint64_t accepted = 0;
    uint64_t refused = 0;  // beyond a limit, or no descriptor was left
    uint64_t cut_off = 0;  // for what they did
  };

  // `address` as OpenListenSockets takes it. Connections are limited further by the descriptors
  // that the process may have. UNAVAILABLE where the address cannot be listened on. `log` must
  // outlive it.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(const std::string& address,
                                                        ConnectionLimits limits, Log* log);
  // Stops.
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Once, before the server is built.
  void AddTo(grpc::ServerBuilder* builder, std::shared_ptr<grpc::ServerCredentials> credentials);
  void Start();
  // Nothing is accepted any more, and a Unix socket's file is gone. What gRPC was given goes on.
  void Stop();

  // 0 for a Unix socket.
  int port() const { return sockets_.port; }
  // As they hold here.
  const ConnectionLimits& limits() const { return limits_; }
  Counts counts() const;

 private:
  struct Connection {
    UniqueFd descriptor;  // a duplicate of gRPC's
    PeerAddress address;
    ConnectionWatch watch;
    std::unique_ptr<ReadGuard> reads;
    // When the peer has said its last; unset: it has not.
    std::optional<core::Duration> half_closed;
    // Once is enough for what it did.
    bool blamed = false;
  };
  using Connections = std::map<uint64_t, Connection>;
  // Why something was refused or cut off: what the log calls it.
  enum Trouble : uint8_t {
    kNoDescriptor,
    kAll,
    kPeer,
    kKeptOut,
    kCancels,
    kCalls,
    kBytes,
    kDeafness,
    kHeaders,
    kTroubles
  };

  Listener(ListenSockets sockets, const ConnectionLimits& limits, Log* log);

  // All below belongs to the thread.
  void Run();
  // Accepts nothing any more.
  void CloseDoors();
  int WaitMs(core::Duration now) const;
  void Handle(uint64_t id, uint32_t events, core::Duration now);
  void AcceptSome(const UniqueFd& socket, core::Duration now);
  // Makes room for one connection, and closes it: false where even that cannot be done.
  bool TurnOneAway(const UniqueFd& socket);
  void Take(const UniqueFd& socket, UniqueFd connection, const sockaddr_storage& address,
            core::Duration now);
  void HandOver(const UniqueFd& socket, UniqueFd connection);
  void Refuse(UniqueFd connection, Trouble trouble, const std::string& peer);
  // Where the system has nothing left: a little later it may.
  void Pause(core::Duration now);
  void ListenTo(bool listening);
  void Look(core::Duration now);
  void LookAtSome(core::Duration now, int* counted);
  // False where too much was asked of gRPC already.
  bool LookAt(Connection* connection, core::Duration now, int* counted);
  void CutOff(Connection* connection, Trouble trouble, core::Duration now);
  // What was found in what it sent. True where that is fine.
  bool IsFine(Connection* connection, core::Duration now);
  void Note(Trouble trouble, const std::string& peer);
  void TrimSoon(core::Duration now);
  void GiveMemoryBack();
  // Tells what was noted: a flood must not fill the log.
  void Tell(core::Duration now);

  ListenSockets sockets_;
  const ConnectionLimits limits_;
  Log* const log_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  UniqueFd epoll_;
  UniqueFd wake_;
  std::thread thread_;
  std::unique_ptr<Worker> handing_over_;
  // First nothing is accepted any more, then nothing is watched.
  std::atomic<bool> closing_{false};
  absl::Notification closed_;
  std::atomic<bool> stopping_{false};

  // Given up for a moment where descriptors have run out.
  UniqueFd reserve_;
  PeerLimits peers_;
  CallCounter calls_;
  Connections connections_;
  uint64_t next_id_;
  uint64_t looked_at_id_ = 0;
  core::Duration next_look_{0};
  core::Duration next_tell_{0};
  core::Duration paused_until_{0};
  // When what a flood has taken is given back to the system.
  std::optional<core::Duration> trim_at_;
  core::Duration trimmed_at_{0};
  bool paused_ = false;
  std::array<uint64_t, kTroubles> noted_{};
  std::array<std::string, kTroubles> noted_peer_;

  std::atomic<uint64_t> open_{0};
  std::atomic<uint64_t> accepted_{0};
  std::atomic<uint64_t> refused_{0};
  std::atomic<uint64_t> cut_off_{0};
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_LISTENER_LISTENER_H_
