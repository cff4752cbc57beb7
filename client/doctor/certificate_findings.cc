#include "client/doctor/certificate_findings.h"

#include <openssl/x509.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/secret_mode.h"
#include "common/certificates/certificate_files.h"
#include "common/certificates/pem.h"

namespace baton {
namespace {

constexpr char kIssue[] = "issue a new one with the same names: baton certs issue ROLE --force";
constexpr char kRenew[] = "get a new one from its issuer";
constexpr char kNewList[] = "get a new list from `baton certs revoke`";

// The life of a chain, by its first certificate that ends; none if the text has no certificates.
std::optional<Validity> ValidityOf(const std::string& chain) {
  const auto certificates = ParseCertificates(chain);
  if (!certificates.ok()) return std::nullopt;
  Validity validity{.from = absl::InfinitePast(), .until = absl::InfiniteFuture()};
  for (const Certificate& certificate : *certificates) {
    if (ValidUntil(*certificate) >= validity.until) continue;
    validity = {ValidFrom(*certificate), ValidUntil(*certificate)};
  }
  return validity;
}

std::optional<Validity> ValidityOfAuthorities(const std::string& roots) {
  const auto certificates = ParseCertificates(roots);
  if (!certificates.ok()) return std::nullopt;
  Validity validity{.from = absl::InfinitePast(), .until = absl::InfinitePast()};
  for (const Certificate& certificate : *certificates) {
    if (ValidUntil(*certificate) <= validity.until) continue;
    validity = {ValidFrom(*certificate), ValidUntil(*certificate)};
  }
  return validity;
}

void AddRole(X509& certificate, CertificateUse& use) {
  const std::vector<std::string> uris = UrisOf(certificate);
  if (use.tls.for_clients_only && !HasSpiffeId(uris)) return;
  use.id = uris.empty() ? "" : uris.front();
  if (uris.size() != 1) {
    // A client may be known by its certificate's subject instead (common/certificates).
    if (uris.empty() && use.roles.Has(Role::kClient)) return;
    use.role_fault = absl::StrCat("the certificate has ", uris.size(),
                                  " URIs, but must have exactly one SPIFFE id");
    return;
  }
  const absl::StatusOr<Peer> peer = ParsePeer(use.id);
  if (!peer.ok()) {
    use.role_fault = std::string(peer.status().message());
  } else if (!use.roles.Has(peer->role)) {
    use.role_fault = absl::StrCat("the certificate's role is ", RoleName(peer->role),
                                  ", but must be ", use.roles.Names());
  }
}

void AddLists(X509* certificate, absl::Time now, CertificateUse& use) {
  if (use.tls.crl_file.empty()) return;
  const absl::StatusOr<std::string> text = ReadRevocationFile(use.tls);
  use.lists = text.status();
  if (!text.ok()) return;
  const auto checked = CheckRevocationLists(use.tls, *text, now);
  use.lists = checked.status();
  const auto lists = ParseRevocationLists(*text);
  if (!lists.ok()) return;
  for (const RevocationList& list : *lists) {
    if (!use.list.has_value() || ValidUntil(*list) < use.list->until) {
      use.list = Validity{ValidFrom(*list), ValidUntil(*list)};
    }
    X509_REVOKED* entry = nullptr;
    use.revoked |=
        certificate != nullptr &&
        X509_NAME_cmp(X509_get_issuer_name(certificate), X509_CRL_get_issuer(list.get())) == 0 &&
        X509_CRL_get0_by_cert(list.get(), &entry, certificate) == 1;
  }
}

std::string TimeText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M UTC", time, absl::UTCTimeZone());
}

// Such as "6.3 days" or "14 minutes".
std::string SpanText(absl::Duration span) {
  const double hours = absl::ToDoubleHours(span);
  if (hours >= 48) return absl::StrFormat("%.1f days", hours / 24);
  return hours >= 2 ? absl::StrFormat("%.1f hours", hours)
                    : absl::StrFormat("%.0f minutes", hours * 60);
}

Finding Of(const CertificateUse& use, const char* check, const std::string& file) {
  return {.check = check, .subject = absl::StrCat(use.user, " ", file)};
}

Finding KeyFinding(const CertificateUse& use) {
  Finding finding = Of(use, "certificate.key_mode", use.tls.key_file);
  finding.found = absl::StrFormat("mode %04o", *use.key_mode);
  if (const std::string fault = SecretModeFault(*use.key_mode); !fault.empty()) {
    finding.verdict = Verdict::kFailed;
    absl::StrAppend(&finding.found, ": ", fault);
    finding.remedy = absl::StrCat(SecretModeRemedy(use.tls.key_file),
                                  ", and issue a new certificate if other people use this machine");
  } else if ((*use.key_mode & S_IRGRP) != 0) {
    finding.found += ": the file's group may read it";
  }
  return finding;
}

// The finding about something that is valid in `validity`; `renew` says how to get another.
Finding LifeFinding(Finding finding, const Validity& validity, absl::Time now, const char* renew) {
  const absl::Duration left = validity.until - now;
  const absl::Duration lifetime = validity.until - validity.from;
  if (now < validity.from) {
    finding.verdict = Verdict::kFailed;
    finding.found = absl::StrCat("not valid before ", TimeText(validity.from));
    finding.remedy = "wait, or correct this machine's clock";
  } else if (left < absl::ZeroDuration()) {
    finding.verdict = Verdict::kFailed;
    finding.found =
        absl::StrCat("expired at ", TimeText(validity.until), ", ", SpanText(-left), " ago");
    finding.remedy = renew;
  } else {
    finding.found = absl::StrCat("valid until ", TimeText(validity.until), ", ", SpanText(left),
                                 " of ", SpanText(lifetime));
    if (left < RenewalMargin(lifetime)) {
      finding.verdict = Verdict::kWarning;
      finding.remedy = absl::StrCat("find out why it was not renewed, or ", renew);
    }
  }
  return finding;
}

Finding RoleFinding(const CertificateUse& use) {
  Finding finding = Of(use, "certificate.role", use.tls.cert_file);
  finding.found = use.id;
  if (use.role_fault.empty()) {
    if (use.id.empty()) {
      finding.found = use.tls.for_clients_only
                          ? "no role, which this server does not need: its clients check its name"
                          : "a client's certificate without a SPIFFE id";
    }
    return finding;
  }
  finding.verdict = Verdict::kFailed;
  absl::StrAppend(&finding.found, finding.found.empty() ? "" : ": ", use.role_fault);
  finding.remedy = absl::StrCat("use a certificate with the role ", use.roles.Names(),
                                ": baton certs issue ROLE");
  return finding;
}

Finding ChainFinding(const CertificateUse& use) {
  Finding finding = Of(use, "certificate.chain", use.tls.cert_file);
  finding.found = absl::StrCat("signed by an authority in ", use.tls.ca_file);
  if (use.signed_by_authority) return finding;
  finding.verdict = Verdict::kFailed;
  finding.found = absl::StrCat("not signed by an authority in ", use.tls.ca_file);
  finding.remedy =
      "add the authority that signed it to the file of --tls-ca, or let the fleet's authority "
      "issue a new certificate";
  return finding;
}

Findings RevocationFindings(const CertificateUse& use, absl::Time now) {
  if (!use.tls.has_authority()) return {};  // callers show no certificates
  Finding finding = Of(use, "certificate.revocation", use.tls.crl_file);
  if (use.tls.crl_file.empty()) {
    finding = Of(use, "certificate.revocation",
                 use.tls.ca_file.empty() ? use.tls.client_ca_file : use.tls.ca_file);
    finding.verdict = Verdict::kSkipped;
    finding.found =
        "no --tls-crl is given, so a stolen key can be used until its certificate expires";
    return {finding};
  }
  if (use.list.has_value()) finding = LifeFinding(finding, *use.list, now, kNewList);
  if (!use.lists.ok() && finding.verdict != Verdict::kFailed) {
    finding.verdict = Verdict::kFailed;
    finding.found = std::string(use.lists.message());
    finding.remedy = kNewList;
  } else if (use.revoked) {
    finding.verdict = Verdict::kFailed;
    finding.found = absl::StrCat("the list revokes ", use.tls.cert_file);
    finding.remedy = kIssue;
  }
  return {finding};
}

}  // namespace

