#include "common/base/numeric_address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace baton {

std::optional<NumericAddress> ParseNumericAddress(const std::string& text) {
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
  if (inet_aton(text.c_str(), &v4) == 0) return std::nullopt;
  address.bits = 32;
  const uint32_t value = ntohl(v4.s_addr);
  for (int i = 0; i < 4; ++i) {
    address.bytes[static_cast<size_t>(i)] = static_cast<uint8_t>(value >> (24 - 8 * i));
  }
  return address;
}

std::string NumericText(const NumericAddress& address) {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(address.bits == 32 ? AF_INET : AF_INET6, address.bytes.data(), text, sizeof(text));
  return text;
}

bool IsWildcard(const NumericAddress& address) {
  return std::all_of(address.bytes.begin(), address.bytes.end(),
                     [](uint8_t byte) { return byte == 0; });
}

bool AddressRange::Contains(const NumericAddress& address) const {
  if (network.bits != address.bits) return false;
  for (int i = 0; i < bits; ++i) {
    const int difference =
        network.bytes[static_cast<size_t>(i / 8)] ^ address.bytes[static_cast<size_t>(i / 8)];
    if (((difference >> (7 - i % 8)) & 1) != 0) return false;
  }
  return true;
}

std::optional<AddressRange> ParseAddressRange(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> halves =
      absl::StrSplit(text, absl::MaxSplits('/', 1));
  absl::string_view network = halves.first;
  absl::ConsumePrefix(&network, "[");
  absl::ConsumeSuffix(&network, "]");
  const std::optional<NumericAddress> address = ParseNumericAddress(std::string(network));
  if (!address.has_value()) return std::nullopt;
  AddressRange range{.network = *address, .bits = address->bits};
  if (absl::StrContains(text, '/') && (!absl::SimpleAtoi(halves.second, &range.bits) ||
                                       range.bits < 0 || range.bits > address->bits)) {
    return std::nullopt;
  }
  return range;
}

}  // namespace baton
