#include "service/listener/listener.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "keystore/clock.h"
#include "service/listener/bytes_received.h"

namespace idempotency::service {
namespace {

// How often connections are looked at: often enough that a flood of cancelled calls (100,000 a
// second and more, and 8 KiB each, measured on two cores) is found before it has taken much memory.
constexpr core::Duration kLookInterval{5};
// After a look that found much to look at.
constexpr core::Duration kNextLook{2};
// At one look: of all connections some, in turn; of those that send much, fewer.
constexpr int kMaxLooks = 64;
constexpr int kMaxCounts = 4;
// Accepted at once, before ended connections are seen again.
constexpr int kMaxAccepts = 64;
constexpr int kMaxEvents = 256;
constexpr core::Duration kPause{100};
// gRPC ends a connection once it has read that its peer has; where connections come and go by the
// hundred it has been seen to read nothing more of some, until the keepalive.
constexpr core::Duration kMaxHalfClosed{10'000};
constexpr core::Duration kTellInterval{1'000};
// Until gRPC has cleared away the calls of a connection that was cut off.
constexpr core::Duration kTrimDelay{250};
// It takes a while, and holds up who is connecting.
constexpr core::Duration kTrimInterval{1'000};
// RocksDB's open tables (512) and its other files, gRPC's own descriptors, the log.
constexpr uint64_t kDescriptorsForTheRest = 768;

// epoll's name for what is ready; listening sockets follow, then connections.
constexpr uint64_t kWake = 0;
constexpr uint64_t kFirstSocket = 1;

core::Duration Now() { return keystore::ReadKernelTime().boot; }

bool Watch(const UniqueFd& epoll, int descriptor, uint32_t events, uint64_t id) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  return epoll_ctl(epoll.get(), EPOLL_CTL_ADD, descriptor, &event) == 0;
}

// Ends a connection without waiting for anything: what has come and was not read is dropped, and
// the peer sees a reset. Closing would not do, since gRPC has it open.
void Disconnect(int socket) {
  sockaddr nobody{};
  nobody.sa_family = AF_UNSPEC;
  if (connect(socket, &nobody, sizeof(nobody)) != 0) shutdown(socket, SHUT_RDWR);
}

ConnectionLimits Within(ConnectionLimits limits) {
  rlimit descriptors{};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0) {
    limits.max_connections =
        std::min(limits.max_connections, ConnectionsWithin(descriptors.rlim_cur));
  }
  return limits;
}

}  // namespace

uint32_t ConnectionsWithin(uint64_t max_descriptors) {
  const uint64_t rest = std::min(kDescriptorsForTheRest, max_descriptors / 2);
  return static_cast<uint32_t>(std::clamp<uint64_t>((max_descriptors - rest) / 2, 1, UINT32_MAX));
}

absl::StatusOr<std::unique_ptr<Listener>> Listener::Open(const std::string& address,
                                                         ConnectionLimits limits, Log* log) {
  absl::StatusOr<ListenSockets> sockets = OpenListenSockets(address);
  if (!sockets.ok()) return sockets.status();
  const ConnectionLimits within = Within(limits);
  if (within.max_connections < limits.max_connections) {
    log->Write(LogLevel::kInfo, "fewer_connections",
               {{"max_connections", within.max_connections},
                {"asked_for", limits.max_connections},
                {"next_step", "raise the limit of open files (ulimit -n, LimitNOFILE)"}});
  }
  AllowTlsMetadata(within.max_metadata_bytes);
  std::unique_ptr<Listener> listener(new Listener(std::move(*sockets), within, log));
  bool ready = listener->wake_.ok() && listener->reserve_.ok() &&
               Watch(listener->epoll_, listener->wake_.get(), EPOLLIN, kWake);
  uint64_t id = kFirstSocket;
  for (const UniqueFd& socket : listener->sockets_.sockets) {
    ready = Watch(listener->epoll_, socket.get(), EPOLLIN, id++) && ready;
  }
  if (!ready)
    return absl::UnavailableError("no descriptors are left to listen with; raise the limit.");
  return listener;
}

Listener::Listener(ListenSockets sockets, const ConnectionLimits& limits, Log* log)
    : sockets_(std::move(sockets)),
      limits_(limits),
      log_(log),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      reserve_(open("/dev/null", O_RDONLY | O_CLOEXEC)),
      peers_(limits),
      next_id_(kFirstSocket + sockets_.sockets.size()) {}

Listener::~Listener() { Stop(); }

void Listener::AddTo(grpc::ServerBuilder* builder,
                     std::shared_ptr<grpc::ServerCredentials> credentials) {
  acceptor_ = builder->experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      std::move(credentials));
}

void Listener::Start() {
  handing_over_ = std::make_unique<Worker>(limits_.max_connections);
  thread_ = std::thread([this] { Run(); });
}

void Listener::Stop() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    closing_ = true;
    (void)!write(wake_.get(), &one, sizeof(one));
    closed_.WaitForNotification();
    // While somebody is there to cut off who would hold it up.
    handing_over_.reset();
    stopping_ = true;
    thread_.join();
  }
  // Connections that wait to be accepted are reset.
  sockets_.sockets.clear();
  if (!sockets_.path.empty()) unlink(std::exchange(sockets_.path, {}).c_str());
  connections_.clear();
}