absl::Duration RenewalMargin(absl::Duration lifetime) {
  return std::min(lifetime / 4, absl::Hours(24 * 7));
}

CertificateUse GatherCertificateUse(const std::string& user, RoleSet roles, const TlsFlags& tls,
                                    absl::Time now) {
  CertificateUse use{.user = user, .roles = roles, .tls = tls};
  if (!tls.enabled()) return use;
  const absl::StatusOr<CertificateTexts> texts = ReadCertificateFiles(tls);
  use.files = texts.status();
  struct stat status {};
  if (!tls.key_file.empty() && stat(tls.key_file.c_str(), &status) == 0) {
    use.key_mode = status.st_mode & 0777;
  }
  if (!texts.ok()) return use;
  use.authorities = ValidityOfAuthorities(texts->roots);
  use.certificate = ValidityOf(texts->chain);
  // Dates are findings of their own: what else is wrong is found out for a moment of its life.
  const absl::Time in_life =
      use.certificate.has_value() && use.certificate->from <= use.certificate->until
          ? std::clamp(now, use.certificate->from, use.certificate->until)
          : now;
  const auto checked = CheckCertificates(tls, *texts, in_life);
  use.files = checked.status();
  if (checked.ok()) use.signed_by_authority = checked->signed_by_root;
  const auto chain = ParseCertificates(texts->chain);
  if (chain.ok()) AddRole(*chain->front(), use);
  AddLists(chain.ok() ? chain->front().get() : nullptr, now, use);
  return use;
}

