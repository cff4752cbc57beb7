// `baton doctor` says what is wrong on this machine and in a fleet, and what to do.
#pragma once

#include <string>
#include <vector>

#include "client/doctor/finding.h"
#include "client/doctor/port_check.h"
#include "client/doctor/server_config.h"
#include "common/certificates/tls_flags.h"
#include "common/flags/command.h"

namespace baton {

// Looks at the machine, at the files of the servers that are given, and at the servers that it is
// given; changes nothing and contacts no other server. Prints a line for each check, or JSON. Exit
// codes: 0 if nothing failed, 1 if something did, 2 with wrong flags, and those of WriteOutput.
class DoctorCommand : public Command {
 public:
  void AddFlags(FlagSet& flags) override;
  int Run(const FlagSet& flags) override;

 private:
  // What the given files say. Adds a finding for each, and leaves out those that cannot be read.
  std::vector<ServerConfig> ReadConfigs(Findings& findings) const;
  // The addresses that the servers open; without files those of `baton serve`.
  std::vector<PortFacts> GatherPorts(const std::vector<ServerConfig>& configs) const;
  void CheckModels(const std::vector<ServerConfig>& configs, const std::vector<PortFacts>& ports,
                   Findings& findings) const;
  void CheckFiles(const std::vector<ServerConfig>& configs, Findings& findings) const;
  void CheckServers(const std::vector<ServerConfig>& configs, Findings& findings) const;
  // The fleet and the clock, by the HTTP of a router.
  void CheckFleet(const std::vector<PortFacts>& ports, Findings& findings) const;

  std::vector<std::string> config_files_;
  std::string model_, server_, http_, api_key_file_;
  TlsFlags tls_;
  bool json_ = false;
};

}  // namespace baton
