// Whether other users may use the files in which a router has API keys, their hashes, and the
// fleet's secret. (Private keys: client/doctor/certificate_findings.h.)
#pragma once

#include "client/doctor/finding.h"
#include "client/doctor/server_config.h"

namespace baton {

// A secret.mode for each of config.secrets, and for config.serve_keys.
Findings SecretFindings(const ServerConfig& config);

}  // namespace baton
