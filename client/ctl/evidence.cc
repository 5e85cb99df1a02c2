#include "client/ctl/evidence.h"

#include <charconv>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "client/ctl/csv.h"
#include "client/ctl/enum_text.h"
#include "client/ctl/printable.h"

namespace idempotency::ctl {
namespace {

constexpr size_t kProblemsShown = 10;
constexpr int kMaxHttpStatus = 999;
// Of ResolveOperation.
constexpr size_t kMaxShortTextBytes = 255;
constexpr size_t kMaxReasonBytes = 1024;

struct Column {
  const char* name;
  bool required;
  const char* help;
};
constexpr Column kColumns[] = {
    {"namespace", true, "names the operation, with scope and key"},
    {"scope", true, "empty where the namespace has none"},
    {"key", true, "exactly as it was reserved"},
    {"resolution", true, "completed, not-executed or abandoned"},
    {"verdict", false, "of completed: succeeded or failed"},
    {"provider_request_id", false, "the provider's own id of the call"},
    {"reason", false, "on what evidence; instead of --reason"},
    {"etag", false, "settle only what was seen"},
    {"http_status", false, "of completed: of the answer to replay"},
    {"content_type", false, "of completed: of that answer"},
    {"body", false, "of completed: that answer"},
};

const Column* Find(std::string_view name) {
  for (const Column& column : kColumns) {
    if (name == column.name) return &column;
  }
  return nullptr;
}

// What is wrong, a sentence a line, and no more of them than anybody reads.
class Problems {
 public:
  void Add(size_t line, const std::string& what) {
    if (++count_ > kProblemsShown) return;
    text_ += (text_.empty() ? "" : "\n  ") + ("line " + std::to_string(line) + ": " + what);
  }
  std::string text() const {
    if (count_ <= kProblemsShown) return text_;
    return text_ + "\n  and " + std::to_string(count_ - kProblemsShown) + " lines more";
  }

 private:
  size_t count_ = 0;
  std::string text_;
};

// One line, its fields by the names of their columns.
class Line {
 public:
  Line(const CsvRow& row, const std::map<std::string, size_t>& columns)
      : row_(row), columns_(columns) {}

  std::string Get(const char* name) const {
    const auto column = columns_.find(name);
    return column == columns_.end() ? "" : row_.fields[column->second];
  }

