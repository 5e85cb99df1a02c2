#include "client/ctl/target.h"

#include <fstream>
#include <string_view>

#include "client/ctl/printable.h"
#include "client/src/local_target.h"

namespace idempotency::ctl {
namespace {

constexpr size_t kMaxFileBytes = 1024 * 1024;
// What the service takes as metadata, less room for the rest.
constexpr size_t kMaxTokenBytes = 7 * 1024;

// Empty where the file was read, or none was named.
std::string Read(std::string_view option, const std::string& path, std::string* content) {
  if (path.empty()) return "";
  const std::string named = "--" + std::string(option) + "=" + ShellQuote(path);
  std::ifstream file(path, std::ios::binary);
  content->resize(kMaxFileBytes + 1);
  file.read(content->data(), static_cast<std::streamsize>(content->size()));
  content->resize(static_cast<size_t>(file.gcount()));
  if (file.bad() || content->empty()) return named + " cannot be read, or is empty";
  return content->size() > kMaxFileBytes ? named + " is larger than 1 MiB" : "";
}

std::string ReadToken(const Target& target, std::string* token) {
  if (std::string error = Read("token-file", target.token_file, token); !error.empty()) {
    return error;
  }
  // Whoever writes a file with an editor ends its line.
  while (!token->empty() && (token->back() == '\n' || token->back() == '\r')) token->pop_back();
  for (const char c : *token) {
    if (c <= ' ' || c > '~') return "--token-file must hold one token, and nothing else";
  }
  if (token->size() > kMaxTokenBytes) return "--token-file holds too much for a token";
  if (!token->empty() && !target.encrypted() && !internal::IsLocalTarget(target.server)) {
    return "a token is not sent in plain text over a network: add --tls or --ca, or name a server "
           "on this machine";
  }
  return "";
}

}  // namespace

std::string ReadSecrets(const Target& target, Secrets* secrets) {
  if (target.certificate_file.empty() != target.key_file.empty()) {
    return "--cert and --key belong together: give both or neither";
  }
  if (!target.server_name.empty() && !target.encrypted()) {
    return "--server-name says nothing without --tls or --ca";
  }
  const struct {
    std::string_view option;
    const std::string& path;
    std::string* content;
  } kFiles[] = {{"ca", target.ca_file, &secrets->ca},
                {"cert", target.certificate_file, &secrets->certificate},
                {"key", target.key_file, &secrets->key}};
  for (const auto& file : kFiles) {
    if (std::string error = Read(file.option, file.path, file.content); !error.empty()) {
      return error;
    }
  }
  return ReadToken(target, &secrets->token);
}

}  // namespace idempotency::ctl
