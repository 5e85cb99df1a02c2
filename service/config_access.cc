#include "service/config_access.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "service/config_section.h"

namespace idempotency::service {
namespace {

using Texts = google::protobuf::RepeatedPtrField<std::string>;

void CheckCount(std::string_view field, int count, int most, Section* section) {
  if (count > most) {
    section->Add(field, absl::StrCat(count, " are too many: write at most ", most));
  }
}

std::vector<NamePattern> TakePatterns(std::string_view field, const Texts& texts,
                                      Section* section) {
  CheckCount(field, texts.size(), kMaxAccessPatterns, section);
  std::vector<NamePattern> patterns;
  for (int i = 0; i < texts.size(); ++i) {
    patterns.emplace_back(section->Required(absl::StrCat(std::string(field), "[", i, "]"), true,
                                            texts.Get(i), kMaxAccessPatternBytes,
                                            "write a pattern, or remove the line"));
  }
  return patterns;
}

// As above, of names that {scope} has no place in.
std::vector<NamePattern> TakePlainPatterns(std::string_view field, const Texts& texts,
                                           Section* section) {
  std::vector<NamePattern> patterns = TakePatterns(field, texts, section);
  const bool has_place =
      std::any_of(patterns.begin(), patterns.end(),
                  [](const NamePattern& pattern) { return pattern.scope_places() > 0; });
  if (has_place) section->Add(field, "{scope} belongs into identities: remove it here");
  return patterns;
}

// A pattern that can match no name would lock out whom it was meant for.
bool BeginsLikeAName(std::string_view pattern) {
  for (const std::string_view begin : {"dns:", "token:", "jwt:"}) {
    if (pattern.substr(0, begin.size()) == begin) return true;
  }
  // A URI, or a pattern of any kind of name.
  return pattern.find("://") != std::string_view::npos || pattern.substr(0, 4) == "urn:" ||
         pattern.front() == '*';
}

void TakeIdentities(const config::v1::AccessRule& from, Section* section, AccessRule* to) {
  if (from.identities_size() == 0) {
    section->Add("identities", "missing: say who is meant, as spiffe://example.org/ns/payments/*");
  }
  to->identities = TakePatterns("identities", from.identities(), section);
  for (size_t i = 0; i < to->identities.size(); ++i) {
    const NamePattern& pattern = to->identities[i];
    if (pattern.text().empty()) continue;
    const std::string field = absl::StrCat("identities[", i, "]");
    const int wanted = to->scope_from_identity ? 1 : 0;
    if (!BeginsLikeAName(pattern.text())) {
      section->Add(field,
                   "matches no name: begin it with a scheme as spiffe://, or with dns:, token: or "
                   "jwt:NAME:");
    } else if (pattern.scope_places() != wanted) {
      section->Add(field, to->scope_from_identity
                              ? "must hold {scope} exactly once: it is where scope_from_identity "
                                "looks"
                              : "holds {scope}, which says nothing without scope_from_identity: "
                                "true");
    }
  }
}

void TakeScopes(const config::v1::AccessRule& from, Section* section, AccessRule* to) {
  to->scopes = TakePlainPatterns("scopes", from.scopes(), section);
  if (to->scope_from_identity && !to->scopes.empty()) {
    section->Add("scopes",
                 "contradicts scope_from_identity, which allows one scope: remove one of the two");
  }
}

void TakeRoles(const config::v1::AccessRule& from, Section* section, AccessRule* to) {
  // What is not known is told already, and is not there.
  if (from.roles_size() == 0 && !section->Has("roles[0]")) {
    section->Add("roles", "missing: write some of CALLER, READER, RECONCILER, OPERATOR, ADMIN");
  }
  for (const int role : from.roles()) to->permissions |= PermissionsOf(AccessRole(role));
}

AccessRule TakeRule(const config::v1::AccessRule& from, Section* section) {
  AccessRule to;
  to.scope_from_identity = from.scope_from_identity();
  TakeIdentities(from, section, &to);
  if (from.namespaces_size() == 0) {
    section->Add("namespaces", "missing: list those that are meant, or write \"*\" for all");
  }
  to.namespaces = TakePlainPatterns("namespaces", from.namespaces(), section);
  TakeScopes(from, section, &to);
  TakeRoles(from, section, &to);
  return to;
}

}  // namespace

AccessRules TakeAccess(const config::v1::Config& file, const FieldLines& lines,
                       ConfigProblems* problems) {
  if (file.access_size() > kMaxAccessRules) {
    problems->Add(
        LineOf(lines, "access"), "access",
        absl::StrCat(file.access_size(), " are too many: write at most ", kMaxAccessRules));
  }
  const bool identifies = file.tls().has_client_ca_file() || file.identity().has_tokens_file() ||
                          file.identity().jwt_issuers_size() > 0;
  if (file.access_size() > 0 && !identifies) {
    problems->Add(LineOf(lines, "access"), "access",
                  "allows nobody anything while nobody has to prove who they are: configure "
                  "identity or tls.client_ca_file, or remove this section");
  }
  std::vector<AccessRule> rules;
  for (int i = 0; i < file.access_size(); ++i) {
    Section section(absl::StrCat("access[", i, "]"), lines, problems);
    rules.push_back(TakeRule(file.access(i), &section));
  }
  return AccessRules(std::move(rules));
}

}  // namespace idempotency::service
