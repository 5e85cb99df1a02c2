// Which engine the service's tests are run on, where they do not bring one: memory, or what the
// environment variable IDEMPOTENCY_SUITE_ENGINE names, etcd or postgres; and stores for those. One
// process is started for all tests of the program, when the first of them needs it.
//
//   SuiteStore store;                    // empty, and apart from all others
//   auto engine = store.Open(options);
//   engine.reset();
//   engine = store.Open(options);        // what was in it is there again
//
// Thread safety: none. The first is to be opened by the program's main thread: the process ends
// with the thread that has started it.
#ifndef IDEMPOTENCY_TESTS_SUPPORT_SUITE_STORE_H_
#define IDEMPOTENCY_TESTS_SUPPORT_SUITE_STORE_H_

#include <memory>
#include <string>

#include "keystore/engine/engine.h"
#include "keystore/engine/open_engine.h"

namespace idempotency::testing {

// As --engine would name it.
std::string SuiteEngineName();

class SuiteStore {
 public:
  SuiteStore();

  // An engine of the suite's kind, for a server whose clock differs from no other's. Null, and a
  // failed test, where it cannot be opened.
  std::unique_ptr<keystore::Engine> Open(const keystore::EngineOptions& options);

 private:
  // Of the store in what all of them share.
  const std::string name_;
  std::string postgres_uri_;
};

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_SUITE_STORE_H_
