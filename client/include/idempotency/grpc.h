// The protocol around gRPC calls, on both sides. The only header of the client, beside
// fingerprint_proto.h, that shows gRPC and Protocol Buffers.
//
// A service that makes calls: RunUnary is Client::Run around any generated unary method.
//
//   bank::v1::Charge charge;
//   idempotency::UnaryResult result = idempotency::RunUnary(
//       client, {.id = {"payments", account, order_key}, .call_timeout = 5s},
//       *stub, &bank::v1::Bank::Stub::CreateCharge, request,
//       {.method = "/bank.v1.Bank/CreateCharge", .fingerprint = {.exclude = {"trace_id"}}},
//       &charge);
//   if (result.ok()) Use(charge);      // of this call, or replayed
//   else Explain(result.status, result.run.stop, result.run.next_step);
//
// A service that receives calls with keys: ServerGuard runs a handler once for each key.
//
//   grpc::Status CreateCharge(grpc::ServerContext* context, const bank::v1::ChargeRequest* request,
//                             bank::v1::Charge* response) override {
//     return guard_.Call(context, "/bank.v1.Bank/CreateCharge", *request, response,
//                        [&](idempotency::GuardedCall& call) {
//                          return Charge(*request, call.attempt().provider_key(), response);
//                        });
//   }
#ifndef IDEMPOTENCY_GRPC_H_
#define IDEMPOTENCY_GRPC_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "grpcpp/grpcpp.h"
#include "idempotency/client.h"
#include "idempotency/fingerprint.h"
#include "idempotency/types.h"

namespace idempotency {

// Metadata of a call: where its key is.
inline constexpr std::string_view kKeyMetadata = "idempotency-key";
// Trailing metadata: "true" on every replayed answer, and on no other.
inline constexpr std::string_view kReplayedMetadata = "idempotency-replayed";
// Trailing metadata: "true" where the answer is real, and the service has not recorded it.
inline constexpr std::string_view kRecordOpenMetadata = "idempotency-record-open";
// Trailing metadata: the reason (below) of a status that the guard itself made.
inline constexpr std::string_view kReasonMetadata = "idempotency-reason";

// Names in lower case; values of names that end in "-bin" may be any bytes.
using Metadata = std::vector<std::pair<std::string, std::string>>;

// --- Answers as they are stored ------------------------------------------------------------------

// How the end of a unary call is stored: code, message and details of the status, the trailing
// metadata, and the bytes of `message` where the call succeeded. Metadata that gRPC itself uses
// ("grpc-...") and the marks above are left out. For look-ups, too: LookUp::response.
CachedResponse ToCachedResponse(const grpc::Status& status,
                                const google::protobuf::Message& message,
                                const Metadata& trailing_metadata = {});

// The way back. An answer without a status is a success; an HTTP status is taken by its class.
// INTERNAL where it has no readable `message` for a success.
grpc::Status FromCachedResponse(const CachedResponse& response, google::protobuf::Message* message,
                                Metadata* trailing_metadata = nullptr);

// How a Run that gave no answer looks to a gRPC caller. The status holds google.rpc.ErrorInfo with
// the reason (domain "idempotency.guard"), and RetryInfo where the same call may do better later.
//
//   reason              code                 RetryInfo  when
//   KEY_MISSING         INVALID_ARGUMENT                no key, or an empty one
//   KEY_REPEATED        INVALID_ARGUMENT                more than one
//   KEY_MALFORMED       INVALID_ARGUMENT                not what ParseKeyField takes; the service
//                                                       refused it
//   KEY_TOO_LONG        INVALID_ARGUMENT
//   MISMATCH            FAILED_PRECONDITION             the key belongs to another request
//   FAILED              FAILED_PRECONDITION             it ended as failed, and no status is kept
//   IN_PROGRESS         ABORTED              yes        another attempt is at it
//   UNRESOLVED          ABORTED              yes        nobody knows; another attempt will be let
//   UNRESOLVED          UNKNOWN                         nobody knows, and somebody has to find out
//   ANSWER_GONE         UNKNOWN                         it ended, and the answer is not kept
//   ABANDONED, TOO_OLD  UNKNOWN
//   NOTHING_HAPPENED,   UNAVAILABLE          yes        and the handler gave no status of its own
//     CANCELLED
//   UNAVAILABLE         UNAVAILABLE          yes        nothing was started
//   QUOTA_EXCEEDED      RESOURCE_EXHAUSTED   yes
//   ACCESS_DENIED       PERMISSION_DENIED               the service refused the guard
//   INTERNAL            INTERNAL                        anything else: nothing was started
//
// The rule behind it: what may hide an effect never has a code that ClassifyGrpc takes for "it did
// not happen"; ABORTED says come back with the same key, UNKNOWN that coming back does not help.
// Where the effect's own call ended without an answer (run.response), it is that call's status.
grpc::Status StatusOfRun(const RunResult& run);

// --- Calling -------------------------------------------------------------------------------------

struct UnaryOptions {
  // Required: "/package.Service/Method", for the fingerprint; checked against the types of the
  // call as far as the method is known to this process.
  std::string method;
  // Of the message; not looked at where RunRequest::fingerprint is set.
  FingerprintOptions fingerprint;
  RunOptions run;
  // Where the key goes, and what goes there; unset: Attempt::provider_key().
  std::string key_metadata = std::string(kKeyMetadata);
  std::optional<std::string> key;
  // Credentials, metadata, an earlier deadline than call_timeout. Called once, before the call.
  std::function<void(grpc::ClientContext&)> setup;
  // The metadata of the answer, initial or trailing, that holds the callee's id of the request.
  std::string request_id_metadata;
};

struct UnaryResult {
  RunResult run;
  // Of the call, of the stored answer, or as StatusOfRun says.
  grpc::Status status;
  // Of the call, or as it was stored.
  Metadata trailing_metadata;

