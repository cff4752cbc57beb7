#include "common/net/http_host.h"

#include <arpa/inet.h>

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace baton {
namespace {

bool IsHexDigit(char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); }

// RFC 3986's reg-name without its comma. IPv4 addresses are of that form too.
bool IsName(absl::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size() || !IsHexDigit(text[i + 1]) || !IsHexDigit(text[i + 2])) {
        return false;
      }
      i += 2;
    } else if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) &&
               !absl::StrContains("-._~!$&'()*+;=", c)) {
      return false;
    }
  }
  return !text.empty();
}

bool IsAddress(int family, absl::string_view text) {
  in6_addr address{};  // large enough for both families
  return inet_pton(family, std::string(text).c_str(), &address) == 1;
}

// Whether `host`, without a port, is an IPv6 address in brackets.
bool IsBracketed(absl::string_view host) {
  return absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]") &&
         IsAddress(AF_INET6, host);
}

bool IsPort(absl::string_view text) {
  constexpr size_t kMostDigits = 5;
  constexpr int kMost = 65535;
  if (text.empty()) return true;
  int port = 0;
  return text.size() <= kMostDigits &&
         text.find_first_not_of("0123456789") == absl::string_view::npos &&
         absl::SimpleAtoi(text, &port) && port <= kMost;
}

}  // namespace

bool IsHttpHost(absl::string_view text) {
  const absl::string_view host = WithoutPort(text);
  absl::string_view port = text.substr(host.size());
  if (absl::ConsumePrefix(&port, ":") ? !IsPort(port) : !port.empty()) return false;
  return absl::StartsWith(host, "[") ? IsBracketed(host) : IsName(host);
}

absl::string_view WithoutPort(absl::string_view host) {
  if (absl::StartsWith(host, "[")) return host.substr(0, host.rfind(']') + 1);
  return host.substr(0, host.find(':'));
}

bool IsNumericHost(absl::string_view host) {
  host = WithoutPort(host);
  return IsBracketed(host) || IsAddress(AF_INET, host);
}

}  // namespace baton
