#include "service/identity/certificate.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/identity/openssl_ptr.h"

namespace idempotency::service {
namespace {

OpensslPtr<BIO> Open(std::string_view pem) {
  return OpensslPtr<BIO>(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

// Keys with a passphrase cannot be read; without this OpenSSL would ask for it at the terminal.
int NoPassphrase(char*, int, int, void*) { return 0; }

// The certificates in `pem`; empty where one of them cannot be read, or there is none.
std::vector<OpensslPtr<X509>> ReadCertificates(std::string_view pem) {
  std::vector<OpensslPtr<X509>> certificates;
  const OpensslPtr<BIO> in = Open(pem);
  for (;;) {
    OpensslPtr<X509> next(PEM_read_bio_X509(in.get(), nullptr, &NoPassphrase, nullptr));
    if (next == nullptr) break;
    certificates.push_back(std::move(next));
  }
  // What ends a file is that no further block begins in it.
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!at_end) certificates.clear();
  return certificates;
}

core::Time ToTime(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return core::Time{};
  const auto days = std::chrono::sys_days(std::chrono::year(parts.tm_year + 1900) /
                                          (parts.tm_mon + 1) / parts.tm_mday);
  return days + std::chrono::hours(parts.tm_hour) + std::chrono::minutes(parts.tm_min) +
         std::chrono::seconds(parts.tm_sec);
}

std::string TextOf(const ASN1_IA5STRING* text) {
  return std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                     static_cast<size_t>(ASN1_STRING_length(text)));
}

CertificateNames NamesOf(const X509* certificate) {
  CertificateNames names;
  names.begin = ToTime(X509_get0_notBefore(certificate));
  names.end = ToTime(X509_get0_notAfter(certificate));
  const OpensslPtr<GENERAL_NAMES> all(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; all != nullptr && i < sk_GENERAL_NAME_num(all.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(all.get(), i);
    if (name->type == GEN_URI) names.uris.push_back(TextOf(name->d.uniformResourceIdentifier));
    if (name->type == GEN_DNS) names.dns.push_back(TextOf(name->d.dNSName));
  }
  return names;
}

// "scheme://" and something behind it: what no other kind of principal begins with.
bool IsUri(std::string_view text) {
  const size_t end = text.find("://");
  if (end == 0 || end == std::string_view::npos || end + 3 == text.size()) return false;
  return std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
  });
}

bool IsDnsName(std::string_view text) {
  constexpr size_t kMaxDnsBytes = 253;
  return !text.empty() && text.size() <= kMaxDnsBytes &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '.' || c == '_';
         });
}

absl::Status Wrong(std::string message) { return absl::InvalidArgumentError(std::move(message)); }

}  // namespace

std::optional<CertificateNames> ReadCertificate(std::string_view pem) {
  if (pem.size() > kMaxPemBytes) return std::nullopt;
  const OpensslPtr<BIO> in = Open(pem);
  const OpensslPtr<X509> first(PEM_read_bio_X509(in.get(), nullptr, &NoPassphrase, nullptr));
  ERR_clear_error();
  if (first == nullptr) return std::nullopt;
  return NamesOf(first.get());
}

std::optional<Principal> PrincipalOf(const CertificateNames& names) {
  if (names.uris.size() > 1) return std::nullopt;
  if (!names.uris.empty()) {
    const std::string& uri = names.uris.front();
    if (!IsUri(uri) || !IsPrincipalText(uri)) return std::nullopt;
    return Principal{uri, PrincipalKind::kUri};
  }
  if (names.dns.empty() || !IsDnsName(names.dns.front())) return std::nullopt;
  // DNS names are the same in small and capital letters; rules are not.
  std::string name = absl::StrCat("dns:", names.dns.front());
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return Principal{std::move(name), PrincipalKind::kDns};
}

absl::Status CheckTlsMaterial(const TlsMaterial& material, core::Time now) {
  const std::vector<OpensslPtr<X509>> chain = ReadCertificates(material.certificate_chain);
  if (chain.empty()) {
    return Wrong("certificate_file holds no certificate in PEM, or one that cannot be read");
  }
  const OpensslPtr<BIO> in = Open(material.private_key);
  const OpensslPtr<EVP_PKEY> key(
      PEM_read_bio_PrivateKey(in.get(), nullptr, &NoPassphrase, nullptr));
  ERR_clear_error();
  if (key == nullptr) {
    return Wrong("private_key_file holds no key in PEM that can be read without a passphrase");
  }
  const bool belongs = X509_check_private_key(chain.front().get(), key.get()) == 1;
  ERR_clear_error();
  if (!belongs) {
    return Wrong(
        "the key of private_key_file is not that of the first certificate of certificate_file: "
        "put in the two that belong together");
  }
  const CertificateNames names = NamesOf(chain.front().get());
  if (now >= names.end) return Wrong("the certificate of certificate_file has expired");
  if (now < names.begin) return Wrong("the certificate of certificate_file does not hold yet");
  if (!material.client_ca.empty() && ReadCertificates(material.client_ca).empty()) {
    return Wrong("client_ca_file holds no certificate in PEM, or one that cannot be read");
  }
  return absl::OkStatus();
}

}  // namespace idempotency::service
