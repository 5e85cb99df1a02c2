// HTTP requests to a server on this machine, by hand, so that a test sees what was answered.
#ifndef IDEMPOTENCY_TESTS_SUPPORT_HTTP_H_
#define IDEMPOTENCY_TESTS_SUPPORT_HTTP_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace idempotency::testing {

struct HttpAnswer {
  int status = 0;  // 0: none came
  std::string head;
  std::string body;
};

// Of 127.0.0.1; returns when the server has closed the connection.
inline HttpAnswer HttpRequest(int port, const std::string& method, const std::string& path) {
  HttpAnswer answer;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const std::string request = method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  std::string all;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
      send(fd, request.data(), request.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(request.size())) {
    char bytes[4096];
    for (ssize_t got = 0; (got = recv(fd, bytes, sizeof(bytes), 0)) > 0;) {
      all.append(bytes, static_cast<size_t>(got));
    }
  }
  close(fd);
  const size_t end = all.find("\r\n\r\n");
  if (end == std::string::npos) return answer;
  answer.head = all.substr(0, end);
  answer.body = all.substr(end + 4);
  answer.status = std::stoi(answer.head.substr(answer.head.find(' ')));
  return answer;
}

inline HttpAnswer HttpGet(int port, const std::string& path) {
  return HttpRequest(port, "GET", path);
}

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_HTTP_H_
