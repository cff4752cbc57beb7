#include "router/web/allowed_hosts.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "common/base/log.h"
#include "common/net/http_host.h"

namespace baton {
namespace {

constexpr char kEveryHost[] = "*";

// `host` without its port and trailing dot, in lower case.
std::string Normal(absl::string_view host) {
  return absl::AsciiStrToLower(absl::StripSuffix(WithoutPort(host), "."));
}

bool IsLoopbackName(absl::string_view name) {
  return name == "localhost" || name == "127.0.0.1" || name == "[::1]";
}

// Whether public DNS has no such name. Percent-encoding, which might hide a dot, does not count.
bool IsLocalName(absl::string_view name) {
  // Kubernetes' svc.cluster.local is below .local.
  constexpr std::array<absl::string_view, 3> kLocalDomains = {".local", ".internal", ".svc"};
  const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("-_.", c);
  });
  if (!plain) return false;
  return !absl::StrContains(name, '.') ||
         std::any_of(kLocalDomains.begin(), kLocalDomains.end(),
                     [name](absl::string_view domain) { return absl::EndsWith(name, domain); });
}

}  // namespace

absl::StatusOr<std::string> ReadAllowedHost(absl::string_view text) {
  if (text == kEveryHost) return std::string(text);
  if (IsHttpHost(text) && WithoutPort(text) == text && !absl::StrContains(text, '*')) {
    return Normal(text);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", LogSafe(text),
                   "': must be a name or an address without a port, as in llm.example.org, "
                   "192.0.2.1 or [2001:db8::1], or * for any"));
}

bool IsAllowed(const AllowedHosts& hosts, absl::string_view host) {
  if (!IsHttpHost(host)) return false;
  const std::string name = Normal(host);
  if (IsLoopbackName(name)) return true;
  if (hosts.trusted_network && (IsNumericHost(name) || IsLocalName(name))) return true;
  return std::any_of(hosts.names.begin(), hosts.names.end(), [&name](const std::string& allowed) {
    return allowed == name || allowed == kEveryHost;
  });
}

}  // namespace baton
