#include "common/certificates/tls_flags.h"

namespace baton {

void AddTlsFlags(FlagSet& flags, TlsFlags& tls) {
  flags.AddString("tls-cert", tls.cert_file, "PEM certificate chain of this process");
  flags.AddString("tls-key", tls.key_file, "PEM private key of --tls-cert");
  flags.AddString(
      "tls-ca", tls.ca_file,
      "PEM certificates of the authority that peers must be signed by; alone it is enough "
      "for a client with an API key");
  flags.AddString("tls-crl", tls.crl_file,
                  "PEM revocation lists of the authorities; peers whose certificate they name are "
                  "refused");
  flags.AddString("tls-server-name", tls.server_name,
                  "Name expected in peers' certificates, instead of the address called");
  flags.AddBool("insecure", tls.insecure,
                "Allow plain text beyond loopback, API keys included. A router without keys then "
                "serves everybody");
}

}  // namespace baton
