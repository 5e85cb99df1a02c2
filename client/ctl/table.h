// Plain-text columns for people. Pure; every cell is made printable here.
#ifndef IDEMPOTENCY_CLIENT_CTL_TABLE_H_
#define IDEMPOTENCY_CLIENT_CTL_TABLE_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace idempotency::ctl {

// Rows under a heading, columns two spaces apart, each as wide as its widest cell.
class Table {
 public:
  explicit Table(std::vector<std::string> heading);
  // As many cells as the heading has.
  void Add(std::vector<std::string> row);
  bool empty() const { return rows_.size() == 1; }
  // With a newline after each row, and `indent` spaces before.
  std::string ToString(size_t indent = 0) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Names and values, one a line, for a single thing.
class Fields {
 public:
  // Left out where the value is empty: what is not set is not shown.
  void Add(std::string_view name, std::string_view value);
  std::string ToString(size_t indent = 2) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_TABLE_H_
