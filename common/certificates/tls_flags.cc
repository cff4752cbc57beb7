#include "common/certificates/tls_flags.h"

#include "common/flags/flag_group.h"

namespace baton {

void AddTlsFlags(FlagSet& flags, TlsFlags& tls) {
  flags.SetGroup(FlagGroup::kSecurity);
  flags.AddString("tls-cert=FILE", tls.cert_file,
                  "Certificate chain of this process (PEM); needs --tls-key");
  flags.AddString("tls-key=FILE", tls.key_file, "Private key of --tls-cert (PEM)");
  flags.AddString("tls-ca=FILE", tls.ca_file,
                  "CA that must have signed the peer's certificate (PEM). A client with an API key "
                  "needs no other --tls flag");
  flags.AddString("tls-crl=FILE", tls.crl_file,
                  "Revocation lists of the CAs (PEM); peers with a revoked certificate are "
                  "rejected");
  flags.AddString("tls-server-name=NAME", tls.server_name,
                  "Name that the peer's certificate must contain; empty: the host that was called");
  flags.AddBool("insecure", tls.insecure,
                "Allow unencrypted connections beyond loopback, even with API keys; without keys, "
                "any client is accepted");
}

}  // namespace baton
