// Memory for key material: pages of its own that are left out of core dumps, kept out of swap
// where the system lets us, and wiped when they are given back.
//
// Thread safety: as a std::string's.
#ifndef IDEMPOTENCY_KEYSTORE_ENGINE_SECRET_BYTES_H_
#define IDEMPOTENCY_KEYSTORE_ENGINE_SECRET_BYTES_H_

#include <cstddef>
#include <string_view>
#include <utility>

namespace idempotency::keystore {

class SecretBytes {
 public:
  // Zeros. `size` 0, or no memory left: it holds nothing.
  explicit SecretBytes(size_t size);
  ~SecretBytes();
  SecretBytes(SecretBytes&& other) noexcept
      : bytes_(std::exchange(other.bytes_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  SecretBytes& operator=(SecretBytes&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(size_, other.size_);
    return *this;
  }

  char* data() { return bytes_; }
  size_t size() const { return size_; }
  std::string_view view() const { return {bytes_, size_}; }

 private:
  char* bytes_ = nullptr;
  size_t size_ = 0;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_KEYSTORE_ENGINE_SECRET_BYTES_H_
