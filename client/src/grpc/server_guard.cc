#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/src/grpc/metadata.h"
#include "client/src/grpc/status_details.h"
#include "client/src/grpc/worker_pool.h"
#include "idempotency/fingerprint_proto.h"
#include "idempotency/grpc.h"
#include "idempotency/http_edge.h"

namespace idempotency {
namespace {

using google::protobuf::Message;
using grpc::StatusCode;
using internal::MakeStatus;

// The answer needs this long to arrive within the caller's deadline.
constexpr Duration kAnswerMargin = std::chrono::milliseconds(100);
// When to come back to a guard that has too much to do.
constexpr Duration kOverloadRetryAfter = std::chrono::seconds(1);

// --- The key -------------------------------------------------------------------------------------

grpc::Status KeyStatus(KeyProblem problem) {
  const auto invalid = [](const char* reason, const char* message) {
    return MakeStatus(StatusCode::INVALID_ARGUMENT, reason, message, std::nullopt);
  };
  switch (problem) {
    case KeyProblem::kNone:
      break;
    case KeyProblem::kMissing:
      return invalid("KEY_MISSING",
                     "The call has no key; send one for each operation, and the same with every "
                     "retry.");
    case KeyProblem::kRepeated:
      return invalid("KEY_REPEATED", "The call has more than one key; send exactly one.");
    case KeyProblem::kMalformed:
      return invalid("KEY_MALFORMED",
                     "The key is neither plain printable characters nor a string in quotes.");
    case KeyProblem::kTooLong:
      return invalid("KEY_TOO_LONG", "The key is too long; send a shorter one.");
  }
  return grpc::Status::OK;
}

KeyField ReadKey(const grpc::ServerContextBase& context, const GuardOptions& options) {
  std::vector<std::string_view> values;
  const auto [first, last] =
      context.client_metadata().equal_range(grpc::string_ref(options.key_metadata));
  for (auto one = first; one != last; ++one) {
    values.emplace_back(one->second.data(), one->second.size());
  }
  return ParseKeyField(values, {.max_bytes = options.max_key_bytes});
}

// --- Time ----------------------------------------------------------------------------------------

// Of the caller's deadline; unset where it is so far away that it does not matter.
std::optional<Duration> TimeLeft(const grpc::ServerContextBase& context) {
  const gpr_timespec end = gpr_convert_clock_type(context.raw_deadline(), GPR_CLOCK_MONOTONIC);
  const int32_t left_ms = gpr_time_to_millis(gpr_time_sub(end, gpr_now(GPR_CLOCK_MONOTONIC)));
  if (left_ms == INT32_MAX) return std::nullopt;
  return std::max(Duration(0), Duration(left_ms));
}

// --- The handler ---------------------------------------------------------------------------------

class Handling final : public GuardedCall {
 public:
  Handling(Attempt& attempt, const std::string& key, grpc::ServerContextBase& context)
      : attempt_(attempt), key_(key), context_(context) {}

  Attempt& attempt() override { return attempt_; }
  const std::string& key() const override { return key_; }
  void AddTrailingMetadata(std::string name, std::string value) override {
    if (!internal::IsLegal(name, value)) return;
    context_.AddTrailingMetadata(name, value);
    metadata_.emplace_back(std::move(name), std::move(value));
  }
  grpc::Status NothingHappened(grpc::Status why) override {
    nothing_happened_ = true;
    return why;
  }

  EffectResult ToEffect(const grpc::Status& status, const Message& response) const {
    EffectResult effect = EffectResult::Answered(ToCachedResponse(status, response, metadata_));
    if (status.ok()) return effect;
    effect.error =
        absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
    effect.retry_after = internal::RetryAfterOf(status);
    if (nothing_happened_) effect.certainty = EffectResult::Certainty::kNothingHappened;
    return effect;
  }

 private:
  Attempt& attempt_;
  const std::string& key_;
  grpc::ServerContextBase& context_;
  Metadata metadata_;
  bool nothing_happened_ = false;
};

// --- One guarded call ----------------------------------------------------------------------------

class OneCall {
 public:
  OneCall(const Client& client, const GuardOptions& options, grpc::ServerContextBase& context,
          Message* response)
      : client_(client), options_(options), context_(context), response_(response) {}

  grpc::Status Serve(std::string_view method, const Message& request, const GuardedHandler& handler,
                     const Cancellation& cancellation) {
    RunRequest run;
    if (grpc::Status wrong = Prepare(method, request, &run); !wrong.ok()) return Told(wrong);
    RunOptions run_options = options_.run;
    run_options.cancellation = cancellation;
    EffectResult effect;
    RunResult result;
    try {
      result = client_.Run(
          run,
          [&](Attempt& attempt) {
            Handling call(attempt, run.id.key, context_);
            effect = call.ToEffect(handler(call), *response_);
            return effect;
          },
          run_options);
    } catch (...) {
      // Recorded as unknown by Run; whatever it was, it goes no further than the handler.
      response_->Clear();
      return Told(MakeStatus(StatusCode::UNKNOWN, "UNRESOLVED",
                             "The operation failed in a way that leaves open whether it happened.",
                             std::nullopt));
    }
    return Answer(result, effect);
  }

