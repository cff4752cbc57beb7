// The service grpc.health.v1.Health of one server. gRPC's own holds any number of
// Watch streams.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/health_check_service_interface.h"

#include "common/rpc/receiving_service.h"

namespace baton {

// Thread-safe. Serves at most kMaxWatchers (limits.h) Watch streams; one more is
// RESOURCE_EXHAUSTED.
class HealthService final : public ReceivingService<grpc::health::v1::Health>,
                            public grpc::HealthCheckServiceInterface {
 public:
  HealthService();
  ~HealthService() override;

  void SetServingStatus(const std::string& service, bool serving) override;
  // Sets the status of every service that has one.
  void SetServingStatus(bool serving) override;

 private:
  using Request = Received<grpc::health::v1::HealthCheckRequest>;
  class Watcher;

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  std::unique_ptr<Request> request,
                                  grpc::health::v1::HealthCheckResponse* response);
  grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse>* Watch(
      grpc::CallbackServerContext* context, std::unique_ptr<Request> request);
  void Remove(Watcher* watcher);

  absl::Mutex mutex_;
  std::map<std::string, bool> serving_ ABSL_GUARDED_BY(mutex_);
  std::set<Watcher*> watchers_ ABSL_GUARDED_BY(mutex_);  // each deletes itself
};

}  // namespace baton
