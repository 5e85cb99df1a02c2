// A listener with a gRPC server behind it, and those who connect to it.
#ifndef IDEMPOTENCY_TESTS_SERVICE_LISTENER_LISTENER_SERVER_H_
#define IDEMPOTENCY_TESTS_SERVICE_LISTENER_LISTENER_SERVER_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "service/listener/listener.h"
#include "service/listener/transport_limits.h"

namespace idempotency::service {

// Answers every call with OK and the caller's name for itself: at once, or when its message has
// come.
class EchoPeer final : public grpc::CallbackGenericService {
 public:
  explicit EchoPeer(bool reads) : reads_(reads) {}

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    ++begun_;
    class Reactor final : public grpc::ServerGenericBidiReactor {
     public:
      Reactor(grpc::GenericCallbackServerContext* context, bool reads) {
        const std::string peer = context->peer();
        const grpc::Slice slice(peer);
        answer_ = grpc::ByteBuffer(&slice, 1);
        if (reads) {
          StartRead(&request_);
        } else {
          Answer();
        }
      }
      void OnReadDone(bool) override { Answer(); }
      void OnDone() override { delete this; }

     private:
      void Answer() { StartWriteAndFinish(&answer_, grpc::WriteOptions(), grpc::Status::OK); }

      grpc::ByteBuffer request_;
      grpc::ByteBuffer answer_;
    };
    return new Reactor(context, reads_);
  }

  uint64_t begun() const { return begun_; }

 private:
  const bool reads_;
  std::atomic<uint64_t> begun_{0};
};

class ListenerServer {
 public:
  explicit ListenerServer(const std::string& address = "127.0.0.1:0", ConnectionLimits limits = {},
                          TransportLimits transport = {}, bool reads = false)
      : log_({LogLevel::kError}), service_(reads) {
    auto listener = Listener::Open(address, limits, &log_);
    EXPECT_TRUE(listener.ok()) << listener.status();
    listener_ = std::move(*listener);
    grpc::ServerBuilder builder;
    SetTransportLimits(transport, &builder);
    builder.RegisterCallbackGenericService(&service_);
    listener_->AddTo(&builder, grpc::InsecureServerCredentials());
    server_ = builder.BuildAndStart();
    listener_->Start();
  }
  ~ListenerServer() {
    listener_->Stop();
    server_->Shutdown(std::chrono::system_clock::time_point());
  }

  Listener* listener() { return listener_.get(); }
  int port() const { return listener_->port(); }
  // Calls that have come to the service.
  uint64_t begun() const { return service_.begun(); }

 private:
  Log log_;
  EchoPeer service_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<grpc::Server> server_;
};

inline std::shared_ptr<grpc::Channel> Connect(const std::string& target) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
}

// What the server calls the peer, or "error: ".
inline std::string Call(const std::shared_ptr<grpc::Channel>& channel,
                        const std::string& metadata = {}, const std::string& body = "x") {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  if (!metadata.empty()) context.AddMetadata("some", metadata);
  grpc::CompletionQueue queue;
  const grpc::Slice slice(body);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  grpc::Status status;
  const auto call = stub.PrepareUnaryCall(&context, "/any/method", request, &queue);
  call->StartCall();
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (!status.ok()) return "error: " + status.error_message();
  grpc::Slice answer;
  EXPECT_TRUE(response.DumpToSingleSlice(&answer).ok());
  return std::string(reinterpret_cast<const char*>(answer.begin()), answer.size());
}

inline std::string Target(int port) { return "127.0.0.1:" + std::to_string(port); }

// A connection from 127.0.0.`host`, which says nothing.
inline UniqueFd RawConnection(int port, int host) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl((127U << 24) | static_cast<uint32_t>(host));
  EXPECT_EQ(bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  EXPECT_EQ(connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return socket;
}

inline void AwaitTrue(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::yield();
}

// Waits for the other side to end the connection.
inline bool IsEnded(const UniqueFd& socket) {
  pollfd ready{.fd = socket.get(), .events = POLLIN};
  if (poll(&ready, 1, 60'000) != 1) return false;
  char bytes[256];
  ssize_t size = 0;
  while ((size = recv(socket.get(), bytes, sizeof(bytes), 0)) > 0) {
  }
  return true;
}

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_TESTS_SERVICE_LISTENER_LISTENER_SERVER_H_
