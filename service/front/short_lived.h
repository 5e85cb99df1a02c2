// A message that is read or made in one go and then done with, on memory of its own: most need
// neither malloc nor free, but for texts of more than a few bytes.
//
//   ShortLived<v1::ReserveRequest> request;
//   if (Parse(in, request.get())) ...
//
// What is to outlive it is copied, or moved: texts leave the arena, messages do not.
#ifndef IDEMPOTENCY_SERVICE_FRONT_SHORT_LIVED_H_
#define IDEMPOTENCY_SERVICE_FRONT_SHORT_LIVED_H_

#include <cstddef>

#include "google/protobuf/arena.h"

namespace idempotency::service {

template <typename Message>
class ShortLived {
 public:
  ShortLived()
      : arena_(block_, sizeof(block_)),
        message_(google::protobuf::Arena::CreateMessage<Message>(&arena_)) {}
  ShortLived(const ShortLived&) = delete;
  ShortLived& operator=(const ShortLived&) = delete;

  Message* get() const { return message_; }
  Message& operator*() const { return *message_; }
  Message* operator->() const { return message_; }

 private:
  // Enough for most requests and responses; the arena sees to the others.
  static constexpr size_t kBlockBytes = 4096;

  alignas(std::max_align_t) char block_[kBlockBytes];
  google::protobuf::Arena arena_;
  Message* const message_;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_FRONT_SHORT_LIVED_H_
