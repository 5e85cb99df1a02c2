// Requests with texts that are not UTF-8: protobuf refuses to parse them at all, and could not say
// which text is at fault. Yet no such text may refuse the report of how an attempt ended. So the
// bytes are mended by the message's description, and it is said where:
//
//   std::optional<RepairedMessage> repaired = RepairTexts(bytes, *message.GetDescriptor());
//   // message.ParseFromString(repaired->bytes); then look at each of repaired->texts
//
// Thread safety: pure functions.
#ifndef IDEMPOTENCY_SERVICE_UTF8_REPAIR_H_
#define IDEMPOTENCY_SERVICE_UTF8_REPAIR_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "google/protobuf/descriptor.h"

namespace idempotency::service {

// More than the texts of the largest allowed request come to, one for each field of a command.
inline constexpr size_t kMaxRepairedTexts = 16 * 1024;

// A text that was not UTF-8. Of several within one field of a request only the first is told.
struct RepairedText {
  // Which of a request's `commands` it is in; kNoCommand where the request holds none.
  int command = kNoCommand;
  // The type of the request that it is in: where it holds commands, of the one command.
  const google::protobuf::Descriptor* request = nullptr;
  // Its path in that request, such as "id.key".
  std::string field;

  static constexpr int kNoCommand = -1;
  friend bool operator==(const RepairedText&, const RepairedText&) = default;
};
using RepairedTexts = std::vector<RepairedText>;

struct RepairedMessage {
  std::string bytes;
  RepairedTexts texts;  // in the order of the commands
};

// The message of the given type with U+FFFD for every byte that is part of no character. Nothing
// where the bytes cannot be a message of the type, are nested too deep, or hold more such texts
// than kMaxRepairedTexts. Takes time and memory in proportion to the bytes.
std::optional<RepairedMessage> RepairTexts(std::string_view bytes,
                                           const google::protobuf::Descriptor& type);

// Whether the request may go on with this text: only id, token and verdict can refuse Complete,
// Release and MarkUnresolved. In other requests, and in ids, another text would be another
// meaning.
bool MayGoOn(const RepairedText& text);

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_UTF8_REPAIR_H_
