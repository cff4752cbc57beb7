#include "common/net/health_service.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/rpc/limits.h"
#include "common/rpc/outbox.h"
#include "common/rpc/refused_call.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

using grpc::health::v1::HealthCheckResponse;
using RefusedWatch = RefusedCall<grpc::ServerWriteReactor<HealthCheckResponse>>;

HealthCheckResponse ResponseFor(std::optional<bool> serving) {
  HealthCheckResponse response;
  if (!serving.has_value()) {
    response.set_status(HealthCheckResponse::SERVICE_UNKNOWN);
  } else {
    response.set_status(*serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING);
  }
  return response;
}

}  // namespace

// One Watch stream. While a message is written, only the newest status waits.
class HealthService::Watcher final : public grpc::ServerWriteReactor<HealthCheckResponse> {
 public:
  Watcher(HealthService& owner, std::string service)
      : owner_(owner), service_(std::move(service)) {}

  const std::string& service() const { return service_; }
  void Tell(const HealthCheckResponse& response) {
    absl::MutexLock lock(&mutex_);
    if (last_ == response.status()) return;
    last_ = response.status();
    outbox_.DropAll();
    outbox_.Push(response);
    outbox_.WriteNext(*this);
  }

 private:
  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    outbox_.Written();
    if (!ok) outbox_.End(grpc::Status::CANCELLED);
    outbox_.WriteNext(*this);
  }
  void OnCancel() override {
    absl::MutexLock lock(&mutex_);
    outbox_.DropAll();
    outbox_.End(grpc::Status::CANCELLED);
    outbox_.WriteNext(*this);
  }
  void OnDone() override {
    owner_.Remove(this);
    delete this;
  }

  HealthService& owner_;
  const std::string service_;
  absl::Mutex mutex_;
  Outbox<HealthCheckResponse> outbox_ ABSL_GUARDED_BY(mutex_);  // at most one waits
  std::optional<HealthCheckResponse::ServingStatus> last_ ABSL_GUARDED_BY(mutex_);
};

HealthService::HealthService() {
  Add("Check", &HealthService::Check);
  Add("Watch", &HealthService::Watch);
}

HealthService::~HealthService() {
  absl::MutexLock lock(&mutex_);
  BATON_CHECK(watchers_.empty(), "the server is shut down before its services end");
}

void HealthService::SetServingStatus(const std::string& service, bool serving) {
  absl::MutexLock lock(&mutex_);
  serving_[service] = serving;
  for (Watcher* watcher : watchers_) {
    if (watcher->service() == service) watcher->Tell(ResponseFor(serving));
  }
}

void HealthService::SetServingStatus(bool serving) {
  absl::MutexLock lock(&mutex_);
  for (auto& [service, status] : serving_) status = serving;
  for (Watcher* watcher : watchers_) {
    if (serving_.count(watcher->service()) > 0) watcher->Tell(ResponseFor(serving));
  }
}

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* context,
                                               std::unique_ptr<Request> request,
                                               HealthCheckResponse* response) {
  absl::Status status = request->status;
  if (status.ok()) {
    absl::MutexLock lock(&mutex_);
    const auto found = serving_.find(request->message.service());
    if (found == serving_.end()) {
      status = absl::NotFoundError(
          absl::StrCat("no service '", LogSafe(request->message.service()), "' is known here"));
    } else {
      *response = ResponseFor(found->second);
    }
  }
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(status));
  return reactor;
}

grpc::ServerWriteReactor<HealthCheckResponse>* HealthService::Watch(
    grpc::CallbackServerContext* /*context*/, std::unique_ptr<Request> request) {
  if (!request->status.ok()) return new RefusedWatch(request->status);
  const std::string& service = request->message.service();
  absl::MutexLock lock(&mutex_);
  if (watchers_.size() >= static_cast<size_t>(kMaxWatchers)) {
    return new RefusedWatch(
        WithRetryInfo(absl::ResourceExhaustedError("too many watchers"), absl::Seconds(5)));
  }
  auto* watcher = new Watcher(*this, service);
  watchers_.insert(watcher);
  const auto found = serving_.find(service);
  watcher->Tell(
      ResponseFor(found == serving_.end() ? std::nullopt : std::optional<bool>(found->second)));
  return watcher;
}

void HealthService::Remove(Watcher* watcher) {
  absl::MutexLock lock(&mutex_);
  watchers_.erase(watcher);
}

}  // namespace baton
