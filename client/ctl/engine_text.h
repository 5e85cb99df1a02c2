// What a check of the engine found, as text for people. Pure.
#ifndef IDEMPOTENCY_CLIENT_CTL_ENGINE_TEXT_H_
#define IDEMPOTENCY_CLIENT_CTL_ENGINE_TEXT_H_

#include <string>

#include "client/ctl/exit_code.h"
#include "idempotency/engine/v1/engine_service.pb.h"

namespace idempotency::ctl {

// A line that sums it up, a row for each finding, the worst first, and below them why each that is
// not well matters and what to do about it.
std::string FormatEngineCheck(const engine::v1::CheckEngineResponse& response);

// The same order for whoever reads JSON.
void SortFindings(engine::v1::CheckEngineResponse* response);

// Whether a guarantee fails. What a newer server says and is not known here counts as that.
ExitCode ExitCodeOf(const engine::v1::CheckEngineResponse& response);

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_ENGINE_TEXT_H_
