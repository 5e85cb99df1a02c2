#include "service/identity/strict_json.h"

#include <functional>
#include <set>
#include <utility>
#include <vector>

namespace idempotency::service {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 16;

// Watches the parser: what it would silently accept is noted.
class Watcher {
 public:
  bool operator()(int depth, json::parse_event_t event, const json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start:
        names_.emplace_back();
        break;
      case json::parse_event_t::object_end:
        names_.pop_back();
        break;
      case json::parse_event_t::key:
        fault_ = fault_ || !names_.back().insert(parsed.get<std::string>()).second;
        break;
      case json::parse_event_t::array_start:
      case json::parse_event_t::array_end:
      case json::parse_event_t::value:
        break;
    }
    fault_ = fault_ || depth > kMaxDepth;
    return true;
  }

  bool fault() const { return fault_; }

 private:
  std::vector<std::set<std::string>> names_;  // of the objects that are open
  bool fault_ = false;
};

}  // namespace

std::optional<json> ParseStrictObject(std::string_view text) {
  // The parser takes a NUL for the end, and would not look at what is behind it.
  if (text.find('\0') != std::string_view::npos) return std::nullopt;
  Watcher watcher;
  json parsed = json::parse(text.begin(), text.end(), std::ref(watcher),
                            /*allow_exceptions=*/false, /*ignore_comments=*/false);
  if (parsed.is_discarded() || !parsed.is_object() || watcher.fault()) return std::nullopt;
  return parsed;
}

std::optional<std::string> TextMember(const json& object, const char* name) {
  const auto member = object.find(name);
  if (member == object.end() || !member->is_string()) return std::nullopt;
  return member->get<std::string>();
}

}  // namespace idempotency::service
