// A TCP port that one user keeps while no process listens on it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "client/serve/name_claim.h"

namespace baton {

// Sockets that are bound to the port with SO_REUSEPORT and never listen. While they are open, the
// kernel lets only sockets of the same user open the port, and of these only sockets with
// SO_REUSEPORT (Acceptor::Options::reuse_port). So no other user can take the port of a server that
// is about to start, or that starts again. Connections are refused unless a server listens. Root
// can open every port. Movable; not thread-safe.
class ReservedPort {
 public:
  // Reserves the port of `address` (host:port; port 0: a free one) at each address of its host. An
  // error is one line that names `flag`, the address and the remedy: as CheckListenable's, or
  // another reservation of this user has the port.
  static absl::StatusOr<ReservedPort> Take(absl::string_view flag, const std::string& address);

  ReservedPort(ReservedPort&& other) noexcept = default;
  ReservedPort& operator=(ReservedPort&& other) noexcept {
    std::swap(claim_, other.claim_);
    std::swap(address_, other.address_);
    std::swap(sockets_, other.sockets_);
    return *this;
  }
  ~ReservedPort();

  // host:port, with the number of the port.
  const std::string& address() const { return address_; }
  // Whether the port is kept from other users. False if the port was given and connections of a
  // former server still have it, which end within a minute or two. A server can open it even so.
  bool kept() const { return !sockets_.empty(); }

 private:
  ReservedPort() = default;

  // Keeps a given port from reservations of the same user, whose sockets could bind it too.
  std::optional<NameClaim> claim_;
  std::string address_;
  std::vector<int> sockets_;  // one for each address of the host
};

}  // namespace baton
