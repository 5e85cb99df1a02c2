// Fields of any message by their paths, such as "id.key".
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_TESTS_PROOF_REQUESTS_REFLECT_H_
#define IDEMPOTENCY_TESTS_PROOF_REQUESTS_REFLECT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "google/protobuf/duration.pb.h"
#include "google/protobuf/message.h"

namespace idempotency::proof {

// The last step of the path, in the message that holds it, which is made where it is missing.
struct Place {
  google::protobuf::Message* message = nullptr;
  const google::protobuf::FieldDescriptor* field = nullptr;  // null: there is none of this name
};
Place Find(google::protobuf::Message* message, std::string_view path);

// Each is to be of the right type. Clear also takes the name of a oneof.
void Clear(google::protobuf::Message* message, std::string_view path);
void SetText(google::protobuf::Message* message, std::string_view path, std::string text);
void SetUInt64(google::protobuf::Message* message, std::string_view path, uint64_t number);
void SetInt32(google::protobuf::Message* message, std::string_view path, int32_t number);
void SetEnum(google::protobuf::Message* message, std::string_view path, int number);
void SetDuration(google::protobuf::Message* message, std::string_view path, int64_t seconds,
                 int32_t nanos);

// All texts and bytes in the message, the parts of ids included, but for names of namespaces.
std::vector<std::string> TextsOf(const google::protobuf::Message& message);

}  // namespace idempotency::proof

#endif  // IDEMPOTENCY_TESTS_PROOF_REQUESTS_REFLECT_H_
