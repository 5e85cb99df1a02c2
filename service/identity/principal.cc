#include "service/identity/principal.h"

#include "service/text.h"

namespace idempotency::service {

bool IsPrincipalText(std::string_view text) {
  return !text.empty() && text.size() <= kMaxPrincipalNameBytes &&
         text.find(' ') == std::string_view::npos && FindTextFault(text) == TextFault::kNone;
}

std::string_view KindName(PrincipalKind kind) {
  switch (kind) {
    case PrincipalKind::kNobody:
      break;
    case PrincipalKind::kUri:
      return "uri";
    case PrincipalKind::kDns:
      return "dns";
    case PrincipalKind::kStaticToken:
      return "token";
    case PrincipalKind::kJwt:
      return "jwt";
  }
  return "nobody";
}

}  // namespace idempotency::service
