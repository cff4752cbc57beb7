// IP addresses and ranges of them as numbers. Pure and thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace baton {

// An IPv4 or IPv6 address. IPv4 in IPv6 (::ffff:a.b.c.d) is IPv4.
struct NumericAddress {
  int bits = 0;                     // 32 or 128
  std::array<uint8_t, 16> bytes{};  // the first bits / 8 count

  friend bool operator==(const NumericAddress&, const NumericAddress&) = default;
};

// Reads an address without brackets. What the resolver takes for an address is one here too: 127.1,
// 0x7f000001. Returns nullopt for a name.
std::optional<NumericAddress> ParseNumericAddress(const std::string& text);

// The usual text of the address, without brackets: 127.0.0.1 for 127.1.
std::string NumericText(const NumericAddress& address);

// 0.0.0.0 and ::, which stand for all addresses of a machine.
bool IsWildcard(const NumericAddress& address);

// The addresses that begin with the same bits as `network`.
struct AddressRange {
  NumericAddress network;
  int bits = 0;  // 0 to network.bits

  bool Contains(const NumericAddress& address) const;
};

// Reads a range in CIDR form (10.0.0.0/8, 2001:db8::/32) or one address, with or without brackets.
std::optional<AddressRange> ParseAddressRange(absl::string_view text);

}  // namespace baton
