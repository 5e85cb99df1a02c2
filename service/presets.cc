#include "service/presets.h"

#include <array>
#include <chrono>

#include "keystore/core/limits.h"

namespace idempotency::service {
namespace {

using core::kDay;
using core::Policy;
using core::UnknownOutcome;
using idempotency::v1::ProviderContract;
using std::chrono::minutes;
using std::chrono::seconds;

// Stripe keeps the first answer under a key, a 500 included, and may prune it once it is 24
// hours old; a pruned key that comes again is a new request, that is, a second charge.
void ApplyStripeV1(Policy* policy, ProviderContract* provider) {
  policy->terms.unknown_outcome = UnknownOutcome::kRetrySameKey;
  // 24 hours less what the clock may be wrong without anybody noticing. The window is counted
  // from the first Reserve, before Stripe has seen the key, so that the way there is covered;
  // the hour covers a jump of the clock that is too small to be doubted (core::kMaxClockJump),
  // and a last attempt that is on its way when the window ends.
  policy->terms.protection_window = kDay - core::kMaxClockJump;
  // Waits of 5 s, 10 s ... 320 s: eight attempts in about eleven minutes outlast a short outage
  // or a conflict with a request that is still running. Where Stripe has stored a 500, more
  // attempts would only be told the same.
  policy->terms.max_attempts = 8;
  policy->terms.initial_backoff = seconds(5);
  policy->terms.max_backoff = minutes(10);
  // Longer than the 80 s after which Stripe's own client libraries give up a request.
  policy->terms.settle = minutes(2);
  // Longer than Stripe itself keeps the answer: a job that is run again days later is told it
  // from here, where Stripe would execute it again.
  policy->terms.retention = 7 * kDay;
  provider->set_name("Stripe");
  provider->set_api_version("v1");
  provider->clear_endpoints();
  provider->add_endpoints("POST /v1/*");
  provider->set_account_scope(
      "the account in one mode (live or test); bound to the endpoint first used");
  provider->set_key_location("header Idempotency-Key");
  provider->set_key_max_bytes(255);
  provider->set_on_mismatch("error of type idempotency_error; nothing is executed");
  provider->set_on_concurrent("409 conflict, not stored under the key: retry with the same key");
  provider->set_on_expiry("may be pruned from 24 hours on; the key is then a new request");
  provider->set_source("https://docs.stripe.com/api/idempotent_requests");
  provider->set_verified_date("2026-11-29");
}

// Events that a sender delivers at least once, each under its own id: handling one again is
// harmless, and the id is all that says which it is.
void ApplyWebhookInbox(Policy* policy, ProviderContract*) {
  policy->fingerprint_optional = true;
  policy->terms.unknown_outcome = UnknownOutcome::kRerun;
  // Longer than senders go on delivering (Stripe's three days, for one).
  policy->terms.retention = 30 * kDay;
}

// A claim that something is running: held while it runs, free once it has ended.
void ApplyActiveRun(Policy* policy, ProviderContract*) {
  policy->terms.unknown_outcome = UnknownOutcome::kRerun;
  policy->terms.retention = core::Duration::zero();
  // A run lasts for minutes to weeks, and may be busy for a while before it renews.
  policy->default_lease = minutes(15);
  policy->max_lease = 30 * kDay;
  policy->max_hold = 30 * kDay;
}

// The receiver knows no keys: every call is executed, so nobody may guess.
void ApplyNoProviderSupport(Policy* policy, ProviderContract* provider) {
  policy->terms.unknown_outcome = UnknownOutcome::kReconcileFirst;
  policy->terms.protection_window = core::Duration::zero();
  policy->terms.max_attempts = 0;
  provider->set_key_location("none");
  provider->set_on_mismatch("not noticed");
  provider->set_on_concurrent("both are executed");
  provider->set_on_expiry("every call is executed");
}

struct Preset {
  std::string_view name;
  void (*apply)(Policy*, ProviderContract*);
};

constexpr std::array<Preset, 4> kPresets = {{{"STRIPE_V1", ApplyStripeV1},
                                             {"WEBHOOK_INBOX", ApplyWebhookInbox},
                                             {"ACTIVE_RUN", ApplyActiveRun},
                                             {"NO_PROVIDER_SUPPORT", ApplyNoProviderSupport}}};

}  // namespace

bool ApplyPreset(std::string_view name, Policy* policy, ProviderContract* provider) {
  for (const Preset& preset : kPresets) {
    if (preset.name != name) continue;
    preset.apply(policy, provider);
    return true;
  }
  return false;
}

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

}  // namespace idempotency::service
