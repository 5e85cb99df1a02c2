#include "tests/proof/crash/unsynced.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

namespace idempotency::proof {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kSectorBytes = 512;

bool IsIn(const std::string& path, const std::string& directory) {
  return fs::path(path).parent_path() == fs::path(directory).lexically_normal();
}

// By the library's own call, which nobody judges.
bool Moves(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  return !error;
}

// Every sector behind `synced` may have reached the disk or not, whatever came before it.
void TearSectors(const std::string& path, uint64_t synced, uint64_t size, Random& random) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  for (uint64_t at = synced; at < size;) {
    const uint64_t end = std::min(size, (at / kSectorBytes + 1) * kSectorBytes);
    std::string sector(end - at, '\0');
    if (random.OneIn(4)) {
      // What was there before: another file's bytes.
      for (char& byte : sector) byte = static_cast<char>(random.Next());
    }
    if (random.OneIn(2)) {
      file.seekp(static_cast<std::streamoff>(at));
      file.write(sector.data(), static_cast<std::streamsize>(sector.size()));
    }
    at = end;
  }
}

// Every sector is as it was, or as it was written.
void TakeBack(const std::string& path, uint64_t offset, std::string before, Random& random) {
  std::error_code gone;
  const uint64_t size = fs::file_size(path, gone);
  if (gone) return;
  // What was cut off behind it stays so.
  before.resize(std::min<uint64_t>(before.size(), size - std::min(size, offset)));
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  for (uint64_t at = 0; at < before.size();) {
    const uint64_t end = std::min<uint64_t>(
        before.size(), ((offset + at) / kSectorBytes + 1) * kSectorBytes - offset);
    if (random.OneIn(2)) {
      file.seekp(static_cast<std::streamoff>(offset + at));
      file.write(before.data() + at, static_cast<std::streamsize>(end - at));
    }
    at = end;
  }
}

void LoseBytes(const std::string& path, uint64_t synced, uint64_t size, Random& random) {
  std::error_code gone;
  if (!fs::exists(path, gone)) return;
  switch (random.Below(4)) {
    case 0:
      fs::resize_file(path, synced, gone);
      return;
    case 1:
      fs::resize_file(path, synced + random.Below(size - synced + 1), gone);
      return;
    case 2:
      return;
    default:
      TearSectors(path, synced, size, random);
      if (random.OneIn(2)) fs::resize_file(path, synced + random.Below(size - synced + 1), gone);
      return;
  }
}

}  // namespace

std::string BytesAt(const std::string& path, uint64_t offset, uint64_t size) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(size, '\0');
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(bytes.data(), static_cast<std::streamsize>(size));
  bytes.resize(static_cast<size_t>(file.gcount()));
  return bytes;
}

void Unsynced::Appended(const std::string& path, uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  files_[path].size += bytes;
}

void Unsynced::Overwritten(const std::string& path, uint64_t offset, std::string before) {
  absl::MutexLock lock(&mutex_);
  files_[path].overwrites.push_back({.offset = offset, .before = std::move(before)});
}

void Unsynced::Wrote(const std::string& path, uint64_t offset, uint64_t bytes, std::string before) {
  absl::MutexLock lock(&mutex_);
  File& file = files_[path];
  // Where another handle has written behind it meanwhile, there were zeros here.
  before.resize(std::min<uint64_t>(bytes, file.size - std::min(file.size, offset)), '\0');
  file.size = std::max(file.size, offset + bytes);
  if (!before.empty()) file.overwrites.push_back({.offset = offset, .before = std::move(before)});
}

uint64_t Unsynced::SizeOf(const std::string& path) const {
  absl::MutexLock lock(&mutex_);
  const auto file = files_.find(path);
  return file == files_.end() ? 0 : file->second.size;
}

void Unsynced::Truncated(const std::string& path, uint64_t size, std::string cut) {
  absl::MutexLock lock(&mutex_);
  File& file = files_[path];
  file.cuts.push_back({.bytes = std::move(cut), .synced = file.synced});
  file.size = size;
  file.synced = std::min(file.synced, size);
}

