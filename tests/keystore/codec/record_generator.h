// Records that keep every rule and are otherwise as odd as they can be: any state, any field,
// boundary values, bytes that are no text. The same seed gives the same records.
#ifndef IDEMPOTENCY_TESTS_KEYSTORE_CODEC_RECORD_GENERATOR_H_
#define IDEMPOTENCY_TESTS_KEYSTORE_CODEC_RECORD_GENERATOR_H_

#include <cstdint>
#include <random>
#include <string>

#include "keystore/core/record.h"

namespace idempotency::keystore {

// Not thread-safe.
class RecordGenerator {
 public:
  explicit RecordGenerator(uint64_t seed) : random_(seed) {}

  // The next record; core::BrokenRule is empty for it.
  core::Record Next();

  // Below `bound`, which is above zero.
  uint64_t Below(uint64_t bound) { return random_() % bound; }
  std::string Bytes(size_t size);

 private:
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  std::string Text();
  std::string TextOr(const std::string& other);
  core::Digest SomeDigest();
  core::Digest DigestOr(const core::Digest& other);
  uint32_t Number();
  uint64_t Token();
  core::Duration SomeDuration();
  core::Time TimeNear(core::Time other);
  core::Terms SomeTerms();
  core::Unknown SomeUnknown(const core::Record& record);
  core::EndedAttempt SomeEnded(const core::Record& record, uint64_t token);
  core::Event SomeEvent(const core::Record& record);
  void FillPast(core::Record& record);
  void Keep(core::Record& record);
  core::Record Draw();

  std::mt19937_64 random_;
};

}  // namespace idempotency::keystore

#endif  // IDEMPOTENCY_TESTS_KEYSTORE_CODEC_RECORD_GENERATOR_H_
