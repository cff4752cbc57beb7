// The metrics of a server's certificates.
#pragma once

#include "common/certificates/credentials.h"
#include "common/net/metrics.h"

namespace baton {

// Says when the certificates and revocation lists that `tls` names end, and whether renewed ones
// were taken. REQUIRES: the credentials are secure, and made of `tls`.
void AddCertificateMetrics(const Credentials& credentials, const TlsFlags& tls, Metrics& metrics);

}  // namespace baton
