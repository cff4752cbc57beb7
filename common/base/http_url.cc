#include "common/base/http_url.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "common/base/address.h"

namespace baton {

std::string HttpUrl::Authority() const { return HostPort{.host = host, .port = port}.ToString(); }

std::string HttpUrl::RoutePath(const std::string& route) const {
  return absl::StrCat(path, absl::EndsWith(path, "/v1") ? "" : "/v1", route);
}

absl::StatusOr<HttpUrl> ParseHttpUrl(const std::string& text, bool tls) {
  const auto wrong = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--http '", text, "': ", why, "; write host:port, http://host:port or https://host:port"));
  };
  HttpUrl url;
  absl::string_view rest = text;
  bool has_scheme = true;
  if (absl::ConsumePrefix(&rest, "https://")) {
    url.tls = true;
  } else if (!absl::ConsumePrefix(&rest, "http://")) {
    if (absl::StrContains(rest, "://")) return wrong("does not begin with http:// or https://");
    has_scheme = false;
    url.tls = tls;
  }
  if (!std::all_of(rest.begin(), rest.end(),
                   [](char c) { return absl::ascii_isgraph(static_cast<unsigned char>(c)); }) ||
      rest.find_first_of("?#@") != absl::string_view::npos) {
    return wrong("must have only a host, a port and a path");
  }
  const size_t slash = std::min(rest.find('/'), rest.size());
  std::string authority(rest.substr(0, slash));
  absl::string_view path = rest.substr(slash);
  while (absl::ConsumeSuffix(&path, "/")) continue;
  url.path = std::string(path);
  const size_t after_brackets = authority.rfind(']') + 1;  // 0 without brackets
  if (has_scheme && authority.find(':', after_brackets) == std::string::npos) {
    absl::StrAppend(&authority, url.tls ? ":443" : ":80");
  }
  const absl::StatusOr<HostPort> address = ParseHostPort(authority);
  if (!address.ok()) return wrong(address.status().message());
  url.host = address->host;
  url.port = address->port;
  return url;
}

}  // namespace baton
