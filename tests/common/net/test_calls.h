// Calls to a server of a test on this machine.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"

#include "common/net/channel.h"
#include "common/rpc/status.h"

namespace baton {

// Every call of a test ends by then.
inline void SetDeadline(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
}

inline std::shared_ptr<grpc::Channel> Connect(const std::string& address,
                                              ChannelPurpose purpose = ChannelPurpose::kDecode) {
  return *MakeChannel(address, Credentials::Loopback(), purpose);
}

// The answer of the health check, or the code of the error.
inline std::string CheckHealth(const std::string& address, const std::string& service) {
  const auto stub = grpc::health::v1::Health::NewStub(Connect(address));
  grpc::ClientContext context;
  SetDeadline(context);
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  grpc::health::v1::HealthCheckResponse response;
  const grpc::Status status = stub->Check(&context, request, &response);
  return status.ok() ? grpc::health::v1::HealthCheckResponse::ServingStatus_Name(response.status())
                     : absl::StrCat(FromGrpcStatus(status).ToString());
}

}  // namespace baton
