#include "common/net/proxy_choice.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "common/base/address.h"
#include "common/base/numeric_address.h"

namespace baton {
namespace {

constexpr absl::string_view kScheme = "http://";

bool IsOfThisMachine(const std::string& host, const std::optional<NumericAddress>& numeric) {
  if (!numeric.has_value()) {
    const absl::string_view name = absl::StripSuffix(host, ".");
    return absl::EqualsIgnoreCase(name, "localhost") ||
           absl::EndsWithIgnoreCase(name, ".localhost");
  }
  if (IsWildcard(*numeric)) return true;
  if (numeric->bits == 32) return numeric->bytes[0] == 127;
  NumericAddress loopback{.bits = 128, .bytes = {}};
  loopback.bytes[15] = 1;
  return *numeric == loopback;
}

bool Excludes(absl::string_view list, const std::string& host,
              const std::optional<NumericAddress>& numeric) {
  const absl::string_view name = absl::StripSuffix(host, ".");
  for (absl::string_view entry : absl::StrSplit(list, absl::ByAnyChar(", \t"), absl::SkipEmpty())) {
    if (entry == "*" || absl::EndsWithIgnoreCase(host, entry)) return true;
    if (numeric.has_value()) {
      const std::optional<AddressRange> range = ParseAddressRange(entry);
      if (range.has_value() && range->Contains(*numeric)) return true;
      continue;
    }
    absl::ConsumePrefix(&entry, ".");
    absl::ConsumeSuffix(&entry, ".");
    if (!entry.empty() && absl::EndsWithIgnoreCase(name, entry)) return true;
  }
  return false;
}

// Fills the URLs of `choice` from the value of its variable.
void TakeUrl(absl::string_view value, ProxyChoice& choice) {
  const bool has_scheme = absl::StrContains(value, "://");
  const std::string url = has_scheme ? std::string(value) : absl::StrCat(kScheme, value);
  const size_t authority_begin = url.find("://") + 3;
  const size_t authority_end = std::min(url.find_first_of("/?#", authority_begin), url.size());
  const std::string authority = url.substr(authority_begin, authority_end - authority_begin);
  // gRPC decodes the authority before it looks for the user's end.
  const std::string decoded = absl::StrReplaceAll(authority, {{"%40", "@"}});
  const size_t host = authority.rfind('@') + 1;  // 0 without a user
  const std::string scheme = url.substr(0, authority_begin);
  choice.shown_url = absl::StrCat(scheme, authority.substr(host));
  const bool readable = std::count(decoded.begin(), decoded.end(), '@') <= 1 &&
                        authority.size() > host &&
                        authority.find_first_of(" \t") == std::string::npos;
  if (scheme == kScheme && readable) choice.url = absl::StrCat(scheme, authority);
}

}  // namespace

std::optional<std::string> ReadEnvironment(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

ProxyChoice ChooseProxy(absl::string_view address, const EnvironmentReader& variable) {
  if (absl::StartsWith(address, "unix:")) return {};
  const auto parsed = ParseHostPort(address);
  if (!parsed.ok()) return {};
  const std::optional<NumericAddress> numeric = ParseNumericAddress(parsed->host);
  if (IsOfThisMachine(parsed->host, numeric)) return {};
  for (const char* const name : {"no_grpc_proxy", "no_proxy", "NO_PROXY"}) {
    const std::optional<std::string> list = variable(name);
    if (!list.has_value()) continue;
    if (Excludes(*list, parsed->host, numeric)) return {};
    break;
  }
  for (const char* const name : {"grpc_proxy", "https_proxy", "http_proxy"}) {
    const std::optional<std::string> value = variable(name);
    if (!value.has_value()) continue;
    ProxyChoice choice;
    if (value->empty()) return choice;
    choice.variable = name;
    TakeUrl(*value, choice);
    return choice;
  }
  return {};
}

}  // namespace baton
