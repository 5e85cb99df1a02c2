#include "service/digest.h"

#include <openssl/evp.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

namespace idempotency::service {
namespace {

// Only lack of memory gets here; a wrong digest would be worse than no service.
void Require(bool ok) {
  if (!ok) std::abort();
}

// Fetched once: looking the algorithm up costs more than hashing a short text.
const EVP_MD* Sha256() {
  static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return algorithm;
}

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

// The thread's own, ready to begin a digest: making and freeing one costs a good part of what
// hashing a short text does.
EVP_MD_CTX* BeginDigest() {
  thread_local const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  Require(context != nullptr && EVP_DigestInit_ex2(context.get(), Sha256(), nullptr) == 1);
  return context.get();
}

// At most one at a time on a thread.
class Digester {
 public:
  // `purpose` keeps digests of different things apart.
  explicit Digester(std::string_view purpose) : context_(BeginDigest()) { Add(purpose); }

  void Add(std::string_view part) {
    Add(uint64_t{part.size()});
    Raw(part.data(), part.size());
  }

  void Add(uint64_t number) {
    unsigned char bytes[sizeof(number)];
    for (size_t i = 0; i < sizeof(number); ++i) {
      bytes[i] = static_cast<unsigned char>(number >> (8 * i));
    }
    Raw(bytes, sizeof(bytes));
  }

  core::Digest Finish() && {
    HashGathered();
    unsigned char bytes[EVP_MAX_MD_SIZE];
    Require(EVP_DigestFinal_ex(context_, bytes, nullptr) == 1);
    core::Digest digest{Word(bytes), Word(bytes + 8)};
    // All zero means "none".
    if (digest == core::Digest{}) digest.low = 1;
    return digest;
  }

 private:
  void Raw(const void* data, size_t size) {
    if (size > sizeof(gathered_) - gathered_bytes_) HashGathered();
    if (size > sizeof(gathered_)) return Hash(data, size);
    // Nothing may be copied from null, not even nothing.
    if (size > 0) std::memcpy(gathered_ + gathered_bytes_, data, size);
    gathered_bytes_ += size;
  }

  void HashGathered() { Hash(gathered_, std::exchange(gathered_bytes_, 0)); }
  void Hash(const void* data, size_t size) { Require(EVP_DigestUpdate(context_, data, size) == 1); }

  static uint64_t Word(const unsigned char* bytes) {
    uint64_t word = 0;
    for (size_t i = 0; i < sizeof(word); ++i) word = word << 8 | bytes[i];
    return word;
  }

  EVP_MD_CTX* const context_;
  // Small parts are hashed together.
  unsigned char gathered_[256];
  size_t gathered_bytes_ = 0;
};

void AddResponse(bool present, const v1::CachedResponse& response, Digester* digester) {
  digester->Add(uint64_t{present});
  if (!present) return;
  digester->Add(uint64_t{response.status_case()});
  // Only one of the two is set, and the other reads as zero.
  digester->Add(static_cast<uint64_t>(int64_t{response.http_status()}));
  digester->Add(static_cast<uint64_t>(int64_t{response.grpc_code()}));
  digester->Add(response.status_message());
  digester->Add(response.content_type());
  digester->Add(static_cast<uint64_t>(response.metadata_size()));
  for (const v1::MetadataEntry& entry : response.metadata()) {
    digester->Add(entry.name());
    digester->Add(entry.value());
  }
  digester->Add(uint64_t{response.has_body()});
  digester->Add(response.body());
  digester->Add(uint64_t{response.body_omitted()});
  digester->Add(response.body_size());
}

}  // namespace

core::Digest DigestAttemptId(std::string_view attempt_id) {
  Digester digester("attempt");
  digester.Add(attempt_id);
  return std::move(digester).Finish();
}

core::Digest DigestContent(const v1::CompleteRequest& request) {
  Digester digester("complete");
  digester.Add(static_cast<uint64_t>(request.verdict()));
  digester.Add(request.provider_request_id());
  AddResponse(request.has_response(), request.response(), &digester);
  return std::move(digester).Finish();
}

core::Digest DigestContent(const v1::ReleaseRequest&) { return Digester("release").Finish(); }

core::Digest DigestContent(const v1::MarkUnresolvedRequest& request) {
  Digester digester("mark_unresolved");
  digester.Add(static_cast<uint64_t>(request.cause()));
  digester.Add(request.detail());
  digester.Add(request.provider_request_id());
  digester.Add(static_cast<uint64_t>(request.retry_after().seconds()));
  digester.Add(static_cast<uint64_t>(int64_t{request.retry_after().nanos()}));
  digester.Add(uint64_t{request.reconcile_first()});
  return std::move(digester).Finish();
}

core::Digest DigestContent(const v1::ResolveOperationRequest& request) {
  Digester digester("resolve");
  digester.Add(uint64_t{request.resolution_case()});
  digester.Add(request.provider_request_id());
  if (request.has_completed()) {
    digester.Add(static_cast<uint64_t>(request.completed().verdict()));
    AddResponse(request.completed().has_response(), request.completed().response(), &digester);
  }
  return std::move(digester).Finish();
}

}  // namespace idempotency::service
