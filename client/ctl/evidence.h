// A provider's evidence about operations, as a file with a line for each: what is to be settled,
// and how. Pure; nothing is sent before every line is understood.
#ifndef IDEMPOTENCY_CLIENT_CTL_EVIDENCE_H_
#define IDEMPOTENCY_CLIENT_CTL_EVIDENCE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "idempotency/v1/admin_service.pb.h"

namespace idempotency::ctl {

struct Evidence {
  size_t line = 0;
  v1::ResolveOperationRequest request;
};

// The columns, as --help shows them.
std::string EvidenceHelp();

// CSV whose first line names its columns: namespace, scope, key, resolution; and, where they are
// there, verdict, provider_request_id, reason, etag, http_status, content_type, body. `actor`
// decides; `reason` is that of lines without their own. *error: a sentence for every line that is
// wrong, the first few of them, each naming its line and column.
std::vector<Evidence> ReadEvidence(std::string_view csv, const std::string& actor,
                                   const std::string& reason, std::string* error);

}  // namespace idempotency::ctl

#endif  // IDEMPOTENCY_CLIENT_CTL_EVIDENCE_H_
