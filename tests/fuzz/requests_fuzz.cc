// Every method of both services, from its bytes to its end: parsing, the repair of texts that are
// not UTF-8, validation, the command, and the answer or the refusal with its details.
//
//   input := { step }      (steps.h)      step: the bytes of a request, by its method; or time
//                                         that passes; or a caller that goes away
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "idempotency/v1/admin_service.pb.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "service/error_table.h"
#include "service/front/batch_call.h"
#include "service/front/config_call.h"
#include "service/front/list_call.h"
#include "service/worker.h"
#include "tests/fuzz/in_process.h"
#include "tests/fuzz/require.h"
#include "tests/fuzz/step_mutator.h"
#include "tests/fuzz/steps.h"

namespace idempotency::fuzz {
namespace {

using google::protobuf::Message;
using grpc::StatusCode;
using service::FrontDesk;
using service::Verb;

// What a reactor is made of.
struct Wire {
  grpc::CallbackServerContext* context;
  const grpc::ByteBuffer& in;
  grpc::ByteBuffer* out;
};

struct Method {
  const Message& request;
  const Message& response;
  grpc::ServerUnaryReactor* (*start)(const FrontDesk* desk, service::Worker* worker, Wire wire);
};

template <Verb verb, typename Request, typename Response>
constexpr Method CommandMethod() {
  return Method{
      Request::default_instance(), Response::default_instance(),
      [](const FrontDesk* desk, service::Worker*, Wire wire) -> grpc::ServerUnaryReactor* {
        return new service::CommandCall<Request, Response>(desk, verb, wire.context, wire.in,
                                                           wire.out);
      }};
}

template <Verb verb, auto method, typename Request, typename Response>
Method ConfigMethod() {
  return Method{
      Request::default_instance(), Response::default_instance(),
      [](const FrontDesk* desk, service::Worker*, Wire wire) -> grpc::ServerUnaryReactor* {
        return new service::ConfigCall<Request, Response>(desk, verb, method, wire.context, wire.in,
                                                          wire.out);
      }};
}

Method BatchMethod() {
  return Method{
      v1::BatchRequest::default_instance(), v1::BatchResponse::default_instance(),
      [](const FrontDesk* desk, service::Worker*, Wire wire) -> grpc::ServerUnaryReactor* {
        return new service::BatchCall(desk, wire.context, wire.in, wire.out);
      }};
}

Method ListMethod() {
  return Method{
      v1::ListOperationsRequest::default_instance(), v1::ListOperationsResponse::default_instance(),
      [](const FrontDesk* desk, service::Worker* worker, Wire wire) -> grpc::ServerUnaryReactor* {
        return new service::ListCall(desk, worker, wire.context, wire.in, wire.out);
      }};
}

// By the kind of the step.
const std::vector<Method>& Methods() {
  static const auto* const kMethods = new std::vector<Method>{
      CommandMethod<Verb::kReserve, v1::ReserveRequest, v1::ReserveResponse>(),
      CommandMethod<Verb::kRenew, v1::RenewRequest, v1::RenewResponse>(),
      CommandMethod<Verb::kComplete, v1::CompleteRequest, v1::CompleteResponse>(),
      CommandMethod<Verb::kRelease, v1::ReleaseRequest, v1::ReleaseResponse>(),
      CommandMethod<Verb::kMarkUnresolved, v1::MarkUnresolvedRequest, v1::MarkUnresolvedResponse>(),
      CommandMethod<Verb::kGet, v1::GetOperationRequest, v1::GetOperationResponse>(),
      CommandMethod<Verb::kInspect, v1::InspectOperationRequest, v1::InspectOperationResponse>(),
      CommandMethod<Verb::kResolve, v1::ResolveOperationRequest, v1::ResolveOperationResponse>(),
      CommandMethod<Verb::kDelete, v1::DeleteOperationRequest, v1::DeleteOperationResponse>(),
      BatchMethod(),
      ConfigMethod<Verb::kGetNamespace, &FrontDesk::GetNamespace, v1::GetNamespaceRequest,
                   v1::GetNamespaceResponse>(),
      ConfigMethod<Verb::kListNamespaces, &FrontDesk::ListNamespaces, v1::ListNamespacesRequest,
                   v1::ListNamespacesResponse>(),
      ListMethod(),
  };
  return *kMethods;
}

// Kinds behind the methods.
constexpr uint8_t kTimePasses = 13;    // two to the number of bytes, in milliseconds
constexpr uint8_t kCallerLeaves = 14;  // the oldest that has not been answered
constexpr uint8_t kKinds = 15;
constexpr size_t kMaxTimeShift = 36;  // two years

bool IsReason(const std::string& name) {
  v1::ErrorReason reason = v1::ERROR_REASON_UNSPECIFIED;
  return v1::ErrorReason_Parse("ERROR_REASON_" + name, &reason) && reason != 0;
}

// A refusal says why, the same in every place, and which field where that is the reason.
void IsRefusal(const grpc::Status& status) {
  const std::string told = std::to_string(status.error_code()) + " " + status.error_message();
  google::rpc::Status details;
  Require(details.ParseFromString(status.error_details()) &&
              details.code() == status.error_code() && details.message() == status.error_message(),
          "the details say what the status says", told);
  Require(details.details_size() > 0, "a refusal has details", told);
  google::rpc::ErrorInfo info;
  Require(details.details(0).UnpackTo(&info) && info.domain() == service::kErrorDomain &&
              IsReason(info.reason()),
          "a refusal has a reason", told);
  Require(status.error_message().size() > 10 && status.error_message().back() == '.',
          "a refusal is a sentence", told);
  Require((info.reason() == "INVALID_FIELD" || info.reason() == "UNKNOWN_FENCING_TOKEN") ==
              (status.error_code() == StatusCode::INVALID_ARGUMENT),
          "only what is wrong in the request is INVALID_ARGUMENT", told);
}

void IsAnswer(const UnaryDriver& call, const Message& prototype) {
  const grpc::Status status = call.status();
  if (status.error_code() == StatusCode::CANCELLED) return;
  if (!status.ok()) return IsRefusal(status);
  const std::unique_ptr<Message> response(prototype.New());
  Require(response->ParseFromString(call.response()), "an answer can be read");
}

// One input, told to a service of its own.
class Story {
 public:
  void Tell(const Step& step) {
    const uint8_t kind = step.kind % kKinds;
    if (kind == kTimePasses) {
      world_.Advance(core::Duration(int64_t{1} << std::min(step.bytes.size(), kMaxTimeShift)));
    } else if (kind == kCallerLeaves) {
      if (!open_.empty()) open_.front().driver.Cancel();
    } else {
      Call(Methods()[kind], step.bytes);
    }
    CloseEnded();
  }