void Unsynced::PutBack(const std::string& path, File& file) {
  for (; !file.cuts.empty(); file.cuts.pop_back()) {
    const Cut& cut = file.cuts.back();
    std::ofstream(path, std::ios::app | std::ios::binary) << cut.bytes;
    file.size += cut.bytes.size();
    file.synced = cut.synced;
  }
}

void Unsynced::Synced(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  File& file = files_[path];
  file.synced = file.size;
  file.overwrites.clear();
  file.cuts.clear();
}

void Unsynced::SyncedDirectory(const std::string& directory) {
  absl::MutexLock lock(&mutex_);
  const auto durable = [&](const Change& change) {
    if (!IsIn(change.path, directory)) return false;
    if (!change.grave.empty()) std::remove(change.grave.c_str());
    return true;
  };
  changes_.erase(std::remove_if(changes_.begin(), changes_.end(), durable), changes_.end());
}

bool Unsynced::Bury(const std::string& path) {
  const std::string grave = graveyard_ + "/" + std::to_string(++graves_);
  if (!Moves(path, grave)) return false;
  Move(path, grave);
  changes_.push_back({.kind = Change::Kind::kDeleted, .path = path, .grave = grave});
  return true;
}

void Unsynced::Move(const std::string& from, const std::string& to) {
  const auto file = files_.find(from);
  if (file == files_.end()) {
    files_.erase(to);
    return;
  }
  files_[to] = file->second;
  files_.erase(from);
}

bool Unsynced::MakeWay(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  std::error_code error;
  return !fs::exists(path, error) || Bury(path);
}

void Unsynced::Created(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  files_[path] = File{};
  changes_.push_back({.kind = Change::Kind::kCreated, .path = path});
}

bool Unsynced::Rename(const std::string& from, const std::string& to) {
  absl::MutexLock lock(&mutex_);
  std::error_code error;
  if (fs::exists(to, error) && !Bury(to)) return false;
  if (!Moves(from, to)) return false;
  Move(from, to);
  changes_.push_back({.kind = Change::Kind::kRenamed, .path = to, .from = from});
  return true;
}

bool Unsynced::Delete(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  return Bury(path);
}

void Unsynced::Undo(const Change& change) {
  switch (change.kind) {
    case Change::Kind::kCreated:
      std::remove(change.path.c_str());
      files_.erase(change.path);
      return;
    case Change::Kind::kRenamed:
      Moves(change.path, change.from);
      Move(change.path, change.from);
      return;
    case Change::Kind::kDeleted:
      Moves(change.grave, change.path);
      Move(change.grave, change.path);
      return;
  }
}

void Unsynced::PowerFails(Random& random) {
  absl::MutexLock lock(&mutex_);
  // A journal keeps the changes of names in their order. The removal of what a rename replaces is
  // a part of the rename.
  size_t kept = random.Below(changes_.size() + 1);
  const auto replaces = [this](size_t i) {
    mutex_.AssertHeld();
    return i < changes_.size() && i > 0 && changes_[i].kind == Change::Kind::kRenamed &&
           changes_[i - 1].kind == Change::Kind::kDeleted &&
           changes_[i - 1].path == changes_[i].path;
  };
  if (replaces(kept)) --kept;
  for (size_t i = changes_.size(); i > kept; --i) Undo(changes_[i - 1]);
  for (size_t i = 0; i < kept; ++i) {
    if (!changes_[i].grave.empty()) std::remove(changes_[i].grave.c_str());
  }
  for (auto& [path, file] : files_) {
    if (!file.cuts.empty() && fs::exists(path) && random.OneIn(2)) PutBack(path, file);
    std::reverse(file.overwrites.begin(), file.overwrites.end());
    for (const Overwrite& write : file.overwrites) {
      TakeBack(path, write.offset, write.before, random);
    }
    if (file.size > file.synced) LoseBytes(path, file.synced, file.size, random);
  }
  changes_.clear();
  files_.clear();
}

}  // namespace idempotency::proof
