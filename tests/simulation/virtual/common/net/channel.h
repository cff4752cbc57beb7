// Stands in for common/net/channel.h: a channel leads to the simulated worker of that address.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/net/credentials.h"
#include "tests/simulation/virtual/grpc_reactors.h"

namespace baton {
inline namespace simulated {

enum class ChannelPurpose { kClient, kControl, kBulk };

inline absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(absl::string_view address,
                                                                  const Credentials&,
                                                                  ChannelPurpose) {
  return std::make_shared<grpc::Channel>(std::string(address));
}

}  // namespace simulated
}  // namespace baton
