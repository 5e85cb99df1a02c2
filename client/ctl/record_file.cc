#include "client/ctl/record_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"

namespace idempotency::ctl {
namespace {

constexpr std::string_view kMagic = "idempotency records 1\n";
constexpr size_t kLengthBytes = 4;
constexpr mode_t kOwnerOnly = 0600;

std::string Because(std::string_view what, const std::string& path) {
  return absl::StrCat(std::string(what), " ", path, ": ", std::strerror(errno));
}

std::string LengthOf(size_t size) {
  std::string bytes;
  for (size_t i = 0; i < kLengthBytes; ++i) bytes.push_back(static_cast<char>(size >> (8 * i)));
  return bytes;
}

size_t LengthIn(std::string_view bytes) {
  size_t size = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    size |= static_cast<size_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return size;
}

bool SyncDirectoryOf(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  const int fd = open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool synced = fsync(fd) == 0;
  close(fd);
  return synced;
}

// Makes it ours alone until it is closed; false where somebody has it, or has just given it its
// name.
bool TakePartial(int fd, const std::string& path) {
  struct stat opened {};
  struct stat named {};
  return flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &opened) == 0 &&
         lstat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino && opened.st_nlink == 1;
}

}  // namespace

// --- Writing -------------------------------------------------------------------------------------

RecordFileWriter::RecordFileWriter(std::string path, std::ostream* standard_output)
    : path_(std::move(path)),
      partial_path_(path_ + ".partial"),
      standard_output_(standard_output) {}

RecordFileWriter::~RecordFileWriter() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(partial_path_.c_str());
}

std::string RecordFileWriter::Open() {
  if (path_ == "-") return Append(kMagic);
  // Said before the whole store is read, and again at the end.
  if (access(path_.c_str(), F_OK) == 0) {
    return absl::StrCat(path_, " is there already; name another file, or remove it");
  }
  const int fd =
      open(partial_path_.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, kOwnerOnly);
  if (fd < 0) return Because("cannot make", partial_path_);
  if (!TakePartial(fd, partial_path_)) {
    close(fd);
    return absl::StrCat("another export writes ", partial_path_,
                        "; wait for its end, or name another file");
  }
  fd_ = fd;
  // What an earlier run has left is of no use to anybody.
  if (fchmod(fd_, kOwnerOnly) != 0 || ftruncate(fd_, 0) != 0) {
    return Because("cannot empty", partial_path_);
  }
  return Append(kMagic);
}

std::string RecordFileWriter::Write(const transfer::v1::ExportRecordsResponse& part) {
  const std::string bytes = part.SerializeAsString();
  const std::string error = Append(LengthOf(bytes.size()));
  return error.empty() ? Append(bytes) : error;
}

std::string RecordFileWriter::Append(std::string_view bytes) {
  if (path_ == "-") {
    standard_output_->write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return standard_output_->good() ? "" : "standard output takes no more";
  }
  while (!bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return Because("cannot write", partial_path_);
    if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
  }
  return "";
}

std::string RecordFileWriter::Finish() {
  if (path_ == "-") {
    standard_output_->flush();
    return standard_output_->good() ? "" : "standard output takes no more";
  }
  if (fsync(fd_) != 0) return Because("cannot sync", partial_path_);
  // Unlike a rename, fails where somebody has made a file of that name meanwhile.
  if (link(partial_path_.c_str(), path_.c_str()) != 0) return Because("cannot make", path_);
  unlink(partial_path_.c_str());
  close(std::exchange(fd_, -1));
  return SyncDirectoryOf(path_) ? "" : Because("cannot sync the directory of", path_);
}

// --- Reading -------------------------------------------------------------------------------------

RecordFileReader::RecordFileReader(std::string path, std::istream* standard_input)
    : path_(std::move(path)),
      name_(path_ == "-" ? "standard input" : path_),
      standard_input_(standard_input) {}

std::string RecordFileReader::Open() {
  in_ = standard_input_;
  if (path_ != "-") {
    errno = 0;
    file_.open(path_, std::ios::binary);
    if (!file_) return Because("cannot open", path_);
    in_ = &file_;
  }
  std::string magic;
  if (Read(kMagic.size(), &magic) && magic == kMagic) return "";
  return absl::StrCat(name_, " is no file of idempotencyctl export, or of a newer version");
}

bool RecordFileReader::Read(size_t size, std::string* bytes) {
  bytes->resize(size);
  in_->read(bytes->data(), static_cast<std::streamsize>(size));
  return static_cast<size_t>(in_->gcount()) == size;
}

bool RecordFileReader::Fail(std::string_view what) {
  error_ = absl::StrCat(name_, " ", std::string(what), "; copy it again, or export again");
  return false;
}

bool RecordFileReader::Next(transfer::v1::ExportRecordsResponse* part) {
  if (at_trailer_ || !error_.empty()) return false;
  std::string bytes;
  if (!Read(kLengthBytes, &bytes)) return Fail("ends before its end");
  const size_t size = LengthIn(bytes);
  if (size > kMaxPartBytes) return Fail("is damaged");
  if (!Read(size, &bytes)) return Fail("ends before its end");
  if (!part->ParseFromString(bytes)) return Fail("is damaged");
  at_trailer_ = part->has_trailer();
  // Before anybody takes it for the end.
  if (at_trailer_ && in_->peek() != std::istream::traits_type::eof()) {
    return Fail("goes on behind its end");
  }
  return true;
}

}  // namespace idempotency::ctl
