// The flags of TLS, which servers and clients have.
#pragma once

#include <string>

#include "common/flags/flags.h"

namespace baton {

struct TlsFlags {
  std::string cert_file;  // --tls-cert: path of this process's certificate chain (PEM)
  std::string key_file;   // --tls-key: path of its private key (PEM)
  std::string ca_file;    // --tls-ca: path of the CA that signed the certificates of all peers
  // --tls-client-ca: path of another CA, which signs certificates of clients only; empty: none
  std::string client_ca_file;
  // --tls-crl: path of revocation lists (PEM) of these authorities; empty: nothing is revoked
  std::string crl_file;
  std::string server_name;  // --tls-server-name: name in peers' certificates; empty: their address
  bool insecure = false;    // --insecure: allow plain text beyond loopback
  // Not a flag: a server lets in callers without a certificate too, and finds out who they are.
  bool certificate_optional = false;
  // Not a flag: a server shows its certificate to clients alone. The certificate needs no role,
  // --tls-ca is optional, and clients' certificates are requested only if an authority is given.
  bool for_clients_only = false;

  bool enabled() const { return own_certificate() || !ca_file.empty(); }
  // Whether this process has a certificate. A client may have none, and show an API key instead.
  bool own_certificate() const { return !cert_file.empty() || !key_file.empty(); }
  // Whether --tls-ca is one of the files that are read.
  bool uses_ca() const { return !for_clients_only || !ca_file.empty(); }
  // Whether callers may show a certificate of their own.
  bool has_authority() const { return !ca_file.empty() || !client_ca_file.empty(); }
};

void AddTlsFlags(FlagSet& flags, TlsFlags& tls);

}  // namespace baton
