#include "client/serve/name_claim.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

namespace baton {

std::optional<NameClaim> NameClaim::Take(const std::string& name) {
  NameClaim claim(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // The leading zero byte makes the name abstract.
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (bind(claim.socket_, reinterpret_cast<const sockaddr*>(&address), size) != 0 &&
      errno == EADDRINUSE) {
    return std::nullopt;
  }
  return claim;
}

NameClaim::~NameClaim() {
  if (socket_ >= 0) close(socket_);
}

}  // namespace baton