Listener::Counts Listener::counts() const {
  return Counts{open_.load(), accepted_.load(), refused_.load(), cut_off_.load()};
}

void Listener::Run() {
  std::array<epoll_event, kMaxEvents> events{};
  while (!stopping_) {
    const int ready = epoll_wait(epoll_.get(), events.data(), kMaxEvents, WaitMs(Now()));
    const core::Duration now = Now();
    for (size_t i = 0; i < static_cast<size_t>(std::max(ready, 0)); ++i) {
      Handle(events[i].data.u64, events[i].events, now);
    }
    if (closing_ && !closed_.HasBeenNotified()) CloseDoors();
    if (paused_ && now >= paused_until_) ListenTo(true);
    if (now >= next_look_) Look(now);
    if (now >= next_tell_) Tell(now);
    // Whoever gives back what was taken has gone once the doors are closed.
    if (trim_at_ && now >= *trim_at_ && !closed_.HasBeenNotified()) GiveMemoryBack();
  }
}

void Listener::CloseDoors() {
  ListenTo(false);
  paused_until_ = core::Duration::max();
  closed_.Notify();
}

int Listener::WaitMs(core::Duration now) const {
  if (closing_) return 1;
  core::Duration until = core::Duration::max();
  if (!connections_.empty()) until = next_look_;
  if (paused_) until = std::min(until, paused_until_);
  if (trim_at_) until = std::min(until, *trim_at_);
  const bool has_news = std::any_of(noted_.begin(), noted_.end(), [](uint64_t n) { return n > 0; });
  if (has_news) until = std::min(until, next_tell_);
  if (until == core::Duration::max()) return -1;
  return static_cast<int>(std::max<int64_t>((until - now).count(), 0));
}

void Listener::Handle(uint64_t id, uint32_t events, core::Duration now) {
  if (id == kWake) return;
  if (id < kFirstSocket + sockets_.sockets.size()) {
    if (closing_) return;
    return AcceptSome(sockets_.sockets[id - kFirstSocket], now);
  }
  const auto ended = connections_.find(id);
  if (ended == connections_.end()) return;
  const bool is_fine = IsFine(&ended->second, now);
  if ((events & (EPOLLHUP | EPOLLERR)) == 0) {
    if (is_fine) ended->second.half_closed = now;
    return;
  }
  // It has ended, on either side.
  if (const uint64_t over_tls = TakeTlsCutOffs(); over_tls > 0) {
    cut_off_ += over_tls;
    noted_[kHeaders] += over_tls;
    noted_peer_[kHeaders] = "one over TLS";
    TrimSoon(now);
  }
  peers_.Left(ended->second.address.peer);
  calls_.Forget(ended->second.address.connection);
  connections_.erase(ended);
  open_ = connections_.size();
}

