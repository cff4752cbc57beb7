#include "router/http/request_target.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

#include "common/base/status_macros.h"
#include "common/net/http_host.h"

namespace baton {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = absl::ascii_tolower(static_cast<unsigned char>(c));
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// Undoes the percent-encoding of `path`, which errors call `what`.
absl::StatusOr<std::string> Decoded(absl::string_view path, const char* what) {
  std::string decoded;
  decoded.reserve(path.size());
  for (size_t i = 0; i < path.size(); ++i) {
    char c = path[i];
    if (c == '%') {
      const int high = i + 2 < path.size() ? HexDigit(path[i + 1]) : -1;
      const int low = i + 2 < path.size() ? HexDigit(path[i + 2]) : -1;
      if (high < 0 || low < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat(what,
                         " has a '%' that is not followed by two hexadecimal digits; write %25 for "
                         "a plain '%'"));
      }
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (c == '\0') {
      return absl::InvalidArgumentError(absl::StrCat(what, " contains a zero byte (%00)"));
    }
    decoded.push_back(c);
  }
  return decoded;
}

// Splits "http://host/path?query" into its authority and "/path?query", which begins with "/".
absl::Status SplitAbsolute(absl::string_view target, std::string& authority, std::string& origin) {
  for (const absl::string_view scheme : {"http://", "https://"}) {
    if (!absl::StartsWithIgnoreCase(target, scheme)) continue;
    target.remove_prefix(scheme.size());
    const size_t end = std::min(target.find_first_of("/?"), target.size());
    authority = std::string(target.substr(0, end));
    if (absl::StrContains(authority, '@')) {
      return absl::InvalidArgumentError(
          "the target of the request contains a user name; leave it out");
    }
    if (!IsHttpHost(authority)) {
      return absl::InvalidArgumentError("the target of the request has no valid host");
    }
    origin = absl::StrCat(absl::StartsWith(target.substr(end), "/") ? "" : "/", target.substr(end));
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("the target of the request must be a path, such as /v1");
}

}  // namespace

absl::StatusOr<RequestTarget> ParseRequestTarget(absl::string_view method,
                                                 absl::string_view target) {
  if (target == "*" && method == "OPTIONS") return RequestTarget{.path = "*", .query = ""};
  std::string authority, origin(target);
  if (!absl::StartsWith(target, "/")) {
    BATON_RETURN_IF_ERROR(SplitAbsolute(target, authority, origin));
  }
  for (const char c : origin) {
    // RFC 3986 has neither of them; the rest of what it has not is left to the routes.
    if (c == '#' || c == '\\') {
      return absl::InvalidArgumentError("the target of the request has a '#' or a '\\'");
    }
  }
  const size_t mark = origin.find('?');
  absl::StatusOr<std::string> path = Decoded(absl::string_view(origin).substr(0, mark), "the path");
  if (!path.ok()) return path.status();
  return RequestTarget{.path = *std::move(path),
                       .query = mark == std::string::npos ? "" : origin.substr(mark + 1),
                       .authority = std::move(authority)};
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ParseQuery(
    absl::string_view query) {
  std::vector<std::pair<std::string, std::string>> parameters;
  for (const absl::string_view parameter : absl::StrSplit(query, '&', absl::SkipEmpty())) {
    const std::string plain = absl::StrReplaceAll(parameter, {{"+", " "}});
    const size_t equals = std::min(plain.find('='), plain.size());
    const absl::string_view text = plain;
    BATON_ASSIGN_OR_RETURN(std::string name, Decoded(text.substr(0, equals), "the query"));
    BATON_ASSIGN_OR_RETURN(std::string value,
                           Decoded(text.substr(std::min(equals + 1, text.size())), "the query"));
    parameters.emplace_back(std::move(name), std::move(value));
  }
  return parameters;
}

}  // namespace baton
