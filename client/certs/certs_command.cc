#include "client/certs/certs_command.h"

#include <string>

#include "absl/strings/str_cat.h"

#include "common/base/standard_output.h"
#include "common/base/status_macros.h"
#include "common/flags/flag_group.h"

namespace baton {
namespace {

constexpr absl::Duration kShortestLifetime = absl::Minutes(1);
constexpr absl::Duration kLongestLifetime = absl::Hours(24 * 36500);

// Adds the flags that all commands have. `signed_thing` is what the command signs.
template <typename Options>
void AddCommonFlags(FlagSet& flags, const std::string& signed_thing, Options& options) {
  flags.SetGroup(FlagGroup::kGeneral);
  flags.AddString("folder=FOLDER", options.folder,
                  "Folder of the certificate authority and the certificates that it issues");
  flags.AddDuration("lifetime", options.lifetime, kShortestLifetime, kLongestLifetime,
                    absl::StrCat("Time for which the ", signed_thing, " is valid; 24h is a day"));
}

void AddForce(FlagSet& flags, bool& force) {
  flags.AddBool("force", force, "Overwrite files that already exist");
}

}  // namespace

void CertsInitCommand::AddFlags(FlagSet& flags) {
  AddCommonFlags(flags, "authority", options_);
  AddForce(flags, options_.force);
  flags.AddString("trust-domain=NAME", options_.trust_domain,
                  "Name of the fleet in its certificates, in the form of a DNS name");
  flags.AddExample("baton certs init", "Create an authority in the folder `certs`");
  flags.AddExample("baton certs init --folder pki --trust-domain baton.example.org",
                   "Create an authority in the folder `pki`, for a fleet with a name of its own");
}

int CertsInitCommand::Run(const FlagSet&) {
  const absl::Status status = InitAuthority(options_);
  if (!status.ok()) return ExitUsage("baton certs init", status);
  WriteOutput(absl::StrCat("made the authority of spiffe://", options_.trust_domain, " in ",
                           options_.folder, "; keep ca.key apart from the servers\n"));
  return 0;
}

void CertsIssueCommand::AddFlags(FlagSet& flags) {
  AddCommonFlags(flags, "certificate", options_);
  AddForce(flags, options_.force);
  flags.AddPositional("ROLE", role_,
                      "Role of the holder: client, router, prefill, decode, front (a proxy before "
                      "the router) or operator");
  flags.AddString("name=NAME", options_.name,
                  "Name of the holder, if several have the same role; without it, the role's name");
  flags.AddStrings("dns=NAME", options_.dns_names,
                   "DNS names under which clients reach the server; repeat or separate by commas");
  flags.AddStrings("ip=ADDRESS", options_.ip_addresses,
                   "IP addresses at which clients reach the server; if neither --dns nor --ip is "
                   "given, loopback");
  flags.AddExample("baton certs issue decode --ip 10.0.0.3",
                   "Create certs/decode.crt and certs/decode.key");
  flags.AddExample("baton certs issue prefill --name p2 --dns p2.example.org",
                   "Create a certificate for the second prefill worker");
  flags.AddExample("baton certs issue client", "Create a certificate for clients");
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
  AddCommonFlags(flags, "revocation list", options_);
  flags.AddPositional("CERTIFICATE", certificate_,
                      "Role whose certificates are revoked, or the serial number of one "
                      "certificate in hexadecimal; without it, the list is only renewed");
  flags.AddString("name=NAME", options_.name,
                  "Name that was given to `baton certs issue` for this role; without it, the "
                  "role's name");
  flags.AddExample("baton certs revoke prefill --name p2",
                   "Revoke all certificates of the prefill worker p2");
  flags.AddExample("baton certs revoke", "Renew the revocation list before it expires");
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
