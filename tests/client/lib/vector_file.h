// Reads tests/vectors/*.json: a row's fields by name, with what they are where they are missing.
#ifndef IDEMPOTENCY_TESTS_CLIENT_LIB_VECTOR_FILE_H_
#define IDEMPOTENCY_TESTS_CLIENT_LIB_VECTOR_FILE_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "client/src/json.h"

namespace idempotency {

class VectorRow {
 public:
  explicit VectorRow(const internal::JsonValue& value) : value_(&value) {}

  bool Has(const std::string& name) const;
  std::string Text(const std::string& name) const;
  int64_t Number(const std::string& name, int64_t otherwise = 0) const;
  bool Flag(const std::string& name) const;
  // Of hexadecimal digits.
  std::string Bytes(const std::string& name) const;
  std::vector<std::string> Texts(const std::string& name) const;
  std::vector<int64_t> Numbers(const std::string& name) const;
  std::vector<std::pair<std::string, std::string>> Pairs(const std::string& name) const;
  VectorRow Row(const std::string& name) const;

 private:
  friend std::ostream& operator<<(std::ostream& out, const VectorRow& row);
  const internal::JsonValue* value_;
};

// The rows of `list` in the file; they live for ever. Fails the test where there are none.
std::vector<VectorRow> ReadRows(const std::string& file, const std::string& list = "rows");

std::string ReadFile(const std::string& path);
std::string FromHex(const std::string& digits);
std::string ToHex(const std::string& bytes);

}  // namespace idempotency

#endif  // IDEMPOTENCY_TESTS_CLIENT_LIB_VECTOR_FILE_H_
