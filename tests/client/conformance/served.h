// An idempotencyd as tests/vectors/conformance.json wants it, and connections to it.
#ifndef IDEMPOTENCY_TESTS_CLIENT_CONFORMANCE_SERVED_H_
#define IDEMPOTENCY_TESTS_CLIENT_CONFORMANCE_SERVED_H_

#include <map>
#include <memory>
#include <string>

#include "idempotency/connection.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "tests/client/conformance/script.h"
#include "tests/support/server_process.h"
#include "tests/support/temp_directory.h"

namespace idempotency::testing {

// Thread safety: may be used from any thread once it is made.
class Served {
 public:
  // server: of a scenario that has one of its own, else an empty object. batching: over the stream.
  Served(const Json& script, const Json& server, bool batching);

  // by: the name of a token.
  const std::shared_ptr<Connection>& ConnectionOf(const std::string& by) const {
    return connections_.at(by);
  }
  // A Connection of C++ has no method for it. Fails the test where it fails.
  v1::BatchResponse Batch(const std::string& by, const v1::BatchRequest& request) const;

 private:
  TempDirectory directory_;
  std::map<std::string, std::string> tokens_;
  std::unique_ptr<ServerProcess> process_;
  std::map<std::string, std::shared_ptr<Connection>> connections_;
};

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTS_CLIENT_CONFORMANCE_SERVED_H_
