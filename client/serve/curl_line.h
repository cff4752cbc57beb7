// The line by which `baton serve` shows how to try its HTTP API.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

#include "common/certificates/tls_flags.h"

namespace baton {

// Returns the command by which a person can try the server at `address` (host:port), indented and
// without the end of the line. The key comes from the variable BATON_API_KEY. With TLS the command
// calls a host that the server's certificate names, gives curl the certificate unless this machine
// trusts who signed it, and shows a client's certificate if clients need no key. Reads the files of
// `tls`, the server's flags. Thread-safe.
std::string CurlLine(absl::string_view address, bool needs_key, const TlsFlags& tls);

}  // namespace baton
