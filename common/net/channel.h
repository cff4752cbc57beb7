// Channels to other parts of Baton.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/channel.h"

#include "common/net/credentials.h"

namespace baton {

enum class ChannelPurpose {
  kClient,   // an end user's program to a router: gRPC's defaults for retries and keepalive
  kControl,  // between Baton's parts: keepalive 1 s / 2 s, no retries by gRPC
  kBulk,     // KV transfer: as kControl, but a silent peer is given up within 3 s of its last byte
             // whenever it pings, and each channel has a TCP connection of its own
};

// Does not connect yet. The error names the address: one that does not parse, or one that the
// credentials do not allow.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(absl::string_view address,
                                                           const Credentials& credentials,
                                                           ChannelPurpose purpose);

}  // namespace baton
