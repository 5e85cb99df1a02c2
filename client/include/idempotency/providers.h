// What is known of the idempotency of some providers: where the key goes, what their answers
// mean, how long they remember a key. The data are client/contracts/*.json, the same for every
// language; each statement in them says where it was read, when, and whether it was read in the
// provider's own documents (verified). Check what is not before relying on it.
//
//   const ProviderProfile* stripe = FindProvider("stripe-v1");
//   RunOptions options{.classify = ClassifierFor(*stripe)};
//   ... request.Set(stripe->key_field, attempt.provider_key()) ...
//
// Thread safety: values, and pure functions.
#ifndef IDEMPOTENCY_PROVIDERS_H_
#define IDEMPOTENCY_PROVIDERS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "idempotency/classification.h"
#include "idempotency/types.h"

namespace idempotency {

enum class KeyPlace : uint8_t { kNone, kHeader, kArgument, kBodyField };

// On what a statement rests. Only kVendor counts as verified.
enum class Basis : uint8_t {
  kVendor,      // the provider's own documents
  kSecondHand,  // somebody quoting them
  kMemory,      // known from experience, not read again
  kJudgement,   // nothing is published: the most careful reading
};

struct ProviderStatement {
  std::string about;  // for example "key.max_bytes"
  std::string says;
  std::string source;  // a URL; empty where the basis is memory or judgement
  std::string date;    // YYYY-MM-DD: when it was read
  Basis basis = Basis::kJudgement;
  bool verified = false;

  friend bool operator==(const ProviderStatement&, const ProviderStatement&) = default;
};

// What an answer means; the first rule of a profile that fits counts. Every condition that is
// set must hold.
struct AnswerRule {
  int status_first = 100;  // HTTP
  int status_last = 599;
  // One of these is EffectResult::provider_code; empty: whatever it is.
  std::vector<std::string> codes;
  // provider_code was not looked for.
  bool code_missing = false;
  // The answer has this header (names compared without case) with exactly this value.
  std::string header;
  std::string header_value;

  Classification means;
  std::string why;

  friend bool operator==(const AnswerRule&, const AnswerRule&) = default;
};

struct ProviderProfile {
  std::string name;         // "stripe-v1"
  std::string provider;     // "Stripe"
  std::string api_version;  // "v1"

  KeyPlace key_place = KeyPlace::kNone;
  // The name of the header, argument or field.
  std::string key_field;
  std::optional<size_t> key_max_bytes;  // unset: not published
  // Within what keys are unique.
  std::string scope;
  // The methods and paths that take the key.
  std::vector<std::string> endpoints;

  // How long the provider knows a key at least, by what it publishes; unset: it does not say.
  std::optional<Duration> retention;
  // How long to count on that: less a margin, or where nothing is published what seems safe.
  // Unset: do not count on it at all.
  std::optional<Duration> protection_window;

  // A header that marks a replayed answer; empty: there is none.
  std::string replay_header;
  std::string replay_value;
  // What a repeated key gets back.
  std::string replay;

  std::string on_mismatch;
  std::string on_concurrent;
  std::string on_expiry;
  // How to find out what became of a request.
  std::string look_up;
  // What EffectResult::provider_code has to be; empty: not needed.
  std::string provider_code;

  // Whatever is unknown is not to be attempted again: a repetition would be a second effect.
  bool reconcile_first = false;
  // For answers that no rule fits, ClassifyHttp's table holds.
  std::vector<AnswerRule> answers;
  std::vector<ProviderStatement> statements;

  friend bool operator==(const ProviderProfile&, const ProviderProfile&) = default;
};

// Null where there is none of that name. Lives for ever.
const ProviderProfile* FindProvider(std::string_view name);

// Sorted: adyen, no-idempotency-support, paypal, shopify-graphql, square, stripe-v1, stripe-v2.
std::vector<std::string> ProviderNames();

// certainty first, then the profile's rules where there is an answer with an HTTP status, then
// ClassifyHttp. Holds a copy of the profile.
Classifier ClassifierFor(const ProviderProfile& profile);

}  // namespace idempotency

#endif  // IDEMPOTENCY_PROVIDERS_H_
