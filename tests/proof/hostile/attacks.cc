#include "tests/proof/hostile/attacks.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/create_channel_posix.h"
#include "grpcpp/grpcpp.h"
#include "tests/bench/clock.h"
#include "tests/proof/hostile/bystanders.h"
#include "tests/proof/hostile/http2.h"

namespace idempotency::proof {
namespace {

using bench::MonotonicNanos;

constexpr uint64_t kMostFrames = 2'000'000;
constexpr uint64_t kMostConnections = 20'000;
constexpr int64_t kBreath = 2 * bench::kNanosPerMilli;

bool GoesOn(const Scene& scene) { return MonotonicNanos() < scene.until; }
void Breathe() { bench::SleepUntil(MonotonicNanos() + kBreath); }

// What an attacker computes is not the server's fault: it gets what the others leave. Threads
// that are made from here on are as modest.
void BeModest() { setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), 19); }

// One peer that begins with `preface` and then sends what `next` makes, again and again; it comes
// back when it is thrown out.
template <typename Next>
uint64_t Pour(const Scene& scene, const std::string& preface, bool reads, Next next) {
  BeModest();
  uint64_t sent = 0;
  uint64_t connections = 0;
  while (GoesOn(scene) && sent < kMostFrames && connections < kMostConnections) {
    RawPeer peer(scene.port, scene.first_host);
    ++connections;
    uint32_t stream = 1;
    bool goes = peer.Send(preface, scene.until);
    while (goes && GoesOn(scene) && sent < kMostFrames) {
      std::string bytes;
      for (int i = 0; i < 500; ++i, stream += 2, ++sent) bytes += next(stream);
      goes = peer.Send(bytes, scene.until);
      if (reads) peer.Drain();
    }
    if (!goes) Breathe();
  }
  return sent;
}

// --- Connections ---------------------------------------------------------------------------------

uint64_t OpenAll(const Scene& scene, int hosts, const std::string& words) {
  BeModest();
  std::deque<RawPeer> peers;
  uint64_t opened = 0;
  while (GoesOn(scene) && opened < kMostConnections) {
    for (int i = 0; i < 32; ++i, ++opened) {
      RawPeer peer(scene.port, scene.first_host + static_cast<int>(opened) % hosts);
      if (peer.open()) peer.Dribble(words);
      if (peer.open()) peers.push_back(std::move(peer));
    }
    // More than twice as many as there can be: the oldest go.
    while (peers.size() > static_cast<size_t>(2 * scene.connections)) peers.pop_front();
    Breathe();
  }
  return opened;
}

uint64_t DescriptorFlood(const Scene& scene) { return OpenAll(scene, 16, Preface()); }
uint64_t OneAddressFlood(const Scene& scene) { return OpenAll(scene, 1, Preface()); }
uint64_t Idle(const Scene& scene) { return OpenAll(scene, 1, ""); }
uint64_t HalfHandshakes(const Scene& scene) { return OpenAll(scene, 1, Preface().substr(0, 11)); }

// Everything slowly: a byte at a time, on many connections.
uint64_t Dribble(const Scene& scene, const std::string& preface, const std::string& words) {
  BeModest();
  std::vector<RawPeer> peers;
  uint64_t sent = 0;
  for (size_t at = 0; GoesOn(scene); at = (at + 1) % words.size()) {
    while (peers.size() < 48) {
      peers.emplace_back(scene.port, scene.first_host);
      if (!peers.back().open() || !peers.back().Dribble(preface)) break;
    }
    for (RawPeer& peer : peers) sent += peer.Dribble(std::string_view(words).substr(at, 1)) ? 1 : 0;
    Breathe();
  }
  return sent;
}

