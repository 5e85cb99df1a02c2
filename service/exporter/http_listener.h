// A small HTTP server for those who watch the service: GET /metrics (Prometheus' text format),
// /healthz (200 while the process lives) and /readyz (200 while it serves, else 503).
//
// It is plain HTTP and asks nobody who they are: what it says holds no key, scope or body. It has
// threads of its own, so that it answers also where gRPC's and the store's do not.
#ifndef IDEMPOTENCY_SERVICE_EXPORTER_HTTP_LISTENER_H_
#define IDEMPOTENCY_SERVICE_EXPORTER_HTTP_LISTENER_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace idempotency::service {

// Whether --metrics_listen may be this: an IPv4 or IPv6 address, or localhost, with a port (0: any
// free one). INVALID_ARGUMENT, with what to do, where not.
absl::Status CheckMetricsAddress(std::string_view address);

class HttpListener {
 public:
  struct Pages {
    std::function<std::string()> metrics;
    std::function<bool()> ready;
  };

  // `address` as CheckMetricsAddress allows. UNAVAILABLE where it cannot be listened on. The pages
  // are asked on several threads, for as long as the listener is there.
  static absl::StatusOr<std::unique_ptr<HttpListener>> Start(const std::string& address,
                                                             Pages pages);
  // Returns when nothing is being answered any more.
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  int port() const { return port_; }

 private:
  class Impl;
  explicit HttpListener(std::unique_ptr<Impl> impl, int port);

  const std::unique_ptr<Impl> impl_;
  const int port_;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_EXPORTER_HTTP_LISTENER_H_
