// Whether other users may use the files in which a router has the hashes of API keys and the fleet's
// secret. (Private keys: client/doctor/certificate_findings.h.)
#pragma once

#include "client/doctor/finding.h"
#include "client/doctor/server_config.h"

namespace baton {

// A secret.mode for each of config.secrets.
Findings SecretFindings(const ServerConfig& config);

}  // namespace baton