uint64_t SlowPreface(const Scene& scene) { return Dribble(scene, "", Preface()); }
uint64_t SlowHeaders(const Scene& scene) {
  return Dribble(scene, Preface(),
                 Frame(kHeaders, kEndHeaders, 1, Header("x", std::string(16'000, 'x'))));
}

uint64_t HalfClosed(const Scene& scene) {
  BeModest();
  std::deque<RawPeer> peers;
  uint64_t opened = 0;
  const std::string words =
      Preface() + Call(1, "Reserve", ReserveOf("half-closed", "1").SerializeAsString());
  while (GoesOn(scene) && opened < kMostConnections) {
    RawPeer peer(scene.port, scene.first_host);
    ++opened;
    peer.Dribble(words);
    peer.CloseHalf();
    if (peer.open()) peers.push_back(std::move(peer));
    if (peers.size() > 48) peers.pop_front();
    if (opened % 16 == 0) Breathe();
  }
  return opened;
}

// --- Frames --------------------------------------------------------------------------------------

uint64_t RapidReset(const Scene& scene) {
  const std::string headers = CallHeaders("Reserve");
  return Pour(scene, Preface(), true, [&](uint32_t stream) {
    return Frame(kHeaders, kEndHeaders | kEndStream, stream, headers) + Cancel(stream);
  });
}

// As if each had been answered, so that their frames are not counted.
uint64_t RapidResetWithoutAnError(const Scene& scene) {
  const std::string headers = CallHeaders("Reserve");
  return Pour(scene, Preface(), true, [&](uint32_t stream) {
    return Frame(kHeaders, kEndHeaders | kEndStream, stream, headers) +
           Frame(kRstStream, 0, stream, std::string(4, '\0'));
  });
}

uint64_t RapidResetOfCalls(const Scene& scene) {
  return Pour(scene, Preface(), true,
              [&](uint32_t stream) { return Call(stream, "Reserve", "") + Cancel(stream); });
}

uint64_t ResetOfUnknownMethods(const Scene& scene) {
  return Pour(scene, Preface(), true,
              [&](uint32_t stream) { return Call(stream, "Nothing", "") + Cancel(stream); });
}

uint64_t SettingsFlood(const Scene& scene) {
  return Pour(scene, Preface(), false, [](uint32_t) { return Frame(kSettings, 0, 0, ""); });
}

uint64_t PingFlood(const Scene& scene) {
  return Pour(scene, Preface(), false, [](uint32_t) { return Frame(kPing, 0, 0, "12345678"); });
}

uint64_t OversizedHeaders(const Scene& scene) {
  const std::string headers = CallHeaders("Reserve") + Header("x", std::string(15'000, 'x'));
  return Pour(scene, Preface(), true, [&](uint32_t stream) {
    return Frame(kHeaders, kEndHeaders | kEndStream, stream, headers);
  });
}

// Fields of the static table, a byte each, which gRPC makes some 350 bytes of.
std::string TableFields(size_t count) { return std::string(count, '\x8f'); }
constexpr size_t kFieldsOfFrame = 220;

// Calls of far more fields than any has, and no longer than others.
uint64_t ManyFields(const Scene& scene) {
  const std::string headers = CallHeaders("Reserve") + TableFields(kFieldsOfFrame);
  return Pour(scene, Preface(), true, [&](uint32_t stream) {
    return Frame(kHeaders, kEndHeaders | kEndStream, stream, headers);
  });
}

// A header block without an end, of such fields, beside calls that might be sending messages.
uint64_t HeaderBomb(const Scene& scene, uint32_t calls) {
  const std::string headers = CallHeaders("Reserve");
  std::string begin = Preface();
  uint32_t last = 1;
  for (uint32_t i = 0; i < calls; ++i, last += 2) {
    begin += Frame(kHeaders, kEndHeaders, last, headers);
  }
  begin += Frame(kHeaders, 0, last, headers);
  const std::string more = Frame(kContinuation, 0, last, TableFields(kFieldsOfFrame));
  return Pour(scene, begin, true, [&](uint32_t) { return more; });
}

uint64_t HeaderBombAlone(const Scene& scene) { return HeaderBomb(scene, 0); }
uint64_t HeaderBombBesideCalls(const Scene& scene) { return HeaderBomb(scene, 500); }

// A header block without an end.
uint64_t Continuations(const Scene& scene) {
  const std::string more = Frame(kContinuation, 0, 1, Header("x", std::string(64, 'x')));
  return Pour(scene, Preface() + Frame(kHeaders, kEndStream, 1, CallHeaders("Reserve")), true,
              [&](uint32_t) { return more; });
}

// One header that says it is a gigabyte long.
uint64_t HugeHeader(const Scene& scene) {
  const std::string begin("\0\x01x\x7f\x81\xff\xff\xff\x03", 9);
  const std::string more = Frame(kContinuation, 0, 1, std::string(16'000, 'x'));
  return Pour(scene, Preface() + Frame(kHeaders, kEndStream, 1, CallHeaders("Reserve") + begin),
              true, [&](uint32_t) { return more; });
}

// As many streams as may be, and none ever says what it wants.
uint64_t Streams(const Scene& scene) {
  const std::string headers = CallHeaders("Reserve");
  return Pour(scene, Preface(), true,
              [&](uint32_t stream) { return Frame(kHeaders, kEndHeaders, stream, headers); });
}

// Asks for large answers and takes none of them. What all of these may hold together is 256 MiB
// (service/front/held_answers.h); here it is to be told from memory that is lost.
constexpr uint64_t kMostLargeAnswers = 32;

uint64_t SlowReaders(const Scene& scene) {
  BeModest();
  const std::string request = ReserveOf(kLargeKey, "2").SerializeAsString();
  std::vector<RawPeer> peers;
  uint64_t asked = 0;
  uint32_t stream = 1;
  while (GoesOn(scene)) {
    while (peers.size() < 8) {
      peers.emplace_back(scene.port, scene.first_host);
      if (!peers.back().Send(Preface(), scene.until)) break;
    }
    for (RawPeer& peer : peers) {
      if (asked < kMostLargeAnswers && peer.Dribble(Call(stream, "Reserve", request))) ++asked;
    }
    stream += 2;
    Breathe();
  }
  return asked;
}

// --- By a client of gRPC's -----------------------------------------------------------------------

// A call that waits, and is cancelled as soon as it has begun.
struct CancelledCall {
  grpc::ClientContext context;
  v1::ReserveRequest request;
  v1::ReserveResponse response;
};

// Calls that have ended. They hold their channel, which must not go on a thread of gRPC's: that
// would join itself, and free what it has freed (gRPC 1.51).
struct Ended {
  absl::Mutex mutex;
  std::vector<std::unique_ptr<CancelledCall>> calls ABSL_GUARDED_BY(mutex);
  std::atomic<bool> cut_off{false};

  size_t Clear() {
    std::vector<std::unique_ptr<CancelledCall>> gone;
    absl::MutexLock lock(&mutex);
    std::swap(gone, calls);
    return gone.size();
  }
};

// On one connection, until the server ends it.
uint64_t CancelOn(const Scene& scene, v1::IdempotencyService::Stub* stub, uint64_t number) {
  const auto ended = std::make_shared<Ended>();
  uint64_t begun = 0;
  uint64_t cleared = 0;
  for (; GoesOn(scene) && !ended->cut_off && begun < kMostFrames; ++begun) {
    CancelledCall* const call = new CancelledCall;
    call->request = ReserveOf("cancelled", std::to_string(number + begun));
    call->request.mutable_wait_duration()->set_seconds(60);
    stub->async()->Reserve(&call->context, &call->request, &call->response,
                           [call, ended](const grpc::Status& status) {
                             if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
                               ended->cut_off = true;
                             }
                             absl::MutexLock lock(&ended->mutex);
                             ended->calls.emplace_back(call);
                           });
    // It is there until it is cleared, here.
    call->context.TryCancel();
    cleared += ended->Clear();
    if (begun - cleared > 1'000) Breathe();
  }
  while (cleared < begun) {
    Breathe();
    cleared += ended->Clear();
  }
  return begun;
}

uint64_t CancelFlood(const Scene& scene) {
  BeModest();
  uint64_t begun = 0;
  for (uint64_t i = 0; GoesOn(scene) && i < kMostConnections; ++i) {
    RawPeer peer(scene.port, scene.first_host);
    if (peer.open()) {
      const auto stub = v1::IdempotencyService::NewStub(
          grpc::CreateInsecureChannelFromFd("127.0.0.1", peer.Release()));
      begun += CancelOn(scene, stub.get(), begun);
    }
    Breathe();
  }
  return begun;
}

}  // namespace

const std::vector<Attack>& Attacks() {
  static const std::vector<Attack> kAttacks = {
      {"descriptors", "twice as many connections as there are descriptors for, of 16 addresses",
       &DescriptorFlood, true},
      {"one_address", "the same, of one address", &OneAddressFlood},
      {"idle", "connections that never speak", &Idle},
      {"half_handshakes", "connections that stop in the middle of the preface", &HalfHandshakes},
      {"slow_preface", "48 connections that send a preface byte by byte", &SlowPreface},
      {"slow_headers", "48 connections that send headers byte by byte", &SlowHeaders},
      {"half_closed", "calls on connections that are closed for sending at once", &HalfClosed},
      {"rapid_reset", "headers and their cancellation", &RapidReset},
      {"rapid_reset_no_error", "headers and a reset that is none", &RapidResetWithoutAnError},
      {"rapid_reset_calls", "calls and their cancellation", &RapidResetOfCalls},
      {"rapid_reset_unknown", "calls of no method, and their cancellation", &ResetOfUnknownMethods},
      {"settings", "settings, without reading what answers them", &SettingsFlood},
      {"pings", "pings, without reading what answers them", &PingFlood},
      {"oversized_headers", "headers of twice the size that is allowed", &OversizedHeaders},
      {"many_fields", "calls of 220 fields", &ManyFields},
      {"header_bomb", "a header block of fields of the table that never ends", &HeaderBombAlone},
      {"header_bomb_calls", "the same, beside 500 calls", &HeaderBombBesideCalls},
      {"continuations", "a header block that never ends", &Continuations},
      {"huge_header", "a header of a gigabyte", &HugeHeader},
      {"streams", "calls that never say what they want", &Streams},
      {"slow_readers", "large answers that nobody takes", &SlowReaders},
      {"cancels", "calls of a client of gRPC's that are cancelled at once", &CancelFlood},
  };
  return kAttacks;
}

}  // namespace idempotency::proof
