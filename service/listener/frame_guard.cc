#include "service/listener/frame_guard.h"

#include <algorithm>

namespace idempotency::service {
namespace {

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
// Frame types and flags.
constexpr uint8_t kHeaders = 1;
constexpr uint8_t kReset = 3;
constexpr uint8_t kContinuation = 9;
constexpr uint8_t kEndHeaders = 0x04;
constexpr uint8_t kHasPriority = 0x20;
constexpr uint64_t kPriorityBytes = 5;

// Lengths beyond this are beyond every limit: no need to go on adding.
constexpr int kMaxShift = 28;

}  // namespace

// --- Fields --------------------------------------------------------------------------------------

uint64_t FieldCounter::Count(std::string_view bytes) {
  uint64_t fields = 0;
  while (!bytes.empty()) {
    const uint8_t byte = static_cast<uint8_t>(bytes.front());
    if (state_ == State::kStringBytes) {
      const uint64_t some = std::min<uint64_t>(length_, bytes.size());
      bytes.remove_prefix(some);
      length_ -= some;
      if (length_ == 0) Next();
      continue;
    }
    bytes.remove_prefix(1);
    switch (state_) {
      case State::kField:
        // A change of the table's size is none.
        if ((byte & 0xe0) != 0x20) ++fields;
        BeginField(byte);
        break;
      case State::kNumber:
        if ((byte & 0x80) == 0) Next();
        break;
      case State::kString:
        length_ = byte & 0x7f;
        shift_ = 0;
        if (length_ < 0x7f) {
          BeginString(length_);
        } else {
          state_ = State::kStringLength;
        }
        break;
      case State::kStringLength:
        if (shift_ <= kMaxShift) length_ += static_cast<uint64_t>(byte & 0x7f) << shift_;
        shift_ += 7;
        if ((byte & 0x80) == 0) BeginString(length_);
        break;
      case State::kStringBytes:
        break;
    }
  }
  return fields;
}

void FieldCounter::BeginField(uint8_t byte) {
  uint8_t prefix = 0;
  if ((byte & 0x80) != 0) {  // of the table, name and value
    prefix = 0x7f;
    strings_left_ = 0;
  } else if ((byte & 0x40) != 0) {  // a value to be added to the table
    prefix = 0x3f;
    strings_left_ = 1;
  } else if ((byte & 0x20) != 0) {  // the table's size
    prefix = 0x1f;
    strings_left_ = 0;
  } else {  // a value that is not
    prefix = 0x0f;
    strings_left_ = 1;
  }
  const uint8_t number = byte & prefix;
  // Number 0 of a value: its name is a string, too.
  if (number == 0 && strings_left_ == 1) strings_left_ = 2;
  if (number == prefix) {
    state_ = State::kNumber;
  } else {
    Next();
  }
}

void FieldCounter::BeginString(uint64_t length) {
  length_ = length;
  if (length == 0) {
    Next();
  } else {
    state_ = State::kStringBytes;
  }
}

void FieldCounter::Next() {
  if (strings_left_ > 0) {
    --strings_left_;
    state_ = State::kString;
  } else {
    state_ = State::kField;
  }
}

// --- Frames --------------------------------------------------------------------------------------

FrameVerdict FrameGuard::Take(std::string_view bytes, core::Duration now) {
  while (verdict_ == FrameVerdict::kFine && is_http2_ && !bytes.empty()) {
    if (preface_bytes_ < kPreface.size()) {
      is_http2_ = bytes.front() == kPreface[preface_bytes_++];
      bytes.remove_prefix(1);
    } else if (payload_left_ > 0) {
      const uint64_t some = std::min<uint64_t>(payload_left_, bytes.size());
      payload_left_ -= some;
      if (is_headers_) TakePayload(bytes.substr(0, some), now);
      bytes.remove_prefix(some);
      if (payload_left_ == 0) EndFrame(now);
    } else {
      header_[header_bytes_++] = static_cast<uint8_t>(bytes.front());
      bytes.remove_prefix(1);
      if (header_bytes_ == kFrameHeaderBytes) BeginFrame(now);
    }
  }
  return verdict_;
}

void FrameGuard::BeginFrame(core::Duration now) {
  header_bytes_ = 0;
  payload_left_ = (uint64_t{header_[0]} << 16) | (uint64_t{header_[1]} << 8) | header_[2];
  const uint8_t type = header_[3];
  is_headers_ = type == kHeaders || type == kContinuation;
  is_reset_ = type == kReset;
  if (!is_headers_) return;
  const uint64_t before = type == kHeaders ? 0 : block_bytes_;
  if (type == kHeaders) {
    fields_ = 0;
    // That it is padded gRPC does not look at, and takes the padding for fields.
    if ((header_[4] & kHasPriority) != 0) priority_left_ = kPriorityBytes;
  }
  block_bytes_ = before + kFrameHeaderBytes + payload_left_;
  if (block_bytes_ > MaxBlockBytes(metadata_bytes_)) Condemn(FrameVerdict::kHeaders);
  const uint64_t paid = std::max(before, metadata_bytes_);
  if (block_bytes_ > paid) Pay(block_bytes_ - paid, now);
  if (payload_left_ == 0) EndFrame(now);
}

void FrameGuard::TakePayload(std::string_view bytes, core::Duration now) {
  const uint64_t priority = std::min<uint64_t>(priority_left_, bytes.size());
  priority_left_ -= priority;
  bytes.remove_prefix(priority);
  const uint64_t most = MaxFields(metadata_bytes_);
  const uint64_t before = std::max(fields_, FreeFields(metadata_bytes_));
  fields_ += counter_.Count(bytes);
  // As if they had come one by one.
  if (const uint64_t after = std::min(fields_, most); after > before) {
    Pay((after - before) * kFieldCost, now);
  }
  if (fields_ > most) Condemn(FrameVerdict::kHeaders);
}

// A block that ends within a field is an error (RFC 7541, 2.3.2 and 9113, 4.3), and so is a
// priority that is not whole in its frame (6.2). gRPC does not find either where it skips the
// block, and takes the rest for the beginning of what comes next, which would not be what it is
// taken for here.
void FrameGuard::EndFrame(core::Duration now) {
  const bool ends_block = is_headers_ && (header_[4] & kEndHeaders) != 0;
  if (priority_left_ > 0 || (ends_block && !counter_.IsBetween())) {
    Condemn(FrameVerdict::kHeaders);
  }
  if (is_reset_ && !cancels_.Spend(1, now)) Condemn(FrameVerdict::kCancels);
}

void FrameGuard::SetAnswered(uint64_t answered) {
  if (answered <= answered_) return;
  cancels_.Give(answered - answered_);
  answered_ = answered;
}

void FrameGuard::Condemn(FrameVerdict verdict) {
  if (verdict_ == FrameVerdict::kFine) verdict_ = verdict;
}

void FrameGuard::Pay(uint64_t cost, core::Duration now) {
  if (!header_costs_.Spend(cost, now)) Condemn(FrameVerdict::kHeaders);
}

}  // namespace idempotency::service
