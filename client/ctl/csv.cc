#include "client/ctl/csv.h"

#include <algorithm>
#include <utility>

namespace idempotency::ctl {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

class Parser {
 public:
  explicit Parser(std::string_view rest) : rest_(rest) {}

  std::vector<CsvRow> Run(std::string* error) {
    std::vector<CsvRow> rows;
    while (!rest_.empty() && error->empty()) {
      CsvRow row = TakeRow(error);
      const bool is_empty = row.fields.size() == 1 && row.fields.front().empty();
      if (!is_empty) rows.push_back(std::move(row));
    }
    return error->empty() ? rows : std::vector<CsvRow>();
  }

 private:
  bool Take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    if (c == '\n') ++line_;
    return true;
  }

  bool TakeEndOfLine() {
    if (rest_.substr(0, 2) == "\r\n") rest_.remove_prefix(1);
    return Take('\n');
  }

  CsvRow TakeRow(std::string* error) {
    CsvRow row{.line = line_};
    do {
      row.fields.push_back(Take('"') ? TakeQuoted(error) : TakePlain(error));
    } while (error->empty() && Take(','));
    if (error->empty() && !rest_.empty() && !TakeEndOfLine()) {
      *error = "line " + std::to_string(line_) + ": something follows a closing quote";
    }
    return row;
  }

  std::string TakePlain(std::string* error) {
    size_t size = std::min(rest_.find_first_of(",\n"), rest_.size());
    if (size > 0 && size < rest_.size() && rest_[size] == '\n' && rest_[size - 1] == '\r') --size;
    std::string field(rest_.substr(0, size));
    rest_.remove_prefix(size);
    if (field.find('"') != std::string::npos) {
      *error = "line " + std::to_string(line_) + ": a quote inside a field that is not quoted";
    }
    return field;
  }

  std::string TakeQuoted(std::string* error) {
    const size_t begin = line_;
    std::string field;
    while (!rest_.empty()) {
      if (Take('"')) {
        if (!Take('"')) return field;
        field += '"';
        continue;
      }
      const char c = rest_.front();
      Take(c);
      field += c;
    }
    *error = "line " + std::to_string(begin) + ": a quote is not closed";
    return field;
  }

  std::string_view rest_;
  size_t line_ = 1;
};

}  // namespace

std::vector<CsvRow> ParseCsv(std::string_view text, std::string* error) {
  if (text.substr(0, kByteOrderMark.size()) == kByteOrderMark) {
    text.remove_prefix(kByteOrderMark.size());
  }
  return Parser(text).Run(error);
}

}  // namespace idempotency::ctl