void Listener::AcceptSome(const UniqueFd& socket, core::Duration now) {
  for (int i = 0; i < kMaxAccepts; ++i) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    UniqueFd connection(accept4(socket.get(), reinterpret_cast<sockaddr*>(&address), &size,
                                SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (connection.ok()) {
      Take(socket, std::move(connection), address, now);
      continue;
    }
    switch (errno) {
      case EAGAIN:
        return;
      case EINTR:
      case ECONNABORTED:
        continue;
      case EMFILE:
      case ENFILE:
        if (TurnOneAway(socket)) continue;
        return Pause(now);
      default:  // no memory, or a network that has gone
        return Pause(now);
    }
  }
}

bool Listener::TurnOneAway(const UniqueFd& socket) {
  if (!reserve_.ok()) return false;
  reserve_.reset();
  UniqueFd connection(accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const bool taken = connection.ok();
  if (taken) Refuse(std::move(connection), kNoDescriptor, {});
  reserve_.reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
  return taken;
}

void Listener::Take(const UniqueFd& socket, UniqueFd connection, const sockaddr_storage& address,
                    core::Duration now) {
  PeerAddress peer = PeerAddressOf(connection.get(), address);
  switch (peers_.Enter(peer.peer, now)) {
    case Admittance::kAdmitted:
      break;
    case Admittance::kTooMany:
      return Refuse(std::move(connection), kAll, peer.peer);
    case Admittance::kTooManyOfPeer:
      return Refuse(std::move(connection), kPeer, peer.peer);
    case Admittance::kKeptOut:
      return Refuse(std::move(connection), kKeptOut, peer.peer);
  }
  UniqueFd duplicate(fcntl(connection.get(), F_DUPFD_CLOEXEC, 0));
  // That it has ended is always told.
  if (!duplicate.ok() || !Watch(epoll_, duplicate.get(), EPOLLRDHUP | EPOLLET, next_id_)) {
    peers_.Left(peer.peer);
    return Refuse(std::move(connection), kNoDescriptor, peer.peer);
  }
  const Allowance::Size cancels = CancelsWithin(limits_);
  FrameLimits frames{.cancels = cancels, .metadata_bytes = limits_.max_metadata_bytes};
  // On Unix sockets it is not known how many calls were answered.
  if (peer.connection.empty()) frames.cancels = Allowance::Unbounded();
  connections_.emplace(next_id_++,
                       Connection{std::move(duplicate),
                                  std::move(peer),
                                  ConnectionWatch(cancels, MaxCallsFor(limits_.max_streams), now),
                                  std::make_unique<ReadGuard>(connection.get(), frames),
                                  {}});
  open_ = connections_.size();
  ++accepted_;
  HandOver(socket, std::move(connection));
}

void Listener::HandOver(const UniqueFd& socket, UniqueFd connection) {
  auto hand_over = [this, listener = socket.get(), accepted = std::move(connection)]() mutable {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters handed_over;
    handed_over.listener_fd = listener;
    handed_over.fd = accepted.release();
    acceptor_->HandleNewConnection(&handed_over);
  };
  if (handing_over_->Run(std::move(hand_over))) return;
  // So many wait that most of them have gone by now. Its end is told as any other's.
  Connection& last = connections_.rbegin()->second;
  ++refused_;
  Note(kAll, last.address.peer);
  Disconnect(last.descriptor.get());
}

void Listener::Refuse(UniqueFd connection, Trouble trouble, const std::string& peer) {
  // A reset, which leaves nothing behind here.
  const linger at_once{1, 0};
  (void)setsockopt(connection.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  ++refused_;
  Note(trouble, peer);
}

void Listener::Pause(core::Duration now) {
  ListenTo(false);
  paused_until_ = now + kPause;
}

void Listener::ListenTo(bool listening) {
  paused_ = !listening;
  if (!reserve_.ok()) reserve_.reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
  uint64_t id = kFirstSocket;
  for (const UniqueFd& socket : sockets_.sockets) {
    epoll_event event{};
    event.events = listening ? EPOLLIN : 0U;
    event.data.u64 = id++;
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket.get(), &event);
  }
}

void Listener::Look(core::Duration now) {
  next_look_ = now + kLookInterval;
  int counted = 0;
  LookAtSome(now, &counted);
  if (counted > 0) next_look_ = now + kNextLook;
}

void Listener::LookAtSome(core::Duration now, int* counted) {
  const size_t looks = std::min<size_t>(connections_.size(), kMaxLooks);
  auto next = connections_.upper_bound(looked_at_id_);
  for (size_t i = 0; i < looks; ++i, ++next) {
    if (next == connections_.end()) next = connections_.begin();
    // Its turn is the first one next time.
    if (!LookAt(&next->second, now, counted)) return;
    looked_at_id_ = next->first;
  }
}

bool Listener::LookAt(Connection* connection, core::Duration now, int* counted) {
  if (connection->half_closed && now - *connection->half_closed > kMaxHalfClosed) {
    connection->half_closed.reset();
    Disconnect(connection->descriptor.get());
    return true;
  }
  if (!IsFine(connection, now)) return true;
  // On Unix sockets gRPC has one name for all, and the kernel counts no bytes.
  if (connection->address.connection.empty()) return true;
  const std::optional<SocketBytes> bytes = CountBytes(connection->descriptor.get());
  if (!bytes || !connection->watch.IsWorthALook(bytes->received)) return true;
  if (*counted == kMaxCounts) return false;
  // Connections that gRPC has taken in since are found once a look, and only where it matters.
  std::optional<CallCounts> counts = calls_.Count(connection->address.connection);
  if (!counts && *counted == 0) {
    calls_.Refresh();
    counts = calls_.Count(connection->address.connection);
  }
  ++*counted;
  // While it shakes hands it has a timeout instead.
  if (!counts) return true;
  connection->reads->SetAnswered(counts->succeeded);
  switch (connection->watch.Look(*bytes, *counts, now)) {
    case Conduct::kFine:
      break;
    case Conduct::kCancelFlood:
      CutOff(connection, kCancels, now);
      break;
    case Conduct::kTooManyCalls:
      CutOff(connection, kCalls, now);
      break;
    case Conduct::kNeverEnding:
      CutOff(connection, kBytes, now);
      break;
    case Conduct::kDeaf:
      CutOff(connection, kDeafness, now);
      break;
  }
  return true;
}

void Listener::CutOff(Connection* connection, Trouble trouble, core::Duration now) {
  if (!std::exchange(connection->blamed, true)) {
    // Before the peer can see it.
    peers_.Misbehaved(connection->address.peer, now);
    ++cut_off_;
    Note(trouble, connection->address.peer);
    TrimSoon(now);
  }
  Disconnect(connection->descriptor.get());
}

void Listener::TrimSoon(core::Duration now) {
  if (!trim_at_) trim_at_ = std::max(now + kTrimDelay, trimmed_at_ + kTrimInterval);
}

// malloc keeps for itself what was freed, for each processor, and the next flood may be served on
// another one.
void Listener::GiveMemoryBack() {
  trimmed_at_ = *trim_at_;
  trim_at_.reset();
  (void)handing_over_->Run([] { malloc_trim(0); });
}

bool Listener::IsFine(Connection* connection, core::Duration now) {
  switch (connection->reads->verdict()) {
    case FrameVerdict::kFine:
      return true;
    case FrameVerdict::kHeaders:
      CutOff(connection, kHeaders, now);
      return false;
    case FrameVerdict::kCancels:
      CutOff(connection, kCancels, now);
      return false;
  }
  return true;
}

void Listener::Note(Trouble trouble, const std::string& peer) {
  ++noted_[trouble];
  noted_peer_[trouble] = peer;
}

void Listener::Tell(core::Duration now) {
  struct Row {
    std::string_view event;
    std::string_view why;
  };
  static constexpr std::array<Row, kTroubles> kRows = {{
      {"connections_refused", "no descriptor is left"},
      {"connections_refused", "--max_connections is reached"},
      {"connections_refused", "--max_connections_per_peer is reached"},
      {"connections_refused", "the peer is kept out for what it did"},
      {"connection_cut_off", "more calls cancelled than --max_cancelled_calls"},
      {"connection_cut_off", "more calls at once than it was told there may be"},
      {"connection_cut_off", "bytes that never become a call or a message"},
      {"connection_cut_off", "takes nothing of what answers it, and goes on sending"},
      {"connection_cut_off", "headers of more fields, or of more bytes, than a call has"},
  }};
  next_tell_ = now + kTellInterval;
  for (size_t i = 0; i < kTroubles; ++i) {
    const uint64_t count = std::exchange(noted_[i], 0);
    if (count == 0) continue;
    log_->Write(LogLevel::kWarning, kRows[i].event,
                {{"why", kRows[i].why}, {"count", count}, {"peer", noted_peer_[i]}});
  }
}

}  // namespace idempotency::service
