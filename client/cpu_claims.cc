#include "client/cpu_claims.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

// Returns false if another process has `name`. If the name cannot be bound for another reason (no
// descriptor is left, a sandbox forbids it), the CPU counts as free, and others will not see our
// use.
bool BindName(int socket, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // The leading zero byte makes the name abstract.
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return bind(socket, reinterpret_cast<const sockaddr*>(&address), size) == 0 ||
         errno != EADDRINUSE;
}

}  // namespace

CpuClaims::CpuClaims(const std::vector<int>& cpus, int most) {
  for (const int cpu : cpus) {
    if (static_cast<int>(sockets_.size()) == most) break;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (BindName(fd, absl::StrCat("baton-cpu-", cpu))) {
      sockets_.push_back(fd);
    } else {
      close(fd);
      taken_.push_back(cpu);
    }
  }
}

CpuClaims::~CpuClaims() {
  for (const int fd : sockets_) close(fd);
}

}  // namespace baton
