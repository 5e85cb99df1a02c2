#include "tests/bench/wire.h"

#include <cstring>

#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::bench {
namespace {

// --- Writing ------------------------------------------------------------------------------

constexpr uint8_t kLengthDelimited = 2;
constexpr char kCommandsTag = (1 << 3) | kLengthDelimited;  // of both request messages
constexpr char kTagTag = 1 << 3;                            // Command.tag
constexpr char kTokenTag = 2 << 3;                          // CompleteRequest.fencing_token

int CommandField(Verb verb) {
  switch (verb) {
    case Verb::kReserve:
      return v1::Command::kReserveFieldNumber;
    case Verb::kComplete:
      return v1::Command::kCompleteFieldNumber;
    case Verb::kGet:
      return v1::Command::kGetOperationFieldNumber;
  }
  return 0;
}

size_t VarintSize(uint64_t value) {
  size_t size = 1;
  for (; value >= 128; value >>= 7) ++size;
  return size;
}

void AppendVarint(uint64_t value, std::string* out) {
  for (; value >= 128; value >>= 7) out->push_back(static_cast<char>(value | 128));
  out->push_back(static_cast<char>(value));
}

// What stands where an identity will: characters that occur nowhere else.
const std::string kKeyGap(kKeyBytes, '\x01');
const std::string kScopeGap(kScopeBytes, '\x02');
const std::string kDigestGap(kDigestBytes, '\x03');
const std::string kAttemptGap(kAttemptBytes, '\x04');

void FillId(const RequestShape& shape, v1::OperationId* id) {
  id->set_namespace_(shape.name_space);
  id->set_scope(kScopeGap);
  id->set_key(kKeyGap);
}

void FillFingerprint(v1::Fingerprint* fingerprint) {
  fingerprint->set_algorithm("sha256/bytes-1");
  fingerprint->set_digest(kDigestGap);
}

std::string ReserveText(const RequestShape& shape) {
  v1::ReserveRequest request;
  FillId(shape, request.mutable_id());
  FillFingerprint(request.mutable_fingerprint());
  request.set_attempt_id(kAttemptGap);
  request.mutable_lease_duration()->set_seconds(shape.lease_seconds);
  if (shape.wait_seconds > 0) request.mutable_wait_duration()->set_seconds(shape.wait_seconds);
  request.mutable_owner()->set_worker("bench-1");
  return request.SerializeAsString();
}

// Without the token, which goes last because its size varies.
std::string CompleteText(const RequestShape& shape, const std::string& body) {
  v1::CompleteRequest request;
  FillId(shape, request.mutable_id());
  request.set_verdict(v1::VERDICT_SUCCEEDED);
  request.mutable_response()->set_http_status(200);
  request.mutable_response()->set_content_type("application/json");
  request.mutable_response()->set_body(body);
  return request.SerializeAsString();
}

std::string GetText(const RequestShape& shape) {
  v1::GetOperationRequest request;
  FillId(shape, request.mutable_id());
  FillFingerprint(request.mutable_fingerprint());
  return request.SerializeAsString();
}

// --- Reading ------------------------------------------------------------------------------

bool ReadVarint(std::string_view* in, uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 64 && !in->empty(); shift += 7) {
    const uint8_t byte = static_cast<uint8_t>(in->front());
    in->remove_prefix(1);
    *value |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

// One field: a number, or bytes.
struct Field {
  uint32_t number = 0;
  uint64_t value = 0;
  std::string_view bytes;
};

bool ReadField(std::string_view* in, Field* field) {
  uint64_t tag = 0;
  if (!ReadVarint(in, &tag)) return false;
  field->number = static_cast<uint32_t>(tag >> 3);
  field->bytes = {};
  const size_t fixed = (tag & 7) == 1 ? 8 : (tag & 7) == 5 ? 4 : 0;
  if ((tag & 7) == 0) return ReadVarint(in, &field->value);
  size_t size = fixed;
  if ((tag & 7) == kLengthDelimited) {
    uint64_t length = 0;
    if (!ReadVarint(in, &length)) return false;
    size = length;
  } else if (fixed == 0) {
    return false;
  }
  if (size > in->size()) return false;
  field->bytes = in->substr(0, size);
  in->remove_prefix(size);
  return true;
}

// Calls `visit` with every field; false where the bytes are not a message.
template <typename Visit>
bool ForEachField(std::string_view bytes, Visit visit) {
  Field field;
  while (!bytes.empty()) {
    if (!ReadField(&bytes, &field) || !visit(field)) return false;
  }
  return true;
}

bool ScanOperation(std::string_view bytes, Answer* answer) {
  return ForEachField(bytes, [answer](const Field& field) {
    switch (field.number) {
      case v1::Operation::kIdFieldNumber:
        return ForEachField(field.bytes, [answer](const Field& id) {
          if (id.number == v1::OperationId::kKeyFieldNumber) answer->key = id.bytes;
          return true;
        });
      case v1::Operation::kStateFieldNumber:
        answer->state = static_cast<int>(field.value);
        return true;
      case v1::Operation::kResponseFieldNumber:
        return ForEachField(field.bytes, [answer](const Field& response) {
          if (response.number == v1::CachedResponse::kBodyFieldNumber)
            answer->body = response.bytes;
          return true;
        });
      default:
        return true;
    }
  });
}

bool ScanReserve(std::string_view bytes, Answer* answer) {
  return ForEachField(bytes, [answer](const Field& field) {
    switch (field.number) {
      case v1::ReserveResponse::kOutcomeFieldNumber:
        answer->outcome = static_cast<int>(field.value);
        return true;
      case v1::ReserveResponse::kLeaseFieldNumber:
        return ForEachField(field.bytes, [answer](const Field& lease) {
          if (lease.number == v1::Lease::kFencingTokenFieldNumber) answer->token = lease.value;
          return true;
        });
      case v1::ReserveResponse::kOperationFieldNumber:
        return ScanOperation(field.bytes, answer);
      default:
        return true;
    }
  });
}

// Of Complete and GetOperation, where it is the first field.
bool ScanFirstOperation(std::string_view bytes, Answer* answer) {
  return ForEachField(bytes, [answer](const Field& field) {
    return field.number != 1 || ScanOperation(field.bytes, answer);
  });
}

bool ScanError(std::string_view bytes, Answer* answer) {
  answer->is_error = true;
  return ForEachField(bytes, [answer](const Field& field) {
    if (field.number == v1::Error::kReasonFieldNumber) {
      answer->reason = static_cast<int>(field.value);
    }
    if (field.number == v1::Error::kMessageFieldNumber) answer->message = field.bytes;
    return true;
  });
}

bool ScanResult(std::string_view bytes, Answer* answer) {
  return ForEachField(bytes, [answer](const Field& field) {
    switch (field.number) {
      case v1::Result::kTagFieldNumber:
        answer->tag = field.value;
        return true;
      case v1::Result::kReserveFieldNumber:
        answer->verb = Verb::kReserve;
        return ScanReserve(field.bytes, answer);
      case v1::Result::kCompleteFieldNumber:
        answer->verb = Verb::kComplete;
        return ScanFirstOperation(field.bytes, answer);
      case v1::Result::kGetOperationFieldNumber:
        answer->verb = Verb::kGet;
        return ScanFirstOperation(field.bytes, answer);
      case v1::Result::kErrorFieldNumber:
        return ScanError(field.bytes, answer);
      default:
        return false;
    }
  });
}

}  // namespace

const char* NameOf(Verb verb) {
  switch (verb) {
    case Verb::kReserve:
      return "Reserve";
    case Verb::kComplete:
      return "Complete";
    case Verb::kGet:
      return "GetOperation";
  }
  return "?";
}

RequestWriter::RequestWriter(const RequestShape& shape) : body_bytes_(shape.body_bytes) {
  const std::string body_gap(body_bytes_, '\x05');
  reserve_ = Locate(ReserveText(shape), {});
  complete_ = Locate(CompleteText(shape, body_gap), body_gap);
  get_ = Locate(GetText(shape), {});
}

RequestWriter::Template RequestWriter::Locate(std::string bytes, std::string_view body) {
  Template text;
  text.key = bytes.find(kKeyGap);
  text.scope = bytes.find(kScopeGap);
  text.digest = bytes.find(kDigestGap);
  text.attempt = bytes.find(kAttemptGap);
  if (!body.empty()) text.body = bytes.find(body);
  text.bytes = std::move(bytes);
  return text;
}

const RequestWriter::Template& RequestWriter::TemplateOf(Verb verb) const {
  switch (verb) {
    case Verb::kReserve:
      return reserve_;
    case Verb::kComplete:
      return complete_;
    case Verb::kGet:
      return get_;
  }
  return reserve_;
}

size_t RequestWriter::Size(Verb verb, uint64_t token) const {
  const size_t size = TemplateOf(verb).bytes.size();
  return verb == Verb::kComplete ? size + 1 + VarintSize(token) : size;
}

void RequestWriter::Append(Verb verb, const Identity& id, uint64_t token, std::string* out) const {
  const Template& text = TemplateOf(verb);
  const size_t start = out->size();
  out->append(text.bytes);
  char* const at = out->data() + start;
  std::memcpy(at + text.key, id.key, kKeyBytes);
  std::memcpy(at + text.scope, id.scope, kScopeBytes);
  if (text.digest != std::string::npos) std::memcpy(at + text.digest, id.digest, kDigestBytes);
  if (text.attempt != std::string::npos) std::memcpy(at + text.attempt, id.attempt, kAttemptBytes);
  if (text.body != std::string::npos) {
    std::memcpy(at + text.body, MakeBody(id.hash, body_bytes_).data(), body_bytes_);
  }
  if (verb == Verb::kComplete) {
    out->push_back(kTokenTag);
    AppendVarint(token, out);
  }
}

void RequestWriter::AppendCommand(uint64_t tag, Verb verb, const Identity& id, uint64_t token,
                                  std::string* out) const {
  const size_t inner = Size(verb, token);
  out->push_back(kCommandsTag);
  AppendVarint(1 + VarintSize(tag) + 1 + VarintSize(inner) + inner, out);
  out->push_back(kTagTag);
  AppendVarint(tag, out);
  out->push_back(static_cast<char>((CommandField(verb) << 3) | kLengthDelimited));
  AppendVarint(inner, out);
  Append(verb, id, token, out);
}

bool ScanResponse(Verb verb, std::string_view bytes, Answer* answer) {
  answer->verb = verb;
  return verb == Verb::kReserve ? ScanReserve(bytes, answer) : ScanFirstOperation(bytes, answer);
}

bool ResultReader::Next(Answer* answer) {
  if (failed_ || rest_.empty()) return false;
  *answer = Answer{};
  Field field;
  failed_ = !ReadField(&rest_, &field) || field.number != 1 || !ScanResult(field.bytes, answer);
  return !failed_;
}

}  // namespace idempotency::bench
