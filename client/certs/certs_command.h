// `baton certs` makes the certificates and the secret of a fleet.
#pragma once

#include <optional>
#include <string>

#include "client/certs/certificate_authority.h"
#include "client/certs/certificate_revocation.h"
#include "common/flags/command.h"

namespace baton {

// Makes a certificate authority and the fleet's secret. Exit codes here and below: 0, or 2 with one
// line on stderr.
class CertsInitCommand : public Command {
 public:
  void AddFlags(FlagSet& flags) override;
  int Run(const FlagSet& flags) override;

 private:
  AuthorityOptions options_;
};

// Makes a role's certificate, signed by that authority, and prints where it is.
class CertsIssueCommand : public Command {
 public:
  void AddFlags(FlagSet& flags) override;
  int Run(const FlagSet& flags) override;

 private:
  IssueOptions options_;
  std::optional<std::string> role_;
};

// Revokes certificates of that authority, or makes its list last longer.
class CertsRevokeCommand : public Command {
 public:
  void AddFlags(FlagSet& flags) override;
  int Run(const FlagSet& flags) override;

 private:
  RevokeOptions options_;
  std::optional<std::string> certificate_;
};

}  // namespace baton
