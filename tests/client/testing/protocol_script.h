// The protocol as text: one command a line, what the service answers below it. The same text runs
// against whatever is a Connection.
//
//   reserve plain/order id=1 fp=a lease=30s     a command
//   > ACQUIRED PROCEED ...                      what it is answered
//   # ...                                       a comment
//   == A lease ends                             begins a story: another key space, tokens from t1
//
//   advance SPAN
//   reserve NAMESPACE/KEY id=ID [fp=NAME] [algorithm=NAME] [lease=SPAN] [age=SPAN] [label=TEXT]
//           [owner=TEXT] [job=TEXT] [later] [over]
//   renew NAMESPACE/KEY TOKEN [lease=SPAN] [progress=TEXT] [dispatched] [owner=TEXT]
//   complete NAMESPACE/KEY TOKEN [failed] [body=TEXT] [ref=TEXT] [retention=SPAN] [no_verdict]
//   release NAMESPACE/KEY TOKEN [detail=TEXT]
//   mark NAMESPACE/KEY TOKEN [cause=NAME] [retry=SPAN] [ref=TEXT] [reconcile]
//   get NAMESPACE/KEY [fp=NAME]
//   resolve NAMESPACE/KEY completed|failed|not_executed|abandoned [body=TEXT] [ref=TEXT]
//           [etag=seen|stale] [actor=TEXT]
//   list NAMESPACE/PREFIX [job=TEXT] [age=SPAN] [STATE ...]
//
// Tokens are named t1, t2 ... in the order in which they were first shown; "none" is 0, and "huge"
// above all. Times are shown as spans since the story began.
#ifndef IDEMPOTENCY_TESTS_CLIENT_TESTING_PROTOCOL_SCRIPT_H_
#define IDEMPOTENCY_TESTS_CLIENT_TESTING_PROTOCOL_SCRIPT_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "idempotency/connection.h"
#include "idempotency/testing/in_process_connection.h"

namespace idempotency::testing {

// The namespaces that scripts use, and the same as the service's configuration.
NamespacePolicies ScriptPolicies();
std::string ScriptConfig();

struct ScriptService {
  Connection* connection = nullptr;
  std::function<void(Duration)> advance;
};

// Thread safety: none.
class ProtocolScript {
 public:
  explicit ProtocolScript(ScriptService service) : service_(std::move(service)) {}

  // The text again, with the answers as they are.
  std::string Run(const std::string& text);

 private:
  using Words = std::vector<std::string>;

  std::string Execute(const Words& words);
  std::string Reserve(const OperationId& id, const Words& words);
  std::string Renew(const OperationId& id, const Words& words);
  std::string Complete(const OperationId& id, const Words& words);
  std::string Release(const OperationId& id, const Words& words);
  std::string Mark(const OperationId& id, const Words& words);
  std::string Get(const OperationId& id, const Words& words);
  std::string Resolve(const OperationId& id, const Words& words);
  std::string List(const OperationId& id, const Words& words);

  uint64_t TokenOf(const std::string& name) const;
  std::string NameOf(uint64_t token);
  std::string Show(const Operation& operation);
  std::string Show(const Lease& lease);
  std::string Show(const char* name, const std::optional<SystemTime>& time);
  void SeeTime(const Operation& operation);

  const ScriptService service_;
  std::string story_;
  std::vector<uint64_t> tokens_;
  std::map<std::string, std::vector<std::string>> etags_;  // by key, in the order seen
  // The service's time when the story began, as soon as an answer tells, and what has passed.
  std::optional<SystemTime> start_;
  Duration passed_{0};
};

}  // namespace idempotency::testing

#endif  // IDEMPOTENCY_TESTS_CLIENT_TESTING_PROTOCOL_SCRIPT_H_
