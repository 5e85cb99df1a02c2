// Mutations of stories (steps.h) that keep their messages messages: each changes one step, and
// most of them one field of the message that it carries. Bytes alone would mostly be refused as no
// message at all.
//
// Thread safety: pure functions, but for libFuzzer's own chance.
#ifndef IDEMPOTENCY_TESTS_FUZZ_STEP_MUTATOR_H_
#define IDEMPOTENCY_TESTS_FUZZ_STEP_MUTATOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "google/protobuf/message.h"
#include "tests/fuzz/steps.h"

namespace idempotency::fuzz {

// An empty message of what a step of this kind carries; null: it carries none.
using MessageOf = std::function<std::unique_ptr<google::protobuf::Message>(uint8_t kind)>;

// libFuzzer's LLVMFuzzerCustomMutator for such inputs.
size_t MutateSteps(uint8_t* data, size_t size, size_t max_size, unsigned seed,
                   const MessageOf& message_of);

}  // namespace idempotency::fuzz

#endif  // IDEMPOTENCY_TESTS_FUZZ_STEP_MUTATOR_H_
