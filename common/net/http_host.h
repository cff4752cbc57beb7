// The host that an HTTP request names: the header Host, or the authority of its target.
#pragma once

#include "absl/strings/string_view.h"

namespace baton {

// Whether `text` is host[:port] by RFC 3986: a name, an IPv4 address, or an IPv6 address in
// brackets; a port is empty or at most 65535. A name must not be empty and has no comma, which
// would join two values of a header.
bool IsHttpHost(absl::string_view text);

// `host` without its port: "localhost:80" -> "localhost", "[::1]:80" -> "[::1]".
// REQUIRES: IsHttpHost(host).
absl::string_view WithoutPort(absl::string_view host);

// Whether `host` is an IPv4 address, or an IPv6 address in brackets. No DNS answer changes what it
// means. REQUIRES: IsHttpHost(host).
bool IsNumericHost(absl::string_view host);

}  // namespace baton
