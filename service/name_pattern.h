// Patterns of names, as access rules write them:
//
//   spiffe://example.org/ns/payments/sa/*      * : any characters but '/' and ':', also none
//   jwt:cluster:**                             **: any characters, also none
//   spiffe://example.org/tenant/{scope}/api    {scope}: a name that is given when it is asked
//
// Everything else stands for itself; upper and lower case differ. Nothing can be escaped: names
// that hold '*' are matched by '*'.
#ifndef IDEMPOTENCY_SERVICE_NAME_PATTERN_H_
#define IDEMPOTENCY_SERVICE_NAME_PATTERN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace idempotency::service {

// Immutable. Thread safety: any thread may use it.
class NamePattern {
 public:
  static constexpr std::string_view kScopePlace = "{scope}";

  explicit NamePattern(std::string_view text);

  const std::string& text() const { return text_; }
  // How often {scope} stands in it.
  int scope_places() const { return scope_places_; }

  // Of a pattern without {scope}. Takes time of at most the product of both lengths.
  bool Matches(std::string_view name) const { return Matches(name, std::nullopt); }
  // {scope} stands for `scope`, which matches nothing where it is empty or holds '/' or ':';
  // where nothing is given, for any that may stand there.
  bool Matches(std::string_view name, std::optional<std::string_view> scope) const;

 private:
  enum class Kind : uint8_t { kText, kPart, kAnything, kScope };
  struct Piece {
    Kind kind = Kind::kText;
    std::string text;  // kText
  };

  std::string text_;
  std::vector<Piece> pieces_;
  int scope_places_ = 0;
};

}  // namespace idempotency::service

#endif  // IDEMPOTENCY_SERVICE_NAME_PATTERN_H_
