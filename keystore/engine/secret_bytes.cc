#include "keystore/engine/secret_bytes.h"

#include <openssl/crypto.h>
#include <sys/mman.h>

namespace idempotency::keystore {

SecretBytes::SecretBytes(size_t size) {
  if (size == 0) return;
  void* const pages =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return;
  // Neither has to succeed: the process makes no core dumps unless it is told to, and whether it
  // may lock memory is for whoever runs it to say.
  static_cast<void>(madvise(pages, size, MADV_DONTDUMP));
  static_cast<void>(mlock(pages, size));
  bytes_ = static_cast<char*>(pages);
  size_ = size;
}

SecretBytes::~SecretBytes() {
  if (bytes_ == nullptr) return;
  OPENSSL_cleanse(bytes_, size_);
  munmap(bytes_, size_);
}

}  // namespace idempotency::keystore
