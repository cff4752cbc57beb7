#include "client/serve/reserved_port.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"

#include "common/base/address.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

// Returns a socket that is bound to the address in `info` with `port` (0: a free one), or -1. Sets
// `port` to the bound one.
int BindWithoutListening(const addrinfo& info, uint16_t& port) {
  const int fd = socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  sockaddr_storage address{};
  std::memcpy(&address, info.ai_addr, info.ai_addrlen);
  const bool v6 = info.ai_family == AF_INET6;
  uint16_t& network_port = v6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                              : reinterpret_cast<sockaddr_in&>(address).sin_port;
  network_port = htons(port);
  // Without SO_REUSEADDR, by which sockets of other users could bind the port too.
  const int on = 1;
  bool bound = setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) == 0;
  if (v6) {
    // As an Acceptor: [::] is every address of the machine, IPv4's too.
    const in6_addr& host = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    const int v6_only = IN6_IS_ADDR_UNSPECIFIED(&host) ? 0 : 1;
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof(v6_only));
  }
  socklen_t length = info.ai_addrlen;
  bound = bound && bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
          getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  if (!bound) {
    close(fd);
    return -1;
  }
  port = ntohs(network_port);
  return fd;
}

// The name of a port among this user's claims. Each network namespace has ports of its own.
std::string ClaimOfPort(uint16_t port) {
  struct stat network {};
  const bool known = stat("/proc/self/ns/net", &network) == 0;
  return absl::StrCat("port-", port, "-", known ? network.st_ino : 0);
}

}  // namespace

absl::StatusOr<ReservedPort> ReservedPort::Take(absl::string_view flag,
                                                const std::string& address) {
  BATON_RETURN_IF_ERROR(CheckListenable(flag, address));
  BATON_ASSIGN_OR_RETURN(HostPort at, ParseHostPort(address));
  const bool given = at.port != 0;
  ReservedPort reserved;
  if (given) {
    reserved.claim_ = NameClaim::Take(ClaimOfPort(at.port));
    if (!reserved.claim_.has_value()) {
      return absl::UnavailableError(absl::StrCat(
          "cannot listen on ", flag, " ", address,
          ": another `baton` process of this user is using the port; choose another port with ",
          flag));
    }
  }
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const bool known = getaddrinfo(at.host.c_str(), nullptr, &hints, &list) == 0;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, [](addrinfo* infos) {
    if (infos != nullptr) freeaddrinfo(infos);
  });
  // A name may have several addresses, not all of which this machine needs to have.
  for (const addrinfo* info = known ? list : nullptr; info != nullptr; info = info->ai_next) {
    const int fd = BindWithoutListening(*info, at.port);
    if (fd >= 0) reserved.sockets_.push_back(fd);
  }
  if (!given && !reserved.kept()) {
    return absl::ResourceExhaustedError(
        absl::StrCat(flag, " ", address,
                     ": no port or file descriptor is free; raise the descriptor limit (ulimit "
                     "-n), or choose a port with ",
                     flag));
  }
  reserved.address_ = at.ToString();
  return reserved;
}

ReservedPort::~ReservedPort() {
  for (const int fd : sockets_) close(fd);
}

}  // namespace baton
