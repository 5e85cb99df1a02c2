// Comma-separated values as RFC 4180 has them: fields may be quoted, a quote in one is doubled, and
// a quoted field may hold commas and ends of lines. Pure.
#ifndef IDEMPOTENCY_CLIENT_CTL_CSV_H_
#define IDEMPOTENCY_CLIENT_CTL_CSV_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace idempotency::ctl {

struct CsvRow {
  size_t line = 0;  // where it begins, from 1
  std::vector<std::string> fields;

  bool operator==(const CsvRow&) const = default;
};

// Empty lines are left out, and so is a byte order mark. *error: one sentence that names the line,
// where the text is not CSV.
std::vector<CsvRow> ParseCsv(std::string_view text, std::string* error);

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_CSV_H_