  bool ok() const { return status.ok(); }
};

namespace internal {
using UnaryCall = std::function<grpc::Status(grpc::ClientContext*)>;
UnaryResult RunUnaryCall(const Client& client, const RunRequest& request,
                         const UnaryOptions& options, const google::protobuf::Message& message,
                         google::protobuf::Message* response, const UnaryCall& call);
}  // namespace internal

// Client::Run around stub.*method(context, message, response). The call's deadline is
// request.call_timeout (and, without renewal, what is left of the lease), or an earlier one of
// options.setup; it is cancelled when the attempt has to stop. The result is classified by its
// status, with the RetryInfo in it. *response is set where the result is ok.
//
// Under request.dispatch_later the call starts when the service has been told so.
//
// Thread safety: as Client; the stub's methods may be called from any thread.
template <typename Stub, typename Interface, typename Request, typename Response>
requires std::is_base_of_v<Interface, Stub> UnaryResult
RunUnary(const Client& client, const RunRequest& request, Stub& stub,
         grpc::Status (Interface::*method)(grpc::ClientContext*, const Request&, Response*),
         const std::type_identity_t<Request>& message, const UnaryOptions& options,
         std::type_identity_t<Response>* response) {
  return internal::RunUnaryCall(
      client, request, options, message, response,
      [&](grpc::ClientContext* context) { return (stub.*method)(context, message, response); });
}

// --- Being called --------------------------------------------------------------------------------

struct GuardOptions {
  // Required: where the keys live.
  std::string name_space;
  // Required: whose key it is, taken from what was authenticated (context.auth_context()), never
  // from what any caller can write. What is not OK refuses the call, and is what it is told.
  std::function<absl::StatusOr<std::string>(const grpc::ServerContextBase& context)> scope;

  std::string key_metadata = std::string(kKeyMetadata);
  // At most what the namespace allows.
  size_t max_key_bytes = 255;
  FingerprintOptions fingerprint;
  // The classifier judges the handler's status; `cancellation` is the guard's own.
  RunOptions run;
  // How long a duplicate waits for the first to end, within its deadline. Zero: not at all.
  Duration wait{0};
  std::optional<Duration> lease_duration;
  // How long the handler may take before Attempt::should_stop, beside the caller's deadline.
  std::optional<Duration> call_timeout;

  // Callback services only: how many calls are worked on at a time (a thread each, made when it is
  // needed), and how many more wait for that. Further ones are told UNAVAILABLE.
  size_t threads = 16;
  size_t max_queued = 1000;
};

// What a guarded handler is given. Lives as long as the handler runs.
//
// Thread safety: as Attempt; AddTrailingMetadata and NothingHappened on the handler's thread.
class GuardedCall {
 public:
  virtual ~GuardedCall() = default;

  // For the key to hand on (provider_key), and for should_stop: the caller's deadline has passed,
  // the lease is lost, or, in a callback service, the caller has gone (a synchronous handler asks
  // its ServerContext for that).
  virtual Attempt& attempt() = 0;
  // As the caller sent it.
  virtual const std::string& key() const = 0;
  // Sent with the answer, and with every replay of it; metadata that is added to the context
  // itself is not stored.
  virtual void AddTrailingMetadata(std::string name, std::string value) = 0;
  // For a handler that is certain that nothing happened, whatever the code of `why` would mean:
  // return call.NothingHappened(why). The key is free again.
  virtual grpc::Status NothingHappened(grpc::Status why) = 0;
};

// What it returns is judged like an answer (by ClassifyGrpc, unless the options say otherwise):
// OK and final failures are stored and replayed; what leaves open whether something happened (say
// UNAVAILABLE or INTERNAL), and an exception, makes the operation unresolved.
using GuardedHandler = std::function<grpc::Status(GuardedCall& call)>;

// Thread safety: may be used from any thread. Its destructor waits for the calls of callback
// services that it has begun.
class ServerGuard {
 public:
  ServerGuard(Client client, GuardOptions options);
  ~ServerGuard();

  // For the handlers of a synchronous service: exactly one key is read from the metadata, the
  // operation is reserved, the handler runs once, and its reply or status is stored. Duplicates
  // get that, marked as replayed: the same status, message and trailing metadata. Whoever gets
  // none of it is told as StatusOfRun says, with the reason also in kReasonMetadata. `method` is
  // the full name, as in UnaryOptions. The handler's exceptions end here.
  grpc::Status Call(grpc::ServerContext* context, std::string_view method,
                    const google::protobuf::Message& request, google::protobuf::Message* response,
                    const GuardedHandler& handler);

  // The same for a callback service: returns at once; the handler runs on a thread of the guard,
  // where it may block. request and response are the service's, which gRPC keeps until then.
  grpc::ServerUnaryReactor* Call(grpc::CallbackServerContext* context, std::string_view method,
                                 const google::protobuf::Message& request,
                                 google::protobuf::Message* response, GuardedHandler handler);

 private:
  struct Shared;
  const std::unique_ptr<Shared> shared_;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_GRPC_H_
