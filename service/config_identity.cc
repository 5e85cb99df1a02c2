#include "service/config_identity.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/config_section.h"
#include "service/duration_text.h"

namespace idempotency::service {
namespace {

constexpr size_t kMaxIssuerNameBytes = 32;

// [a-z][a-z0-9-]{0,31}: no colon, which ends the name in that of a principal.
bool IsIssuerName(std::string_view name) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  return !name.empty() && name.size() <= kMaxIssuerNameBytes && is_letter(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '-'; });
}

void TakeAudiences(const config::v1::JwtIssuer& from, Section* section, JwtIssuerSettings* to) {
  if (from.audiences_size() == 0) {
    section->Add("audiences",
                 "missing: list what tokens for this service are meant for (their 'aud'), such "
                 "as idempotencyd");
  }
  if (from.audiences_size() > static_cast<int>(kMaxJwtAudiences)) {
    section->Add("audiences", absl::StrCat(from.audiences_size(), " are too many: write at most ",
                                           kMaxJwtAudiences));
  }
  for (int i = 0; i < from.audiences_size(); ++i) {
    to->audiences.push_back(section->Required(absl::StrCat("audiences[", i, "]"), true,
                                              from.audiences(i), kMaxClaimBytes,
                                              "write an audience, or remove the line"));
  }
}

void TakeSkew(const config::v1::JwtIssuer& from, Section* section, JwtIssuerSettings* to) {
  if (!from.has_clock_skew()) return;
  to->clock_skew =
      core::Duration(from.clock_skew().seconds() * 1000 + from.clock_skew().nanos() / 1'000'000);
  if (to->clock_skew < core::Duration::zero()) {
    section->Add("clock_skew",
                 absl::StrCat(FormatDuration(to->clock_skew), " is negative: write at least 0s"));
  } else if (to->clock_skew > kMaxClockSkew) {
    section->Add("clock_skew",
                 absl::StrCat(FormatDuration(to->clock_skew), " is too long: write at most ",
                              FormatDuration(kMaxClockSkew)));
  }
}

JwtIssuerSettings TakeIssuer(const config::v1::JwtIssuer& from, Section* section) {
  JwtIssuerSettings to;
  to.name = from.name();
  if (!from.has_name()) {
    section->Add("name", "missing: give it a name");
  } else if (!IsIssuerName(from.name())) {
    section->Add("name", absl::StrCat(Quoted(from.name()),
                                      " is no name for an issuer: write 1-32 of a-z, 0-9 and "
                                      "'-', a letter first"));
  }
  to.issuer = section->Required("issuer", from.has_issuer(), from.issuer(), kMaxClaimBytes,
                                "write the 'iss' of its tokens, exactly");
  TakeAudiences(from, section, &to);
  to.jwks_file = section->Required("jwks_file", from.has_jwks_file(), from.jwks_file(),
                                   kMaxPathBytes, "name the file with the issuer's public keys");
  TakeSkew(from, section, &to);
  return to;
}

}  // namespace

std::optional<TlsSettings> TakeTls(const config::v1::Config& file, const FieldLines& lines,
                                   ConfigProblems* problems) {
  if (!file.has_tls()) return std::nullopt;
  const config::v1::Tls& from = file.tls();
  Section section("tls", lines, problems);
  TlsSettings to;
  to.certificate_file =
      section.Required("certificate_file", from.has_certificate_file(), from.certificate_file(),
                       kMaxPathBytes, "name the file with the server's certificate");
  to.private_key_file =
      section.Required("private_key_file", from.has_private_key_file(), from.private_key_file(),
                       kMaxPathBytes, "name the file with the key of the certificate");
  to.client_ca_file =
      section.OptionalFile("client_ca_file", from.has_client_ca_file(), from.client_ca_file());
  to.client_certificate_required =
      from.client_certificates() != config::v1::CLIENT_CERTIFICATES_OPTIONAL;
  if (from.client_certificates() != config::v1::CLIENT_CERTIFICATES_UNSPECIFIED &&
      !from.has_client_ca_file()) {
    section.Add("client_certificates",
                "says nothing without client_ca_file: name the file with the authorities of "
                "clients, or remove this line");
  }
  return to;
}

IdentitySettings TakeIdentity(const config::v1::Config& file, const FieldLines& lines,
                              ConfigProblems* problems) {
  const config::v1::Identity& from = file.identity();
  Section section("identity", lines, problems);
  IdentitySettings to;
  to.tokens_file = section.OptionalFile("tokens_file", from.has_tokens_file(), from.tokens_file());
  if (from.jwt_issuers_size() > static_cast<int>(kMaxJwtIssuers)) {
    section.Add("jwt_issuers", absl::StrCat(from.jwt_issuers_size(),
                                            " are too many: write at most ", kMaxJwtIssuers));
  }
  std::map<std::string, std::string> names;
  std::map<std::string, std::string> issuers;
  for (int i = 0; i < from.jwt_issuers_size(); ++i) {
    const std::string path = absl::StrCat("identity.jwt_issuers[", i, "]");
    Section below(path, lines, problems);
    JwtIssuerSettings issuer = TakeIssuer(from.jwt_issuers(i), &below);
    const auto [same_name, is_new_name] = names.emplace(issuer.name, path);
    if (!is_new_name) {
      below.Add("name", absl::StrCat("is that of ", same_name->second,
                                     ": rename or remove one of the two"));
    }
    const auto [same_issuer, is_new_issuer] = issuers.emplace(issuer.issuer, path);
    if (!is_new_issuer) {
      below.Add("issuer", absl::StrCat("is that of ", same_issuer->second,
                                       ": tokens would not say which one is meant; remove one"));
    }
    to.jwt_issuers.push_back(std::move(issuer));
  }
  return to;
}

}  // namespace idempotency::service