 private:
  const CsvRow& row_;
  const std::map<std::string, size_t>& columns_;
};

// Each of these gives a sentence, or nothing where all is well.
std::string SetAnswer(const Line& line, v1::ResolveOperationRequest::Completed* completed) {
  const std::string status = line.Get("http_status");
  const std::string body = line.Get("body");
  const std::string type = line.Get("content_type");
  if (status.empty() && body.empty() && type.empty()) return "";
  v1::CachedResponse* const response = completed->mutable_response();
  if (!status.empty()) {
    int value = 0;
    const auto [end, failed] = std::from_chars(status.data(), status.data() + status.size(), value);
    const bool is_status = failed == std::errc() && end == status.data() + status.size() &&
                           value >= 100 && value <= kMaxHttpStatus;
    if (!is_status) return "http_status " + ShellQuote(status) + " is no HTTP status";
    response->set_http_status(value);
  }
  if (!body.empty()) response->set_body(body);
  response->set_content_type(type);
  return "";
}

std::string SetResolution(const Line& line, v1::ResolveOperationRequest* request) {
  const std::string resolution = line.Get("resolution");
  const std::string verdict = line.Get("verdict");
  if (resolution == "completed") {
    const auto value = ParseEnum<v1::Verdict>(verdict);
    if (value != v1::VERDICT_SUCCEEDED && value != v1::VERDICT_FAILED) {
      return "verdict is " + ShellQuote(verdict) + "; what completed has succeeded or failed";
    }
    request->mutable_completed()->set_verdict(*value);
    return SetAnswer(line, request->mutable_completed());
  }
  for (const char* name : {"verdict", "http_status", "content_type", "body"}) {
    if (!line.Get(name).empty()) return std::string(name) + " is only for what has completed";
  }
  if (resolution == "not-executed") {
    request->mutable_not_executed();
  } else if (resolution == "abandoned") {
    request->mutable_abandoned();
  } else {
    return "resolution is " + ShellQuote(resolution) + "; use completed, not-executed or abandoned";
  }
  return "";
}

std::string TooLong(const v1::ResolveOperationRequest& request) {
  const auto over = [](const char* name, const std::string& text, size_t limit) {
    return text.size() <= limit ? std::string()
                                : std::string(name) + " has " + std::to_string(text.size()) +
                                      " bytes; at most " + std::to_string(limit) + " are kept";
  };
  for (const std::string& wrong :
       {over("actor", request.actor(), kMaxShortTextBytes),
        over("reason", request.reason(), kMaxReasonBytes),
        over("provider_request_id", request.provider_request_id(), kMaxShortTextBytes)}) {
    if (!wrong.empty()) return wrong;
  }
  return "";
}

std::string SetRequest(const Line& line, const std::string& actor, const std::string& reason,
                       v1::ResolveOperationRequest* request) {
  request->mutable_id()->set_namespace_(line.Get("namespace"));
  request->mutable_id()->set_scope(line.Get("scope"));
  request->mutable_id()->set_key(line.Get("key"));
  for (const char* name : {"namespace", "key"}) {
    if (line.Get(name).empty()) return std::string(name) + " is empty";
  }
  request->set_actor(actor);
  const std::string own = line.Get("reason");
  request->set_reason(own.empty() ? reason : own);
  if (request->reason().empty()) return "no reason: fill the column, or give --reason";
  request->set_provider_request_id(line.Get("provider_request_id"));
  request->set_etag(line.Get("etag"));
  if (const std::string wrong = TooLong(*request); !wrong.empty()) return wrong;
  return SetResolution(line, request);
}

std::map<std::string, size_t> ReadHeader(const CsvRow& header, Problems* problems) {
  std::map<std::string, size_t> columns;
  for (size_t i = 0; i < header.fields.size(); ++i) {
    const std::string& name = header.fields[i];
    if (Find(name) == nullptr) {
      problems->Add(header.line, "there is no column " + ShellQuote(name));
    } else if (!columns.emplace(name, i).second) {
      problems->Add(header.line, "column " + name + " is there twice");
    }
  }
  for (const Column& column : kColumns) {
    if (column.required && !columns.contains(column.name)) {
      problems->Add(header.line, std::string("column ") + column.name + " is missing");
    }
  }
  return columns;
}

}  // namespace

std::string EvidenceHelp() {
  std::string text = "Columns, by their names in the first line:\n";
  for (const Column& column : kColumns) {
    std::string name = column.name;
    name.resize(21, ' ');
    text += "  " + name + column.help + (column.required ? "" : " (optional)") + "\n";
  }
  return text;
}

std::vector<Evidence> ReadEvidence(std::string_view csv, const std::string& actor,
                                   const std::string& reason, std::string* error) {
  const std::vector<CsvRow> rows = ParseCsv(csv, error);
  if (!error->empty()) return {};
  if (rows.size() < 2) {
    *error =
        "there is nothing to settle: a line with the names of the columns, and one for each "
        "operation";
    return {};
  }
  Problems problems;
  const std::map<std::string, size_t> columns = ReadHeader(rows.front(), &problems);
  std::vector<Evidence> evidence;
  std::map<std::tuple<std::string, std::string, std::string>, size_t> lines;
  for (size_t i = 1; i < rows.size() && problems.text().empty(); ++i) {
    if (rows[i].fields.size() != rows.front().fields.size()) {
      problems.Add(rows[i].line, std::to_string(rows[i].fields.size()) + " fields, and " +
                                     std::to_string(rows.front().fields.size()) + " columns");
    }
  }
  if (!problems.text().empty()) {
    *error = problems.text();
    return {};
  }
  for (size_t i = 1; i < rows.size(); ++i) {
    const CsvRow& row = rows[i];
    Evidence one{.line = row.line};
    const std::string wrong = SetRequest(Line(row, columns), actor, reason, &one.request);
    if (!wrong.empty()) problems.Add(row.line, wrong);
    const v1::OperationId& id = one.request.id();
    const auto [first, added] =
        lines.emplace(std::make_tuple(id.namespace_(), id.scope(), id.key()), row.line);
    if (!added) {
      problems.Add(row.line, "the operation is that of line " + std::to_string(first->second));
    }
    evidence.push_back(std::move(one));
  }
  *error = problems.text();
  return error->empty() ? evidence : std::vector<Evidence>();
}

}  // namespace idempotency::ctl
