#include "client/certs/certs_command.h"

#include "absl/strings/str_cat.h"

#include "common/base/standard_output.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr absl::Duration kShortestLifetime = absl::Minutes(1);
constexpr absl::Duration kLongestLifetime = absl::Hours(24 * 36500);

// The flags that all commands have.
template <typename Options>
void AddCommonFlags(FlagSet& flags, Options& options) {
  flags.AddString("folder", options.folder, "Folder of the authority and its certificates");
  flags.AddDuration("lifetime", options.lifetime, kShortestLifetime, kLongestLifetime,
                    "How long what is made is valid (24h is a day)");
}

void AddForce(FlagSet& flags, bool& force) {
  flags.AddBool("force", force, "Replace files that are there");
}

}  // namespace

void CertsInitCommand::AddFlags(FlagSet& flags) {
  AddCommonFlags(flags, options_);
  AddForce(flags, options_.force);
  flags.AddString("trust-domain", options_.trust_domain,
                  "Name of the fleet in its certificates, in the form of a DNS name");
}

int CertsInitCommand::Run(const FlagSet&) {
  const absl::Status status = InitAuthority(options_);
  if (!status.ok()) return ExitUsage("baton certs init", status);
  WriteOutput(absl::StrCat("made the authority of spiffe://", options_.trust_domain, " in ",
                           options_.folder, "; keep ca.key apart from the servers\n"));
  return 0;
}

void CertsIssueCommand::AddFlags(FlagSet& flags) {
  AddCommonFlags(flags, options_);
  AddForce(flags, options_.force);
  flags.AddPositional("role", role_, "client, router, prefill, decode, front or operator");
  flags.AddString("name", options_.name,
                  "What tells parts of one role apart (the role's name, if not given)");
  flags.AddStrings("dns", options_.dns_names, "DNS names at which the server is called");
  flags.AddStrings("ip", options_.ip_addresses,
                   "IP addresses at which the server is called (loopback, without --dns and --ip)");
}

int CertsIssueCommand::Run(const FlagSet&) {
  const auto issue = [this]() -> absl::StatusOr<IssuedCertificate> {
    BATON_ASSIGN_OR_RETURN(options_.role, RoleFromName(role_.value_or("")));
    return IssueCertificate(options_);
  };
  const absl::StatusOr<IssuedCertificate> issued = issue();
  if (!issued.ok()) return ExitUsage("baton certs issue", issued.status());
  WriteOutput(absl::StrCat(issued->id, ": --tls-cert=", issued->certificate_path, " --tls-key=",
                           issued->key_path, " --tls-ca=", options_.folder, "/ca.crt\n"));
  return 0;
}

void CertsRevokeCommand::AddFlags(FlagSet& flags) {
  AddCommonFlags(flags, options_);
  flags.AddPositional("certificate", certificate_,
                      "a role, for all that it was issued; or a serial number in hexadecimal; "
                      "without it the list is only renewed");
  flags.AddString("name", options_.name, "With a role: the --name it was issued with");
}

int CertsRevokeCommand::Run(const FlagSet&) {
  options_.certificate = certificate_.value_or("");
  const absl::StatusOr<RevocationReport> report = RevokeCertificates(options_);
  if (!report.ok()) return ExitUsage("baton certs revoke", report.status());
  for (const std::string& serial : report->serials) {
    WriteOutput(absl::StrCat("revoked certificate ", serial, "\n"));
  }
  WriteOutput(absl::StrCat(report->list_path, " is good until ",
                           absl::FormatTime(report->good_until, absl::UTCTimeZone()),
                           "; put it where the servers' --tls-crl reads it\n"));
  return 0;
}

}  // namespace baton
