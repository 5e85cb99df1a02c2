#include "client/src/utf8.h"

namespace idempotency::internal {
namespace {

// What may follow a lead byte first; all further bytes are 80-BF (Unicode, table 3-7).
struct Row {
  unsigned char lead_first;
  unsigned char lead_last;
  unsigned char next_first;
  unsigned char next_last;
  size_t length;
};

constexpr Row kRows[] = {
    {0x00, 0x7f, 0x00, 0x00, 1}, {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
    {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
    {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
};

bool IsIn(char c, unsigned char first, unsigned char last) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= first && byte <= last;
}

}  // namespace

size_t Utf8Length(std::string_view text) {
  if (text.empty()) return 0;
  for (const Row& row : kRows) {
    if (!IsIn(text[0], row.lead_first, row.lead_last)) continue;
    if (text.size() < row.length) return 0;
    if (row.length > 1 && !IsIn(text[1], row.next_first, row.next_last)) return 0;
    for (size_t i = 2; i < row.length; ++i) {
      if (!IsIn(text[i], 0x80, 0xbf)) return 0;
    }
    return row.length;
  }
  return 0;
}

void AppendUtf8(uint32_t code_point, std::string* out) {
  const auto tail = [&](int shift) {
    out->push_back(static_cast<char>(0x80 | (code_point >> shift & 0x3f)));
  };
  if (code_point < 0x80) {
    out->push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out->push_back(static_cast<char>(0xc0 | code_point >> 6));
    tail(0);
  } else if (code_point < 0x10000) {
    out->push_back(static_cast<char>(0xe0 | code_point >> 12));
    tail(6);
    tail(0);
  } else {
    out->push_back(static_cast<char>(0xf0 | code_point >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace idempotency::internal
