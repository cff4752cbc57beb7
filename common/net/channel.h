// gRPC channels to Baton's servers.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/channel.h"

#include "common/net/credentials.h"

namespace baton {

enum class ChannelPurpose {
  kClient,   // from a user's program to a router: gRPC's defaults for retries and keepalive
  kControl,  // between Baton's servers: keepalive 1 s / 2 s, no retries by gRPC
  kBulk,     // KV transfer: as kControl, but with a TCP connection for each channel, and a silent
             // peer is given up within 3 s of its last byte, whenever it pings
};

// Makes a channel, which connects on its first use. An error names the address: it does not parse,
// or the credentials do not allow it.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(absl::string_view address,
                                                           const Credentials& credentials,
                                                           ChannelPurpose purpose);

}  // namespace baton
