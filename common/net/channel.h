// gRPC channels to Baton's servers.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/channel.h"
#include "grpcpp/support/channel_arguments.h"

#include "common/certificates/credentials.h"

namespace baton {

enum class ChannelPurpose {
  kClient,   // from a user's program to a router: gRPC's defaults for retries and keepalive, and a
             // proxy of the environment
  kPrefill,  // from a router to a prefill worker: keepalive 1 s / 2 s, no retries by gRPC
  kDecode,   // from a router to a decode worker: as kPrefill
  kBulk,     // KV transfer to a decode worker: as kDecode, but with a TCP connection for each
             // channel, and a silent peer is given up within 3 s of its last byte, whenever it
             // pings
};

// Makes a channel, which connects on its first use. With certificates it connects only to a server
// of the role that the purpose needs; a client's may be a router or a front. An error names the
// address: it does not parse, or the credentials do not allow it.
//
// Channels between Baton's servers ignore proxies of the environment. A client's channel uses the
// one that ChooseProxy returns, and logs which.
absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(absl::string_view address,
                                                           const Credentials& credentials,
                                                           ChannelPurpose purpose);

// Lets a client's channel to `address` use the proxy of the environment that ChooseProxy returns,
// and logs its variable and its URL without a password. Turns gRPC's own choice off.
void SetClientProxy(absl::string_view address, grpc::ChannelArguments& arguments);

}  // namespace baton
