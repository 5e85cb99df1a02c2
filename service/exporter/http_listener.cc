#include "service/exporter/http_listener.h"

#include <arpa/inet.h>
#include <civetweb.h>

#include <array>
#include <cstdint>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace idempotency::service {
namespace {

constexpr uint32_t kMaxPort = 65535;
// More than ask at once, so that a scraper that is slow to read does not keep out the kubelet.
constexpr char kThreads[] = "5";
constexpr char kRequestTimeoutMs[] = "10000";

constexpr char kTextFormat[] = "text/plain; version=0.0.4; charset=utf-8";
constexpr char kPlainText[] = "text/plain; charset=utf-8";

struct Page {
  int status = 200;
  const char* words = "OK";
  const char* type = kPlainText;
  std::string body;
};

Page Answer(std::string_view method, std::string_view path, const HttpListener::Pages& pages) {
  if (method != "GET" && method != "HEAD") {
    return {405, "Method Not Allowed", kPlainText, "use GET\n"};
  }
  if (path == "/metrics") return {200, "OK", kTextFormat, pages.metrics()};
  if (path == "/healthz") return {200, "OK", kPlainText, "alive\n"};
  if (path == "/readyz" && pages.ready()) return {200, "OK", kPlainText, "serving\n"};
  if (path == "/readyz") return {503, "Service Unavailable", kPlainText, "not serving\n"};
  return {404, "Not Found", kPlainText, "there are /metrics, /healthz and /readyz\n"};
}

// Called by civetweb for every request; the number says that it was answered.
int OnRequest(mg_connection* connection) {
  const mg_request_info* const request = mg_get_request_info(connection);
  const auto* const pages = static_cast<const HttpListener::Pages*>(request->user_data);
  const std::string_view method = request->request_method;
  const char* const path = request->local_uri;
  const Page page = Answer(method, path == nullptr ? "" : path, *pages);
  const std::string head = absl::StrCat(
      "HTTP/1.1 ", page.status, " ", page.words, "\r\nContent-Type: ", page.type,
      "\r\nContent-Length: ", page.body.size(), "\r\nCache-Control: no-store",
      page.status == 405 ? "\r\nAllow: GET, HEAD" : "", "\r\nConnection: close\r\n\r\n");
  mg_write(connection, head.data(), head.size());
  if (method != "HEAD") mg_write(connection, page.body.data(), page.body.size());
  return page.status;
}

// What civetweb complains of on its own is about single connections: nothing for the log.
int Discard(const mg_connection*, const char*) { return 1; }

bool IsAddress(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (!bracketed) return host == "localhost" || inet_pton(AF_INET, host.c_str(), &v4) == 1;
  return inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &v6) == 1;
}

bool IsPort(const std::string& text) {
  uint32_t port = 0;
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  return digits && absl::SimpleAtoi(text, &port) && port <= kMaxPort;
}

}  // namespace

absl::Status CheckMetricsAddress(std::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon != std::string_view::npos && IsAddress(std::string(address.substr(0, colon))) &&
      IsPort(std::string(address.substr(colon + 1)))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--metrics_listen=", std::string(address),
      " is not an address with a port; use such as 127.0.0.1:9464, or 0.0.0.0:9464 where "
      "Prometheus is on another machine."));
}

class HttpListener::Impl {
 public:
  explicit Impl(Pages pages) : pages_(std::move(pages)) {}
  ~Impl() {
    if (context_ != nullptr) mg_stop(context_);
  }

  // Civetweb knows addresses by their numbers.
  bool Listen(std::string address) {
    constexpr std::string_view kLocalhost = "localhost:";
    if (address.rfind(kLocalhost, 0) == 0) {
      address = absl::StrCat("127.0.0.1:", address.substr(kLocalhost.size()));
    }
    mg_callbacks callbacks{};
    callbacks.begin_request = &OnRequest;
    callbacks.log_message = &Discard;
    const std::array<const char*, 7> options = {
        "listening_ports",    address.c_str(),   "num_threads", kThreads,
        "request_timeout_ms", kRequestTimeoutMs, nullptr};
    context_ = mg_start(&callbacks, &pages_, const_cast<const char**>(options.data()));
    return context_ != nullptr;
  }

  int port() const {
    mg_server_port port{};
    return mg_get_server_ports(context_, 1, &port) == 1 ? port.port : 0;
  }

 private:
  Pages pages_;
  mg_context* context_ = nullptr;
};

HttpListener::HttpListener(std::unique_ptr<Impl> impl, int port)
    : impl_(std::move(impl)), port_(port) {}

HttpListener::~HttpListener() = default;

absl::StatusOr<std::unique_ptr<HttpListener>> HttpListener::Start(const std::string& address,
                                                                  Pages pages) {
  if (absl::Status status = CheckMetricsAddress(address); !status.ok()) return status;
  auto impl = std::make_unique<Impl>(std::move(pages));
  if (!impl->Listen(address)) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", address,
                     "; stop what listens there, or choose another --metrics_listen."));
  }
  const int port = impl->port();
  return std::unique_ptr<HttpListener>(new HttpListener(std::move(impl), port));
}

}  // namespace idempotency::service
