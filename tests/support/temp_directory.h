// A directory of its own for one test, removed with everything in it at the end.
#ifndef IDEMPOTENCY_TESTS_SUPPORT_TEMP_DIRECTORY_H_
#define IDEMPOTENCY_TESTS_SUPPORT_TEMP_DIRECTORY_H_

#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

// Not in idempotency::testing: the key store's tests mean GoogleTest by that name.
namespace idempotency {

class TempDirectory {
 public:
  TempDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "idempotency-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      std::perror("mkdtemp");
      std::abort();
    }
    path_ = name;
  }
  ~TempDirectory() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_TESTS_SUPPORT_TEMP_DIRECTORY_H_
