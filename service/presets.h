// Bundles of settings that a namespace takes by name (`preset: STRIPE_V1`). What the namespace
// sets itself wins over its preset, which wins over the file's defaults.
#ifndef IDEMPOTENCY_SERVICE_PRESETS_H_
#define IDEMPOTENCY_SERVICE_PRESETS_H_

#include <string>
#include <string_view>
#include <vector>

#include "idempotency/v1/idempotency_service.pb.h"
#include "keystore/core/policy.h"

namespace idempotency::service {

// Changes what the preset speaks of and leaves the rest. False, and nothing is changed, where
// there is no such preset.
bool ApplyPreset(std::string_view name, core::Policy* policy,
                 idempotency::v1::ProviderContract* provider);

// All of them, in the order of the documentation.
std::vector<std::string> PresetNames();

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_PRESETS_H_
