// The address of an HTTP server.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace baton {

struct HttpUrl {
  bool tls = false;
  std::string host;  // without brackets
  uint16_t port = 0;
  std::string path;  // without a slash at its end, such as "/v1"; often empty

  // As the header Host and the checks of addresses have it: the port always stands in it.
  std::string Authority() const;
  // The path of a route of OpenAI's API, such as "/completions", below "/v1".
  std::string RoutePath(const std::string& route) const;
};

// Parses the value of a flag --http: "http://host[:port][/path]", "https://..." or "host:port", in
// which an IPv6 address has brackets. `tls`: whether the form without a scheme means https.
// INVALID_ARGUMENT names the flag and what is wrong.
absl::StatusOr<HttpUrl> ParseHttpUrl(const std::string& text, bool tls = false);

}  // namespace baton
