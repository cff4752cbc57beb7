#include "common/base/own_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

namespace baton {
namespace {

bool CanBind(const sockaddr* address, socklen_t size) {
  const int descriptor = socket(address->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return false;
  const bool bound = bind(descriptor, address, size) == 0;
  close(descriptor);
  return bound;
}

}  // namespace

bool IsOwnAddress(const NumericAddress& address) {
  if (IsWildcard(address)) return false;
  if (address.bits == 32) {
    sockaddr_in ipv4{};
    ipv4.sin_family = AF_INET;
    std::copy_n(address.bytes.begin(), 4, reinterpret_cast<uint8_t*>(&ipv4.sin_addr));
    return CanBind(reinterpret_cast<const sockaddr*>(&ipv4), sizeof(ipv4));
  }
  sockaddr_in6 ipv6{};
  ipv6.sin6_family = AF_INET6;
  std::copy_n(address.bytes.begin(), 16, reinterpret_cast<uint8_t*>(&ipv6.sin6_addr));
  return CanBind(reinterpret_cast<const sockaddr*>(&ipv6), sizeof(ipv6));
}

}  // namespace baton
