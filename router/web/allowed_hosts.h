// The names by which a caller that shows no key may call the router over HTTP.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton {

// A page can make a name of its own mean the router's address (DNS rebinding), and then call the
// router as that name from a browser that reaches it. So only names that no stranger's DNS decides
// are allowed. By default these are localhost, 127.0.0.1 and [::1].
struct AllowedHosts {
  // Allows, too, IP addresses, names without a dot, and names below .local, .internal and .svc. The
  // local network decides what these names mean.
  bool trusted_network = false;
  // More names, as ReadAllowedHost returns them. "*" allows every host.
  std::vector<std::string> names{};
};

// Reads a value of --http-allow-host: a name or an address without a port, or "*". Returns it in
// lower case and without a trailing dot. INVALID_ARGUMENT for anything else.
absl::StatusOr<std::string> ReadAllowedHost(absl::string_view text);

// Whether a request without a key may name `host`, the value of a Host header, in any case and with
// or without a port. False for what is no host.
bool IsAllowed(const AllowedHosts& hosts, absl::string_view host);

}  // namespace baton
