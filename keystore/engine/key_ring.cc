#include "keystore/engine/key_ring.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace idempotency::keystore {
namespace {

constexpr std::string_view kSuffix = ".key";
constexpr char kCurrentName[] = "current";
constexpr size_t kHexDigits = 2 * kSealSecretBytes;
// With room for what must not be there.
constexpr size_t kMaxFileBytes = kHexDigits + 16;

absl::Status Wrong(const std::string& path, std::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat(path, ": ", std::string(why)));
}

bool IsKeyId(std::string_view id) {
  return !id.empty() && id.size() <= kMaxSealKeyIdBytes && id.front() != '.' &&
         std::all_of(id.begin(), id.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

// What is in the file, without white space at its end.
struct Content {
  SecretBytes bytes{kMaxFileBytes};
  size_t size = 0;
  std::string_view view() const { return bytes.view().substr(0, size); }
};

absl::StatusOr<Content> ReadSmallFile(const std::string& path, bool secret) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Wrong(path, absl::StrCat("cannot be read: ", std::strerror(errno)));
  Content content;
  struct stat status {};
  const bool known = ::fstat(fd, &status) == 0;
  const ssize_t got = ::read(fd, content.bytes.data(), content.bytes.size());
  ::close(fd);
  if (!known || got < 0) return Wrong(path, "cannot be read; look at its file system");
  if (secret && (status.st_mode & S_IRWXO) != 0) {
    return Wrong(path, "everybody on this machine may use it; chmod o-rwx it");
  }
  content.size = static_cast<size_t>(got);
  while (content.size > 0 &&
         absl::ascii_isspace(static_cast<unsigned char>(content.view().back()))) {
    --content.size;
  }
  return content;
}

// -1 for what is no hex digit.
int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = absl::ascii_tolower(static_cast<unsigned char>(c));
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

absl::StatusOr<SecretBytes> ReadSecret(const std::string& path) {
  absl::StatusOr<Content> content = ReadSmallFile(path, true);
  if (!content.ok()) return content.status();
  const std::string_view hex = content->view();
  SecretBytes secret(kSealSecretBytes);
  bool valid = hex.size() == kHexDigits && secret.size() == kSealSecretBytes;
  for (size_t i = 0; valid && i < kSealSecretBytes; ++i) {
    const int high = HexValue(hex[2 * i]);
    const int low = HexValue(hex[2 * i + 1]);
    valid = high >= 0 && low >= 0;
    secret.data()[i] = static_cast<char>(high << 4 | low);
  }
  if (!valid) return Wrong(path, "is no key; write 64 hex digits: openssl rand -hex 32");
  return secret;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const KeyRing>> KeyRing::Load(const std::string& directory) {
  auto ring = std::make_shared<KeyRing>();
  std::error_code error;
  for (std::filesystem::directory_iterator file(directory, error), end; !error && file != end;
       file.increment(error)) {
    const std::string name = file->path().filename().string();
    if (!absl::EndsWith(name, ".key") || name.front() == '.') continue;
    const std::string id = name.substr(0, name.size() - kSuffix.size());
    if (!IsKeyId(id)) {
      return Wrong(file->path().string(),
                   "its name is no id of a key; use 1 to 32 of [A-Za-z0-9._-] before .key");
    }
    absl::StatusOr<SecretBytes> secret = ReadSecret(file->path().string());
    if (!secret.ok()) return secret.status();
    ring->entries_.push_back(Entry{id, *std::move(secret)});
  }
  if (error) return Wrong(directory, absl::StrCat("cannot be listed: ", error.message()));
  const std::string current = (std::filesystem::path(directory) / kCurrentName).string();
  if (!std::filesystem::exists(current, error)) return ring;
  const absl::StatusOr<Content> named = ReadSmallFile(current, false);
  if (!named.ok()) return named.status();
  ring->current_ = std::string(named->view());
  if (ring->current().has_value()) return ring;
  return Wrong(current, "names no key of this directory; write the ID of an ID.key there");
}

std::optional<SealKey> KeyRing::Find(std::string_view id) const {
  for (const Entry& entry : entries_) {
    if (entry.id == id) return SealKey{.id = entry.id, .secret = entry.secret.view()};
  }
  return std::nullopt;
}

}  // namespace idempotency::keystore
