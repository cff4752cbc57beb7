// Stands in for the generated header: calls go over the simulated network.
#pragma once

#include <memory>

#include "baton/internal/v1/decode.pb.h"
#include "tests/simulation/virtual/grpc_reactors.h"

namespace baton::internal::v1 {
inline namespace simulated {

class DecodeService {
 public:
  class StubInterface {
   public:
    explicit StubInterface(std::shared_ptr<grpc::Channel> channel) : channel_(std::move(channel)) {}
    StubInterface* async() { return this; }
    void Decode(grpc::ClientContext* context,
                grpc::ClientBidiReactor<DecodeRequest, DecodeResponse>* reactor) {
      reactor->Bind(*channel_, ControlNetwork::Method::kDecode, *context, nullptr);
    }

   private:
    const std::shared_ptr<grpc::Channel> channel_;
  };
  using Stub = StubInterface;
  static std::unique_ptr<Stub> NewStub(std::shared_ptr<grpc::Channel> channel) {
    return std::make_unique<Stub>(std::move(channel));
  }
};

}  // namespace simulated
}  // namespace baton::internal::v1
