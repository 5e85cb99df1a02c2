#include "service/front/outbox.h"

#include <memory>
#include <utility>

#include "grpcpp/support/slice.h"

namespace idempotency::service {
namespace {

// Results are gathered in pieces of up to so many bytes. A larger one is a piece by itself, and
// is not copied.
constexpr size_t kPieceBytes = 16 * 1024;

grpc::Slice ToSlice(std::string bytes) {
  // Very short texts are inside the string itself, so that it must not move.
  auto kept = std::make_unique<std::string>(std::move(bytes));
  char* const data = kept->data();
  const size_t size = kept->size();
  return grpc::Slice(
      data, size, [](void* text) { delete static_cast<std::string*>(text); }, kept.release());
}

}  // namespace

void Outbox::Add(std::string result) {
  ++results_;
  bytes_ += result.size();
  if (result.size() > kPieceBytes) return pieces_.push_back(Piece{std::move(result), 1});
  if (pieces_.empty() || pieces_.back().bytes.size() + result.size() > kPieceBytes) {
    pieces_.emplace_back().bytes.reserve(kPieceBytes);
  }
  pieces_.back().bytes += result;
  ++pieces_.back().results;
}

std::vector<std::string> Outbox::Take(size_t max_bytes) {
  std::vector<std::string> taken;
  size_t bytes = 0;
  while (!pieces_.empty()) {
    Piece& next = pieces_.front();
    bytes += next.bytes.size();
    if (bytes > max_bytes && !taken.empty()) break;
    bytes_ -= next.bytes.size();
    results_ -= next.results;
    taken.push_back(std::move(next.bytes));
    pieces_.pop_front();
  }
  return taken;
}

void Outbox::Clear() { *this = Outbox(); }

grpc::ByteBuffer ToMessage(std::vector<std::string> pieces) {
  std::vector<grpc::Slice> slices;
  slices.reserve(pieces.size());
  for (std::string& piece : pieces) slices.push_back(ToSlice(std::move(piece)));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

}  // namespace idempotency::service
