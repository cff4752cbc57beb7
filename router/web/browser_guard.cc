#include "router/web/browser_guard.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

bool IsOwnOrigin(absl::string_view origin, absl::string_view host) {
  return (absl::ConsumePrefix(&origin, "http://") || absl::ConsumePrefix(&origin, "https://")) &&
         origin == host;
}

absl::Status CheckHost(const HttpRequest& head, const AllowedHosts& hosts,
                       absl::string_view remedy) {
  // HTTP/1.0 has no Host, and no browser speaks it.
  const absl::string_view host = head.Header("host");
  if (host.empty() || IsAllowed(hosts, host)) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("Host must be ",
                   hosts.trusted_network
                       ? "an IP address, localhost, this machine's name, a name without a dot, "
                         "or one below .local, .internal or .svc"
                       : "localhost, 127.0.0.1 or [::1]",
                   ", is ", LogSafe(host), "; ", remedy));
}

// Whether `parameter` of a Content-Type says that the text is not UTF-8. ASCII is UTF-8.
bool HasOtherCharset(absl::string_view parameter) {
  const std::pair<absl::string_view, absl::string_view> named =
      absl::StrSplit(parameter, absl::MaxSplits('=', 1));
  if (!absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(named.first), "charset")) return false;
  absl::string_view charset = absl::StripAsciiWhitespace(named.second);
  if (absl::ConsumePrefix(&charset, "\"")) absl::ConsumeSuffix(&charset, "\"");
  constexpr absl::string_view kTaken[] = {"utf-8", "utf8", "us-ascii", "ascii"};
  return std::none_of(std::begin(kTaken), std::end(kTaken), [charset](absl::string_view taken) {
    return absl::EqualsIgnoreCase(charset, taken);
  });
}

}  // namespace

absl::Status CheckNoForeignPage(const HttpRequest& head, const AllowedHosts& hosts,
                                const std::vector<std::string>& origins) {
  BATON_RETURN_IF_ERROR(CheckHost(head, hosts,
                                  "the router's --http-allow-host allows more names, and with "
                                  "--serve-key-file or --api-keys a caller that shows a key may "
                                  "use any"));
  const absl::string_view origin = head.Header("origin");
  const bool allowed =
      origin.empty() || std::find(origins.begin(), origins.end(), origin) != origins.end();
  if (allowed || std::find(origins.begin(), origins.end(), "*") != origins.end()) {
    return absl::OkStatus();
  }
  // A page of this router's own, or of a program of this machine on another port? Only the former.
  if (IsOwnOrigin(origin, head.Header("host"))) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("web pages from ", LogSafe(std::string(origin)),
                   " may not call this router; its flag --http-cors-origin can allow them"));
}

absl::Status CheckPageOfThisMachine(const HttpRequest& head) {
  BATON_RETURN_IF_ERROR(
      CheckHost(head, AllowedHosts{}, "access by any other name needs an operator's key"));
  const absl::string_view origin = head.Header("origin");
  if (origin.empty() || IsOwnOrigin(origin, head.Header("host"))) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("web pages from ", LogSafe(origin),
                                                  " may not read the router's page and metrics"));
}

absl::Status CheckOwnPage(const HttpRequest& head) {
  const absl::string_view origin = head.Header("origin");
  const absl::string_view site = head.Header("sec-fetch-site");
  const bool own_origin = origin.empty() || IsOwnOrigin(origin, head.Header("host"));
  if (own_origin && (site.empty() || site == "same-origin" || site == "none")) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      "a web page from another origin may not use the credentials that the browser stores for this "
      "router");
}

absl::Status CheckContentEncoding(const HttpRequest& head) {
  for (const std::string& value : head.HeaderValues("content-encoding")) {
    for (absl::string_view coding : absl::StrSplit(value, ',')) {
      coding = absl::StripAsciiWhitespace(coding);
      if (coding.empty() || absl::EqualsIgnoreCase(coding, "identity")) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("Content-Encoding ", LogSafe(coding),
                       " is not supported; send the body uncompressed, without Content-Encoding"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckContentType(const HttpRequest& head, bool needed) {
  const absl::string_view type = head.Header("content-type");
  if (type.empty() && !needed) return absl::OkStatus();
  const std::vector<absl::string_view> parts = absl::StrSplit(type, ';');
  if (!absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(parts.front()), "application/json")) {
    return absl::InvalidArgumentError("Content-Type must be application/json");
  }
  if (std::any_of(parts.begin() + 1, parts.end(), HasOtherCharset)) {
    return absl::InvalidArgumentError(
        absl::StrCat("Content-Type ", LogSafe(type),
                     " has a charset that is not supported; send the body as UTF-8"));
  }
  return absl::OkStatus();
}

}  // namespace baton
