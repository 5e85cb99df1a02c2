#include "client/ctl/engine_text.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/ctl/printable.h"
#include "client/ctl/table.h"

namespace idempotency::ctl {
namespace {

using engine::v1::CheckEngineResponse;
using engine::v1::Finding;

// A value that this build does not know may be worse than all that it does.
bool Fails(const Finding& finding) {
  const int severity = finding.severity();
  return severity < engine::v1::SEVERITY_OK || severity > engine::v1::SEVERITY_WARNING;
}

std::string SeverityText(const Finding& finding) {
  switch (static_cast<int>(finding.severity())) {
    case engine::v1::SEVERITY_OK:
      return "ok";
    case engine::v1::SEVERITY_NOT_CHECKED:
      return "COULD NOT BE CHECKED";
    case engine::v1::SEVERITY_WARNING:
      return "WARNING";
  }
  return "FAILS A GUARANTEE";
}

// The higher, the further up.
int Rank(const Finding& finding) {
  return Fails(finding) ? engine::v1::SEVERITY_GUARANTEE_FAILS
                        : static_cast<int>(finding.severity());
}

std::string Summary(const CheckEngineResponse& response) {
  const auto count = [&response](int rank) {
    return std::count_if(response.findings().begin(), response.findings().end(),
                         [rank](const Finding& finding) { return Rank(finding) == rank; });
  };
  std::vector<std::string> parts;
  const auto add = [&](int rank, const char* what) {
    if (const auto n = count(rank); n > 0) parts.push_back(absl::StrCat(n, " ", what));
  };
  add(engine::v1::SEVERITY_GUARANTEE_FAILS, "fail a guarantee");
  add(engine::v1::SEVERITY_WARNING, "warn");
  add(engine::v1::SEVERITY_NOT_CHECKED, "could not be made");
  add(engine::v1::SEVERITY_OK, "are well");
  const std::string of = response.version().empty() ? "" : absl::StrCat(", ", response.version());
  return absl::StrCat("engine ", Printable(response.engine() + of), ": of ",
                      response.findings_size(), " checks ", absl::StrJoin(parts, ", "), "\n");
}

}  // namespace

std::string FormatEngineCheck(const CheckEngineResponse& response) {
  CheckEngineResponse sorted = response;
  SortFindings(&sorted);
  Table table({"RESULT", "CHECK", "SEEN"});
  for (const Finding& finding : sorted.findings()) {
    table.Add({SeverityText(finding), finding.id(), finding.seen()});
  }
  std::string text = absl::StrCat(Summary(sorted), table.ToString());
  for (const Finding& finding : sorted.findings()) {
    if (finding.severity() == engine::v1::SEVERITY_OK) continue;
    Fields fields;
    fields.Add("why", finding.why());
    fields.Add("next", finding.next_step());
    absl::StrAppend(&text, "\n", Printable(finding.id()), "\n", fields.ToString());
  }
  return text;
}

void SortFindings(CheckEngineResponse* response) {
  std::stable_sort(response->mutable_findings()->begin(), response->mutable_findings()->end(),
                   [](const Finding& a, const Finding& b) { return Rank(a) > Rank(b); });
}

ExitCode ExitCodeOf(const CheckEngineResponse& response) {
  return std::any_of(response.findings().begin(), response.findings().end(), Fails)
             ? ExitCode::kGuaranteeFails
             : ExitCode::kOk;
}

}  // namespace idempotency::ctl
