// The metrics of a server's certificates.
#pragma once

#include "common/certificates/credentials.h"
#include "common/net/metrics.h"

namespace baton {

// Says when the certificates and, where it `has_lists`, the revocation lists end, and whether renewed
// ones were taken. REQUIRES: the credentials are secure.
void AddCertificateMetrics(const Credentials& credentials, bool has_lists, Metrics& metrics);

}  // namespace baton
