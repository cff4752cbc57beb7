// gRPC reflection as clients ask for it first; gRPC's own plugin only knows its forerunner v1alpha.
#pragma once

#include <memory>

#include "grpcpp/impl/server_builder_option.h"

namespace baton {

// Adds grpc.reflection.v1.ServerReflection, which lists the server's services, to a server that is
// built with this option.
std::unique_ptr<grpc::ServerBuilderOption> ReflectionOption();

}  // namespace baton
