#include "common/net/call_metrics.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/support/server_interceptor.h"

#include "common/access/access_table.h"
#include "common/base/clock.h"

namespace baton {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

// What is counted of one method. Thread-safe.
class CallMetrics::Method {
 public:
  // `path`: "/package.Service/Method".
  Method(Metrics& metrics, absl::string_view path) : metrics_(metrics) {
    const std::vector<std::string> names = absl::StrSplit(path, '/');
    labels_ = {{"grpc_service", names[1]}, {"grpc_method", names[2]}};
  }

  void Ended(absl::StatusCode code, absl::Duration duration) {
    absl::MutexLock lock(&mutex_);
    auto counted = codes_.find(code);
    if (counted == codes_.end()) {
      MetricLabels labels = labels_;
      labels.emplace_back("grpc_code", absl::StatusCodeToString(code));
      const Counter counter = metrics_.AddCounter(
          "baton_grpc_server_handled_total", "Calls of gRPC that have ended, by code.", labels);
      counted = codes_.emplace(code, counter).first;
    }
    counted->second.Add();
    if (!duration_.has_value()) {
      duration_ = metrics_.AddHistogram("baton_grpc_server_handling_seconds",
                                        "How long calls of gRPC took, streams included.",
                                        RequestDurationBuckets(), labels_);
    }
    duration_->Observe(absl::ToDoubleSeconds(duration));
  }

 private:
  Metrics& metrics_;
  MetricLabels labels_;
  absl::Mutex mutex_;
  std::map<absl::StatusCode, Counter> codes_ ABSL_GUARDED_BY(mutex_);
  std::optional<Histogram> duration_ ABSL_GUARDED_BY(mutex_);  // none: no call has ended
};

// One call: gRPC owns it, notifies it of each step, and destroys it with the call.
class CallMetrics::Call final : public Interceptor {
 public:
  explicit Call(Method& method) : method_(method) {}
  ~Call() override { method_.Ended(code_, SteadyNow() - begun_); }

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      code_ = static_cast<absl::StatusCode>(methods->GetSendStatus().error_code());
    }
    methods->Proceed();
  }

 private:
  Method& method_;
  const absl::Time begun_ = SteadyNow();
  absl::StatusCode code_ = absl::StatusCode::kCancelled;
};

class CallMetrics::Factory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Factory(CallMetrics& metrics) : metrics_(metrics) {}
  Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    return new Call(metrics_.Find(info->method() == nullptr ? "" : info->method()));
  }

 private:
  CallMetrics& metrics_;
};

CallMetrics::CallMetrics(Metrics& metrics)
    : unknown_(std::make_unique<Method>(metrics, "/unknown/unknown")) {
  for (const AccessRule& rule : AccessTable()) {
    methods_.emplace(rule.method, std::make_unique<Method>(metrics, rule.method));
  }
}

CallMetrics::~CallMetrics() = default;

CallMetrics::Method& CallMetrics::Find(const std::string& path) {
  const auto found = methods_.find(path);
  return found == methods_.end() ? *unknown_ : *found->second;
}

void CallMetrics::Watch(grpc::ServerBuilder& builder) {
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> factories;
  factories.push_back(std::make_unique<Factory>(*this));
  builder.experimental().SetInterceptorCreators(std::move(factories));
}

}  // namespace baton