Findings CertificateFindings(const CertificateUse& use, absl::Time now) {
  Finding files =
      Of(use, "certificate.files", use.tls.own_certificate() ? use.tls.cert_file : use.tls.ca_file);
  if (!use.tls.enabled()) {
    files.subject = use.user;
    files.verdict = Verdict::kSkipped;
    files.found = "no certificates are used";
    return {files};
  }
  if (!use.files.ok()) {
    files.verdict = Verdict::kFailed;
    files.found = std::string(use.files.message());
    files.remedy = use.tls.uses_ca()
                       ? "use files for --tls-cert, --tls-key and --tls-ca that belong together"
                       : "use files for --tls-cert and --tls-key that belong together";
    if (!use.certificate.has_value()) return {files};
  } else {
    files.found = use.tls.own_certificate() ? "the key matches the certificate"
                                            : "only authorities, and no certificate";
  }
  Findings findings = {files};
  if (use.key_mode.has_value()) findings.push_back(KeyFinding(use));
  if (use.certificate.has_value()) {
    findings.push_back(RoleFinding(use));
    if (use.files.ok() && !use.tls.for_clients_only) findings.push_back(ChainFinding(use));
    findings.push_back(LifeFinding(Of(use, "certificate.expiry", use.tls.cert_file),
                                   *use.certificate, now, use.id.empty() ? kRenew : kIssue));
  }
  if (use.authorities.has_value()) {
    findings.push_back(LifeFinding(Of(use, "certificate.expiry", use.tls.ca_file), *use.authorities,
                                   now, "add a new authority to the file, beside the old one"));
  }
  for (Finding& finding : RevocationFindings(use, now)) findings.push_back(std::move(finding));
  return findings;
}

}  // namespace baton
