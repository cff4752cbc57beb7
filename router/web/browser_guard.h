// Keeps web pages in a browser from using a router that requires no key.
#pragma once

#include <vector>

#include "absl/status/status.h"

#include "router/http/message.h"
#include "router/web/allowed_hosts.h"

namespace baton {

// A request that shows no key comes from a program of this machine, or from a page that its browser
// has loaded from anywhere. PERMISSION_DENIED unless Host is one of `hosts` and Origin, if there is
// one, is that or one of `origins`.
absl::Status CheckNoForeignPage(const HttpRequest& head, const AllowedHosts& hosts,
                                const std::vector<std::string>& origins);

// The same for the router's own page and its metrics, which only loopback names open, and which no
// other origin reads.
absl::Status CheckPageOfThisMachine(const HttpRequest& head);

// A browser sends a known password with every request to this host, from whichever page.
// PERMISSION_DENIED if the browser reports another page than this router's own: by an Origin that
// is not Host, or a Sec-Fetch-Site other than same-origin and none.
absl::Status CheckOwnPage(const HttpRequest& head);

// INVALID_ARGUMENT unless the body comes as it is: Content-Encoding is absent or identity.
absl::Status CheckContentEncoding(const HttpRequest& head);

// INVALID_ARGUMENT unless Content-Type is application/json, which a page can only send to another
// origin after asking, in UTF-8. `needed`: it must be there.
absl::Status CheckContentType(const HttpRequest& head, bool needed);

}  // namespace baton
