#include "client/serve/health_client.h"

#include <grpcpp/grpcpp.h>

#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.grpc.pb.h"

#include "common/rpc/deadline.h"
#include "common/rpc/status.h"

namespace baton {

absl::Status CheckHealth(const std::string& address, const std::string& service,
                         absl::Duration timeout) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // the server is a child of this process
  const auto channel =
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  const auto stub = grpc::health::v1::Health::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(DeadlineAfter(timeout));
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  grpc::health::v1::HealthCheckResponse response;
  if (const grpc::Status status = stub->Check(&context, request, &response); !status.ok()) {
    return FromGrpcStatus(status);
  }
  if (response.status() != grpc::health::v1::HealthCheckResponse::SERVING) {
    return absl::UnavailableError(absl::StrCat(address, ": ", service, " is not serving"));
  }
  return absl::OkStatus();
}

}  // namespace baton
