#include "common/net/proxy_choice.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "common/base/address.h"

namespace baton {
namespace {

constexpr absl::string_view kScheme = "http://";

// An IPv4 or IPv6 address. IPv4 in IPv6 (::ffff:a.b.c.d) is IPv4.
struct NumericAddress {
  int bits = 0;  // 32 or 128
  std::array<uint8_t, 16> bytes{};
};

std::optional<NumericAddress> ParseNumeric(const std::string& text) {
  NumericAddress address;
  in6_addr v6{};
  if (inet_pton(AF_INET6, text.c_str(), &v6) == 1) {
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&v6);
    address.bits = mapped ? 32 : 128;
    std::copy(std::begin(v6.s6_addr) + (mapped ? 12 : 0), std::end(v6.s6_addr),
              address.bytes.begin());
    return address;
  }
  in_addr v4{};
  // What the resolver takes for an address is one here: 127.1, 0x7f000001.
  if (inet_aton(text.c_str(), &v4) == 0) return std::nullopt;
  address.bits = 32;
  const uint32_t value = ntohl(v4.s_addr);
  for (int i = 0; i < 4; ++i) {
    address.bytes[static_cast<size_t>(i)] = static_cast<uint8_t>(value >> (24 - 8 * i));
  }
  return address;
}

bool SameNetwork(const NumericAddress& a, const NumericAddress& b, int bits) {
  if (a.bits != b.bits) return false;
  for (int i = 0; i < bits; ++i) {
    const int difference =
        a.bytes[static_cast<size_t>(i / 8)] ^ b.bytes[static_cast<size_t>(i / 8)];
    if (((difference >> (7 - i % 8)) & 1) != 0) return false;
  }
  return true;
}

bool IsOfThisMachine(const std::string& host, const std::optional<NumericAddress>& numeric) {
  if (!numeric.has_value()) {
    const absl::string_view name = absl::StripSuffix(host, ".");
    return absl::EqualsIgnoreCase(name, "localhost") ||
           absl::EndsWithIgnoreCase(name, ".localhost");
  }
  const bool wildcard = std::all_of(numeric->bytes.begin(), numeric->bytes.end(),
                                    [](uint8_t byte) { return byte == 0; });
  if (numeric->bits == 32) return wildcard || numeric->bytes[0] == 127;
  NumericAddress loopback{.bits = 128, .bytes = {}};
  loopback.bytes[15] = 1;
  return wildcard || SameNetwork(*numeric, loopback, 128);
}

// Whether `entry` of a list of hosts without a proxy is an address or a range with `host` in it.
bool HoldsAddress(absl::string_view entry, const NumericAddress& host) {
  const std::pair<absl::string_view, absl::string_view> halves =
      absl::StrSplit(entry, absl::MaxSplits('/', 1));
  absl::string_view text = halves.first;
  absl::ConsumePrefix(&text, "[");
  absl::ConsumeSuffix(&text, "]");
  const std::optional<NumericAddress> network = ParseNumeric(std::string(text));
  if (!network.has_value()) return false;
  int bits = network->bits;
  const bool range = absl::StrContains(entry, '/');
  if (range && (!absl::SimpleAtoi(halves.second, &bits) || bits < 0 || bits > network->bits)) {
    return false;
  }
  return SameNetwork(*network, host, bits);
}

bool Excludes(absl::string_view list, const std::string& host,
              const std::optional<NumericAddress>& numeric) {
  const absl::string_view name = absl::StripSuffix(host, ".");
  for (absl::string_view entry : absl::StrSplit(list, absl::ByAnyChar(", \t"), absl::SkipEmpty())) {
    if (entry == "*" || absl::EndsWithIgnoreCase(host, entry)) return true;
    if (numeric.has_value()) {
      if (HoldsAddress(entry, *numeric)) return true;
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
  const std::optional<NumericAddress> numeric = ParseNumeric(parsed->host);
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
