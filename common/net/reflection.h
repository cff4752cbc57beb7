// gRPC reflection: v1, for which clients ask first, and v1alpha. The latter is gRPC's own plugin,
// which every server has that does not refuse it.
#pragma once

#include <memory>

#include "grpcpp/impl/server_builder_option.h"

namespace baton {

// An option of the server that is built with it. Offered: both versions of ServerReflection
// list all services and their messages. Otherwise neither exists.
std::unique_ptr<grpc::ServerBuilderOption> ReflectionOption(bool offered);

}  // namespace baton
