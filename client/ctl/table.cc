#include "client/ctl/table.h"

#include <algorithm>

#include "client/ctl/printable.h"

namespace idempotency::ctl {
namespace {

constexpr size_t kGap = 2;

std::string Align(const std::vector<std::vector<std::string>>& rows, size_t indent) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], DisplayWidth(row[i]));
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line(indent, ' ');
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i] + std::string(widths[i] - DisplayWidth(row[i]) + kGap, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

void MakePrintable(std::vector<std::string>* row) {
  for (std::string& cell : *row) cell = Printable(cell);
}

}  // namespace

Table::Table(std::vector<std::string> heading) { Add(std::move(heading)); }

void Table::Add(std::vector<std::string> row) {
  MakePrintable(&row);
  rows_.push_back(std::move(row));
}

std::string Table::ToString(size_t indent) const { return Align(rows_, indent); }

void Fields::Add(std::string_view name, std::string_view value) {
  if (value.empty()) return;
  rows_.push_back({std::string(name), Printable(value)});
}

std::string Fields::ToString(size_t indent) const { return Align(rows_, indent); }

}  // namespace idempotency::ctl
