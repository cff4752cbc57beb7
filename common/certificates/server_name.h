// Decides by a certificate how ordinary HTTPS clients reach a server and whether they trust it.
// Thread-safe; reads no files but the machine's authorities.
#pragma once

#include <string>

namespace baton {

// Returns a host that clients can call and for which the certificate is valid. `chain` is PEM, the
// server's own certificate first, and `host` is where the server listens. Returns `host` if the
// certificate names it, else another host that the certificate names, else `host`. If the server
// listens on loopback or on all addresses (0.0.0.0, ::), names of loopback come first; otherwise
// they are left out.
std::string HostToCall(const std::string& chain, const std::string& host);

// Returns whether an authority that this machine's programs trust by default has signed the
// certificate, as curl finds without --cacert. False if the certificate is not valid now.
bool IsPubliclyTrusted(const std::string& chain);

}  // namespace baton
