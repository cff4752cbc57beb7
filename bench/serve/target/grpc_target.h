// A router by gRPC as the target of a load.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "baton/v1/generation.grpc.pb.h"
#include "bench/serve/target/load_target.h"
#include "common/certificates/credentials.h"
#include "common/net/client_key.h"

namespace baton {

class GrpcTarget : public LoadTarget {
 public:
  struct Options {
    std::string server;                           // host:port
    absl::Duration timeout = absl::Seconds(120);  // deadline of each request
    int connections = 4;                          // connections that requests use in turn
    ClientKey key{};                              // shown in every request
  };
  // Opens the connections. The error names the server's address.
  static absl::StatusOr<std::unique_ptr<GrpcTarget>> Create(const Options& options,
                                                            const Credentials& credentials);
  ~GrpcTarget() override;

  void Send(const LoadRequest& request, LoadRecord& record) override;
  std::vector<LoadRecord*> Poll(absl::Time until) override;
  void Cancel(LoadRecord& record) override;

 private:
  struct Call;

  explicit GrpcTarget(const Options& options);
  // Returns whether the call has ended.
  bool Handle(Call& call, bool ok);

  const Options options_;
  std::vector<std::unique_ptr<v1::GenerationService::Stub>> stubs_;  // [connections]
  std::unordered_map<LoadRecord*, std::unique_ptr<Call>> calls_;
  uint64_t sent_ = 0;
  grpc::CompletionQueue queue_;
};

}  // namespace baton
