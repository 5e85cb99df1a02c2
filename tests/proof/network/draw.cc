#include "tests/proof/network/draw.h"

#include <algorithm>

namespace idempotency::proof::network {
namespace {

// Above any that a server gives here.
constexpr uint64_t kTokenOfNobody = 1'000'000'000'000'000'000;

template <typename Message>
Message For(const Known& known) {
  Message message;
  message.mutable_id()->set_namespace_(known.space->name);
  message.mutable_id()->set_scope("acct_1");
  message.mutable_id()->set_key(known.key);
  return message;
}

void SetSpan(core::Duration span, google::protobuf::Duration* out) {
  out->set_seconds(span.count() / 1000);
  out->set_nanos(static_cast<int32_t>(span.count() % 1000 * 1'000'000));
}

class Drawing {
 public:
  Drawing(Random& random, Known& known) : random_(random), known_(known) {}

  Request Any(Kinds kinds) {
    // An operator.
    if (kinds == Kinds::kAll && random_.Percent(14)) return Operators();
    const bool may_wait = kinds != Kinds::kCommandsThatDoNotWait;
    const uint64_t draw = random_.Below(100);
    if (draw < 34) return Reserve(may_wait);
    if (draw < 45) return Renew();
    if (draw < 60) return Complete();
    if (draw < 69) return Release();
    if (draw < 79) return Mark();
    return Get(may_wait);
  }

 private:
  Request Operators() {
    if (random_.Percent(30)) return For<v1::InspectOperationRequest>(known_);
    if (random_.Percent(25)) {
      auto request = For<v1::DeleteOperationRequest>(known_);
      request.set_force(random_.OneIn(2));
      request.set_actor(Text("op"));
      request.set_reason(Text("why"));
      return request;
    }
    auto request = For<v1::ResolveOperationRequest>(known_);
    request.set_actor(Text("op"));
    request.set_reason(Text("why"));
    const uint64_t draw = random_.Below(100);
    if (draw < 40) request.mutable_not_executed();
    if (draw >= 40 && draw < 55) request.mutable_abandoned();
    if (draw < 55) return request;
    request.mutable_completed()->set_verdict(DrawVerdict());
    if (random_.OneIn(2)) request.mutable_completed()->mutable_response()->set_body(Body());
    if (random_.OneIn(3)) request.set_provider_request_id(Text("pid"));
    return request;
  }

  Request Reserve(bool may_wait) {
    auto request = For<v1::ReserveRequest>(known_);
    const bool again = !known_.attempts.empty() && random_.Percent(35);
    if (!again) {
      known_.attempts.push_back(
          {"attempt-" + known_.key + "-" + std::to_string(known_.attempts.size()), 0});
    }
    const std::string id = again ? random_.Any(known_.attempts).id : known_.attempts.back().id;
    request.set_attempt_id(id);
    request.mutable_owner()->set_worker("w" + id.substr(id.rfind('-')));
    SetFingerprint(random_.Percent(5), request.mutable_fingerprint());
    if (known_.space->policy.fingerprint_optional && random_.OneIn(4)) request.clear_fingerprint();
    SetSpan(Lease(), request.mutable_lease_duration());
    request.set_dispatch_later(random_.Percent(30));
    request.set_start_over(random_.Percent(12));
    const bool new_key = known_.attempts.size() <= 2;
    if (random_.Percent(new_key ? 15 : 2)) {
      SetSpan(400 * core::kDay, request.mutable_operation_age());
    }
    if (may_wait && random_.Percent(12)) SetSpan(Wait(), request.mutable_wait_duration());
    return request;
  }

  Request Renew() {
    auto request = For<v1::RenewRequest>(known_);
    request.set_fencing_token(Token());
    SetSpan(Lease(), request.mutable_lease_duration());
    request.set_dispatched(random_.OneIn(3));
    if (random_.OneIn(4)) request.set_progress(Text("p"));
    return request;
  }

  Request Complete() {
    auto request = For<v1::CompleteRequest>(known_);
    request.set_fencing_token(Token());
    request.set_verdict(DrawVerdict());
    if (random_.Percent(80)) request.mutable_response()->set_body(Body());
    if (random_.OneIn(3)) request.set_provider_request_id(Text("pid"));
    if (random_.OneIn(10)) SetSpan(kFar, request.mutable_retention());
    return request;
  }

  Request Release() {
    auto request = For<v1::ReleaseRequest>(known_);
    request.set_fencing_token(Token());
    request.set_detail(Text("nothing"));
    return request;
  }

  Request Mark() {
    auto request = For<v1::MarkUnresolvedRequest>(known_);
    request.set_fencing_token(Token());
    request.set_cause(static_cast<v1::UnresolvedCause>(1 + random_.Below(5)));
    request.set_detail(Text("saw"));
    if (random_.OneIn(3)) request.set_provider_request_id(Text("pid"));
    if (random_.OneIn(6)) SetSpan(kFar, request.mutable_retry_after());
    request.set_reconcile_first(random_.OneIn(8));
    return request;
  }

  Request Get(bool may_wait) {
    auto request = For<v1::GetOperationRequest>(known_);
    if (random_.Percent(70)) SetFingerprint(random_.OneIn(10), request.mutable_fingerprint());
    if (may_wait && random_.OneIn(5)) SetSpan(Wait(), request.mutable_wait_duration());
    return request;
  }

  void SetFingerprint(bool other, v1::Fingerprint* out) {
    out->set_algorithm(other && random_.OneIn(2) ? "sha256/bytes-2" : "sha256/bytes-1");
    out->set_digest(std::string(32, other ? 'o' : 'f'));
  }

  // Mostly the newest that anybody knows of.
  uint64_t Token() {
    std::vector<uint64_t> tokens;
    for (const Attempt& attempt : known_.attempts) {
      if (attempt.token != 0) tokens.push_back(attempt.token);
    }
    if (tokens.empty() || random_.Percent(2)) return kTokenOfNobody + random_.Below(1000);
    if (random_.Percent(30)) return random_.Any(tokens);
    return *std::max_element(tokens.begin(), tokens.end());
  }

  core::Duration Lease() {
    if (random_.Percent(65)) return kFar;
    return core::Duration{5 + static_cast<int64_t>(random_.Below(35))};
  }
  core::Duration Wait() { return core::Duration{1 + static_cast<int64_t>(random_.Below(40))}; }
  v1::Verdict DrawVerdict() {
    return random_.OneIn(4) ? v1::VERDICT_FAILED : v1::VERDICT_SUCCEEDED;
  }
  std::string Text(const char* what) { return what + std::to_string(random_.Below(10'000)); }
  // Some are longer than what fits into one packet.
  std::string Body() {
    return Text("answer") + std::string(random_.OneIn(20) ? random_.Below(20'000) : 20, '.');
  }

  Random& random_;
  Known& known_;
};

}  // namespace

Request DrawRequest(Random& random, Kinds kinds, Known& known) {
  return Drawing(random, known).Any(kinds);
}

std::vector<Request> LastLooks(const Known& known) {
  auto get = For<v1::GetOperationRequest>(known);
  get.mutable_fingerprint()->set_algorithm("sha256/bytes-1");
  get.mutable_fingerprint()->set_digest(std::string(32, 'f'));
  return {For<v1::InspectOperationRequest>(known), get};
}

}  // namespace idempotency::proof::network
