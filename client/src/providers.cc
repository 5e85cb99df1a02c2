#include "idempotency/providers.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "client/src/classification_table.h"
#include "client/src/provider_data.h"
#include "client/src/provider_parser.h"

namespace idempotency {
namespace {

// Every text was read by the tests: one that cannot be read here was never built by us.
std::vector<ProviderProfile> ReadAll() {
  std::vector<ProviderProfile> profiles;
  for (std::string_view text : internal::ProviderTexts()) {
    absl::StatusOr<ProviderProfile> profile = internal::ParseProviderProfile(text);
    if (!profile.ok()) std::abort();
    profiles.push_back(*std::move(profile));
  }
  std::sort(profiles.begin(), profiles.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return profiles;
}

const std::vector<ProviderProfile>& Profiles() {
  static const auto* const profiles = new std::vector<ProviderProfile>(ReadAll());
  return *profiles;
}

bool HasHeader(const CachedResponse& response, const AnswerRule& rule) {
  return std::any_of(response.metadata.begin(), response.metadata.end(), [&](const auto& entry) {
    return absl::EqualsIgnoreCase(entry.first, rule.header) && entry.second == rule.header_value;
  });
}

bool Fits(const AnswerRule& rule, int status, const EffectResult& result) {
  if (status < rule.status_first || status > rule.status_last) return false;
  if (rule.code_missing && result.provider_code) return false;
  if (!rule.codes.empty()) {
    const auto& codes = rule.codes;
    if (!result.provider_code ||
        std::find(codes.begin(), codes.end(), *result.provider_code) == codes.end()) {
      return false;
    }
  }
  return rule.header.empty() || HasHeader(*result.response, rule);
}

std::optional<Classification> ByRules(const ProviderProfile& profile, const EffectResult& result) {
  if (!result.response) return std::nullopt;
  const auto* http = std::get_if<CachedResponse::HttpStatus>(&result.response->status);
  if (http == nullptr) return std::nullopt;
  for (const AnswerRule& rule : profile.answers) {
    if (Fits(rule, http->code, result)) return rule.means;
  }
  return std::nullopt;
}

Classification Classify(const ProviderProfile& profile, const EffectResult& result) {
  const bool certain = internal::ByCertainty(result).has_value();
  const auto by_rules = certain ? std::nullopt : ByRules(profile, result);
  Classification classification = by_rules ? *by_rules : ClassifyHttp(result);
  if (profile.reconcile_first && classification.disposition == Disposition::kUnknown) {
    classification.reconcile_first = true;
  }
  return classification;
}

}  // namespace

const ProviderProfile* FindProvider(std::string_view name) {
  for (const ProviderProfile& profile : Profiles()) {
    if (profile.name == name) return &profile;
  }
  return nullptr;
}

std::vector<std::string> ProviderNames() {
  std::vector<std::string> names;
  for (const ProviderProfile& profile : Profiles()) names.push_back(profile.name);
  return names;
}

Classifier ClassifierFor(const ProviderProfile& profile) {
  return [copy = std::make_shared<const ProviderProfile>(profile)](const EffectResult& result) {
    return Classify(*copy, result);
  };
}

}  // namespace idempotency
