// Which server is meant, and what proves each to the other: what was said, and what the files
// that were named hold.
#ifndef IDEMPOTENCY_CLIENT_CTL_TARGET_H_
#define IDEMPOTENCY_CLIENT_CTL_TARGET_H_

#include <string>
#include <utility>

namespace idempotency::ctl {

inline constexpr char kDefaultServer[] = "127.0.0.1:7420";

struct Target {
  Target(std::string address = kDefaultServer) : server(std::move(address)) {}  // NOLINT: a name
  Target(const char* address) : server(address) {}                              // NOLINT: of one

  std::string server;
  // Encrypt, and trust whom the system trusts. Naming a CA or a certificate implies it.
  bool tls = false;
  // PEM. Empty: not given.
  std::string ca_file;
  std::string certificate_file;
  std::string key_file;
  // Whom the server's certificate must name, where that is not the host of `server`.
  std::string server_name;
  std::string token_file;

  bool encrypted() const { return tls || !ca_file.empty() || !certificate_file.empty(); }
};

// What the files hold.
struct Secrets {
  std::string ca;
  std::string certificate;
  std::string key;
  std::string token;
};

// Empty where all could be read and fits together; else one sentence that names the option.
std::string ReadSecrets(const Target& target, Secrets* secrets);

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_TARGET_H_