  void End() {
    world_.Drain();
    CloseEnded();
    Require(open_.empty(), "every call ends");
    world_.CheckRecords();
  }

 private:
  struct Open {
    template <typename Make>
    Open(const Method& method, std::string_view bytes, Make make)
        : method(method), driver(bytes, make) {}
    const Method& method;
    UnaryDriver driver;
  };

  void Call(const Method& method, std::string_view bytes) {
    const auto start = [&](grpc::CallbackServerContext* context, const grpc::ByteBuffer& in,
                           grpc::ByteBuffer* out) {
      return method.start(&world_.desk(), &TheWorker(), Wire{context, in, out});
    };
    open_.emplace_back(method, bytes, start);
    // The only one that is answered by another thread.
    if (&method == &Methods().back()) open_.back().driver.AwaitEnd();
  }

  void CloseEnded() {
    open_.remove_if([](const Open& open) {
      if (!open.driver.finished()) return false;
      IsAnswer(open.driver, open.method.response);
      return true;
    });
  }

  static service::Worker& TheWorker() {
    static auto* const kWorker = new service::Worker(64);
    return *kWorker;
  }

  World world_;
  std::list<Open> open_;
};

}  // namespace
}  // namespace idempotency::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  idempotency::fuzz::TellStory<idempotency::fuzz::Story>(data, size);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  using namespace idempotency::fuzz;
  return MutateSteps(data, size, max_size, seed, [](uint8_t kind) {
    const size_t method = kind % kKinds;
    return std::unique_ptr<google::protobuf::Message>(
        method < Methods().size() ? Methods()[method].request.New() : nullptr);
  });
}
