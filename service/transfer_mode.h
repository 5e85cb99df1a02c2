// Whether a server only hands over what is stored, or takes it over (--transfer).
#ifndef IDEMPOTENCY_SERVICE_TRANSFER_MODE_H_
#define IDEMPOTENCY_SERVICE_TRANSFER_MODE_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace idempotency::service {

// In neither of the last two does anything change a record for a caller, or for time's sake.
enum class TransferMode : uint8_t {
  kOff,
  kExport,  // reads are answered, and the store may be exported
  kImport,  // the store may be filled; nothing is answered from what may be only a part
};

// Of what --transfer says; nothing for anything else.
inline std::optional<TransferMode> ParseTransferMode(std::string_view text) {
  if (text.empty()) return TransferMode::kOff;
  if (text == "export") return TransferMode::kExport;
  if (text == "import") return TransferMode::kImport;
  return std::nullopt;
}

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_TRANSFER_MODE_H_
