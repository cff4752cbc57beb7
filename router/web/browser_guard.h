// Keeps pages in a browser from using a router that asks nobody for a key.
#pragma once

#include <vector>

#include "absl/status/status.h"

#include "router/http/message.h"

namespace baton {

// A request that shows no key comes from a program of this machine, or from a page that its browser
// has loaded from anywhere. PERMISSION_DENIED unless Host is localhost, 127.0.0.1 or [::1] (a page
// can make any other name mean this machine) and Origin, where there is one, is that or one of
// `origins`.
absl::Status CheckNoForeignPage(const HttpRequest& head, const std::vector<std::string>& origins);

// INVALID_ARGUMENT unless Content-Type is application/json, which a page can only send to another
// origin after asking. `needed`: it must be there.
absl::Status CheckContentType(const HttpRequest& head, bool needed);

}  // namespace baton
