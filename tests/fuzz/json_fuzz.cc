// The canonical form of JSON that fingerprints are made of: a fixed point, within its depth, and
// the same for whoever writes the same.
//
//   input := json { 0xff pointer }        no byte of UTF-8 is 0xff
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/src/json.h"
#include "idempotency/fingerprint.h"
#include "tests/fuzz/require.h"

namespace idempotency::fuzz {
namespace {

constexpr size_t kMaxPointers = 4;

struct Input {
  std::string_view json;
  std::vector<std::string> exclude;
};

Input Split(std::string_view bytes) {
  Input input;
  size_t end = bytes.find('\xff');
  input.json = bytes.substr(0, end);
  while (end != std::string_view::npos && input.exclude.size() < kMaxPointers) {
    bytes.remove_prefix(end + 1);
    end = bytes.find('\xff');
    input.exclude.emplace_back(bytes.substr(0, end));
  }
  return input;
}

// Levels of brackets, and no white space, outside of strings.
void IsTight(std::string_view canonical) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < canonical.size(); ++i) {
    const char c = canonical[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
      continue;
    }
    in_string = c == '"';
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    Require(depth <= internal::kMaxJsonDepth, "no value is nested deeper than is allowed");
    Require(static_cast<unsigned char>(c) > ' ', "no white space is left");
  }
  Require(depth == 0 && !in_string, "what was opened is closed");
}

std::string DigestOf(std::string_view json, const std::vector<std::string>& exclude) {
  const auto fingerprint = FingerprintJson("POST", "/", json, {.exclude = exclude});
  Require(fingerprint.ok(), "what has a canonical form has a fingerprint");
  return fingerprint->digest;
}

void IsFixed(std::string_view json, const std::vector<std::string>& exclude,
             const std::string& canonical) {
  IsTight(canonical);
  const auto again = CanonicalJson(canonical, exclude);
  Require(again.ok() && *again == canonical, "the canonical form is its own", canonical);
  const std::string spaced = " " + std::string(json) + "\n";
  Require(DigestOf(spaced, exclude) == DigestOf(canonical, {}),
          "white space does not change a fingerprint");
}

}  // namespace
}  // namespace idempotency::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace idempotency;
  const fuzz::Input input = fuzz::Split(fuzz::AsText(data, size));
  const auto whole = CanonicalJson(input.json);
  if (!whole.ok()) {
    fuzz::Require(absl::IsInvalidArgument(whole.status()) && !whole.status().message().empty(),
                  "a refusal says why");
    return 0;
  }
  fuzz::IsFixed(input.json, {}, *whole);
  const auto part = CanonicalJson(input.json, input.exclude);
  if (part.ok()) fuzz::IsFixed(input.json, input.exclude, *part);
  return 0;
}
