// gRPC reflection v1, for which clients ask first. gRPC's own plugin knows only v1alpha.
#pragma once

#include <memory>

#include "grpcpp/impl/server_builder_option.h"

namespace baton {

// An option that adds grpc.reflection.v1.ServerReflection, which lists the server's services, to
// the server that is built with it.
std::unique_ptr<grpc::ServerBuilderOption> ReflectionOption();

}  // namespace baton