 private:
  // OK: `run` can be run.
  grpc::Status Prepare(std::string_view method, const Message& request, RunRequest* run) const {
    if (options_.name_space.empty() || !options_.scope) {
      return Misconfigured("name_space and scope are required");
    }
    if (const auto wrong = internal::WhatIsWrongWithMethod(method, request, *response_)) {
      return Misconfigured(*wrong);
    }
    KeyField field = ReadKey(context_, options_);
    if (field.problem != KeyProblem::kNone) return KeyStatus(field.problem);
    absl::StatusOr<std::string> scope = options_.scope(context_);
    if (!scope.ok()) {
      return grpc::Status(static_cast<StatusCode>(scope.status().code()),
                          std::string(scope.status().message()));
    }
    absl::StatusOr<Fingerprint> fingerprint =
        FingerprintMessage(method, "", request, options_.fingerprint);
    if (!fingerprint.ok()) return Misconfigured(std::string(fingerprint.status().message()));
    run->id = {options_.name_space, *std::move(scope), std::move(field.key)};
    run->fingerprint = *std::move(fingerprint);
    run->lease_duration = options_.lease_duration;
    run->wait = options_.wait;
    run->call_timeout = options_.call_timeout;
    if (const std::optional<Duration> left = TimeLeft(context_)) {
      run->wait = std::clamp(*left - kAnswerMargin, Duration(0), options_.wait);
      // Without renewal it would have to fit into the lease, which the caller knows nothing of.
      const bool ends_it = options_.run.renew && *left > Duration(0);
      if (ends_it) run->call_timeout = std::min(*left, run->call_timeout.value_or(*left));
    }
    return grpc::Status::OK;
  }

  static grpc::Status Misconfigured(const std::string& what) {
    return MakeStatus(StatusCode::INTERNAL, "INTERNAL",
                      "The guard of this method is not set up rightly: " + what, std::nullopt);
  }

  // The reason of the guard's own statuses also where no details are read.
  grpc::Status Told(grpc::Status status) const {
    const std::string reason = internal::ReasonOf(status);
    if (!reason.empty()) context_.AddTrailingMetadata(std::string(kReasonMetadata), reason);
    return status;
  }

  grpc::Status Answer(const RunResult& result, const EffectResult& effect) const {
    if (result.record_open && !result.replayed) {
      context_.AddTrailingMetadata(std::string(kRecordOpenMetadata), "true");
    }
    if (!result.has_answer()) {
      response_->Clear();
      return Told(StatusOfRun(result));
    }
    // What the handler itself answered is in the response and the context already.
    const bool own = !result.replayed && effect.response == result.response;
    const grpc::Status status = StatusOfRun(result);
    if (own || !internal::ReasonOf(status).empty()) return Told(status);
    Metadata metadata;
    const grpc::Status read = FromCachedResponse(*result.response, response_, &metadata);
    if (!internal::ReasonOf(read).empty()) return Told(read);
    for (const auto& [name, value] : metadata) context_.AddTrailingMetadata(name, value);
    if (result.replayed) context_.AddTrailingMetadata(std::string(kReplayedMetadata), "true");
    return read;
  }

  const Client& client_;
  const GuardOptions& options_;
  grpc::ServerContextBase& context_;
  Message* const response_;
};

// Ends itself when gRPC has done with it.
class GuardReactor final : public grpc::ServerUnaryReactor {
 public:
  const Cancellation& cancellation() const { return cancellation_; }

  void OnCancel() override { cancellation_.Cancel(); }
  void OnDone() override { delete this; }

 private:
  Cancellation cancellation_;
};

}  // namespace

struct ServerGuard::Shared {
  Shared(Client guard_client, GuardOptions guard_options)
      : client(std::move(guard_client)),
        options(std::move(guard_options)),
        pool(options.threads, options.max_queued) {}

  const Client client;
  const GuardOptions options;
  // Last, so that it is the first to go: what runs in it uses the rest.
  internal::WorkerPool pool;
};

ServerGuard::ServerGuard(Client client, GuardOptions options)
    : shared_(std::make_unique<Shared>(std::move(client), std::move(options))) {}

ServerGuard::~ServerGuard() = default;

grpc::Status ServerGuard::Call(grpc::ServerContext* context, std::string_view method,
                               const Message& request, Message* response,
                               const GuardedHandler& handler) {
  if (context->IsCancelled()) return grpc::Status::CANCELLED;
  return OneCall(shared_->client, shared_->options, *context, response)
      .Serve(method, request, handler, Cancellation());
}

grpc::ServerUnaryReactor* ServerGuard::Call(grpc::CallbackServerContext* context,
                                            std::string_view method, const Message& request,
                                            Message* response, GuardedHandler handler) {
  auto* const reactor = new GuardReactor();
  const bool taken = shared_->pool.Add([this, context, method = std::string(method), &request,
                                        response, handler = std::move(handler), reactor] {
    OneCall call(shared_->client, shared_->options, *context, response);
    reactor->Finish(call.Serve(method, request, handler, reactor->cancellation()));
  });
  if (!taken) {
    reactor->Finish(MakeStatus(StatusCode::UNAVAILABLE, "UNAVAILABLE",
                               "This server has more to do than it can take, so nothing was "
                               "started; send the same call with the same key again later.",
                               kOverloadRetryAfter));
  }
  return reactor;
}

}  // namespace idempotency
