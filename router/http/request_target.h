// The target of a request line (RFC 9112, section 3.2; RFC 3986).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton {

struct RequestTarget {
  std::string path;         // its percent-encoding undone; "*" for the server as a whole
  std::string query;        // as sent, without the "?"
  std::string authority{};  // host[:port] of the absolute form, which replaces Host; empty: none
};

// Reads the target of a `method` request: "/path?query", "http://host/path?query", or "*" with
// OPTIONS. INVALID_ARGUMENT says what is wrong, such as a user in the authority. Pure; thread-safe.
absl::StatusOr<RequestTarget> ParseRequestTarget(absl::string_view method,
                                                 absl::string_view target);

// Returns the names and values of a query such as "a=b&c", in their order, with '+' and the
// percent-encoding undone. INVALID_ARGUMENT says what is wrong. Pure; thread-safe.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ParseQuery(
    absl::string_view query);

}  // namespace baton
