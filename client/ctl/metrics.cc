#include "client/ctl/metrics.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace idempotency::ctl {
namespace {

constexpr size_t kMaxAnswerBytes = size_t{16} << 20;
constexpr size_t kReadBytes = size_t{64} << 10;

// Moves *rest behind the labels `{a="b",c="d"}`; escapes are undone.
bool TakeLabels(std::string_view* rest, std::map<std::string, std::string>* labels) {
  if (rest->empty() || rest->front() != '{') return true;
  rest->remove_prefix(1);
  while (!rest->empty() && rest->front() != '}') {
    const size_t equals = rest->find("=\"");
    if (equals == std::string_view::npos) return false;
    std::string& value = (*labels)[std::string(rest->substr(0, equals))];
    rest->remove_prefix(equals + 2);
    while (!rest->empty() && rest->front() != '"') {
      if (rest->front() == '\\' && rest->size() > 1) {
        rest->remove_prefix(1);
        value += rest->front() == 'n' ? '\n' : rest->front();
      } else {
        value += rest->front();
      }
      rest->remove_prefix(1);
    }
    if (rest->empty()) return false;
    rest->remove_prefix(1);
    if (!rest->empty() && rest->front() == ',') rest->remove_prefix(1);
  }
  if (rest->empty()) return false;
  rest->remove_prefix(1);
  return true;
}

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// "host:port" or "[v6]:port"; false for anything else.
bool SplitAddress(const std::string& address, std::string* host, std::string* port) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size()) return false;
  *host = address.substr(0, colon);
  *port = address.substr(colon + 1);
  if (host->front() == '[' && host->back() == ']') *host = host->substr(1, host->size() - 2);
  return true;
}

std::string ErrnoText() { return std::strerror(errno); }

// A connected socket whose reads and writes take at most `timeout`, or why there is none.
std::unique_ptr<Socket> Connect(const std::string& host, const std::string& port,
                                absl::Duration timeout, std::string* error) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int failed = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); failed != 0) {
    *error = gai_strerror(failed);
    return nullptr;
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, &freeaddrinfo);
  const timeval limit = absl::ToTimeval(timeout);
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
    auto socket = std::make_unique<Socket>(
        ::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol));
    if (socket->fd() < 0) continue;
    setsockopt(socket->fd(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(socket->fd(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(socket->fd(), at->ai_addr, at->ai_addrlen) == 0) return socket;
    *error = ErrnoText();
  }
  return nullptr;
}

// All that comes until the other side closes.
std::string ReadAll(int fd, std::string* error) {
  std::string text;
  for (;;) {
    const size_t before = text.size();
    text.resize(before + kReadBytes);
    const ssize_t got = read(fd, text.data() + before, kReadBytes);
    text.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return text;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) *error = ErrnoText();
    if (text.size() > kMaxAnswerBytes) *error = "the answer is larger than metrics are";
    if (!error->empty()) return {};
  }
}

}  // namespace

Metrics Metrics::Parse(std::string_view text) {
  Metrics metrics;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#') continue;
    const size_t name_end = std::min(line.find_first_of("{ "), line.size());
    const std::string name(line.substr(0, name_end));
    line.remove_prefix(name_end);
    Sample sample;
    if (!TakeLabels(&line, &sample.labels) || line.empty() || line.front() != ' ') continue;
    line.remove_prefix(1);
    // A time may follow.
    const std::string_view value = line.substr(0, line.find(' '));
    if (!absl::SimpleAtod(absl::string_view(value.data(), value.size()), &sample.value)) continue;
    metrics.samples_[name].push_back(std::move(sample));
  }
  return metrics;
}

const std::vector<Sample>& Metrics::Get(const std::string& name) const {
  static const std::vector<Sample> kNone;
  const auto found = samples_.find(name);
  return found == samples_.end() ? kNone : found->second;
}

double Metrics::Sum(const std::string& name) const {
  double sum = 0;
  for (const Sample& sample : Get(name)) sum += sample.value;
  return sum;
}

double Metrics::Sum(const std::string& name, const std::string& label,
                    const std::string& value) const {
  double sum = 0;
  for (const Sample& sample : Get(name)) {
    const auto found = sample.labels.find(label);
    if (found != sample.labels.end() && found->second == value) sum += sample.value;
  }
  return sum;
}

double Metrics::Max(const std::string& name) const {
  double most = 0;
  for (const Sample& sample : Get(name)) most = std::max(most, sample.value);
  return most;
}

HttpAnswer FetchMetrics(const std::string& address, absl::Duration timeout) {
  HttpAnswer answer;
  const auto fail = [&](const std::string& why) {
    answer.error = absl::StrCat("cannot read the metrics of ", address, ": ", why,
                                "; name what the server's --metrics_listen says");
    return answer;
  };
  std::string host;
  std::string port;
  if (!SplitAddress(address, &host, &port)) return fail("it is not HOST:PORT");
  std::string error;
  const std::unique_ptr<Socket> socket = Connect(host, port, timeout, &error);
  if (socket == nullptr) return fail(error);
  const std::string request =
      absl::StrCat("GET /metrics HTTP/1.0\r\nHost: ", address, "\r\nAccept: text/plain\r\n\r\n");
  if (send(socket->fd(), request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size())) {
    return fail(ErrnoText());
  }
  const std::string text = ReadAll(socket->fd(), &error);
  if (!error.empty()) return fail(error);
  const std::string status = text.substr(0, text.find("\r\n"));
  const size_t body = text.find("\r\n\r\n");
  if (body == std::string::npos || status.find(" 200") == std::string::npos) {
    return fail("the answer is " + (status.empty() ? "empty" : status));
  }
  answer.body = text.substr(body + 4);
  return answer;
}

}  // namespace idempotency::ctl
