// host:port addresses as flags and messages carry them.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton {

struct HostPort {
  std::string host;  // without brackets
  uint16_t port = 0;
  // "[::1]:80" if the host has colons.
  std::string ToString() const;
};

// "host:port", "[v6]:port", "dns:///host:port", "ipv4:..." and "ipv6:..." (one address).
// INVALID_ARGUMENT says what is wrong.
absl::StatusOr<HostPort> ParseHostPort(absl::string_view address);

// What people write for an address as the rest of Baton and gRPC take it: "grpc://host:port", which
// servers print, without its scheme; "unix:..." and what ParseHostPort reads as it is. Errors as
// ParseHostPort's, but without the text itself.
absl::StatusOr<std::string> NormalAddress(absl::string_view text);

// 127.0.0.0/8, ::1 and localhost; "unix:..." too. Also of peers as gRPC writes them, whose brackets
// are escaped ("ipv6:%5B::1%5D:80"). Anything that is not understood is beyond loopback.
bool IsLoopback(absl::string_view address);

// Whether a server could listen on `address` now: one line that names `flag`, address, reason and
// remedy otherwise. `reuse_port`: the server sets SO_REUSEPORT.
absl::Status CheckListenable(absl::string_view flag, absl::string_view address,
                             bool reuse_port = false);

}  // namespace baton
