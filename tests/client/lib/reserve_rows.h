// What rows of tests/vectors say about answers of Reserve and the ends of runs, as values of the
// library.
#ifndef IDEMPOTENCY_TESTS_CLIENT_LIB_RESERVE_ROWS_H_
#define IDEMPOTENCY_TESTS_CLIENT_LIB_RESERVE_ROWS_H_

#include <string>

#include "gtest/gtest.h"
#include "idempotency/client.h"
#include "idempotency/connection.h"
#include "idempotency/types.h"
#include "tests/client/lib/vector_file.h"

namespace idempotency {

// Of a closed list of words, by their names.
template <typename Word>
Word WordOf(const std::string& name, Word last) {
  for (int number = 0; number <= static_cast<int>(last); ++number) {
    if (Name(static_cast<Word>(number)) == name) return static_cast<Word>(number);
  }
  ADD_FAILURE() << "no word " << name;
  return Word{};
}

// Empty: there is an answer.
StopReason StopOf(const std::string& name);
// Of http_status, grpc_code and body.
CachedResponse ResponseOf(const VectorRow& row);
// Of a row of next_steps.json; without a lease.
ReserveResponse ReserveOf(const VectorRow& row);

}  // namespace idempotency

#endif  // IDEMPOTENCY_TESTS_CLIENT_LIB_RESERVE_ROWS_H_
