#include "common/net/health.h"

#include <algorithm>
#include <utility>

#include "common/base/clock.h"
#include "common/rpc/limits.h"

namespace baton {
namespace {

// Longer than the wait of readiness: a restart loses every sequence, so it is the last resort.
constexpr absl::Duration kLivenessTimeout = absl::Seconds(10);

}  // namespace

void ProgressJudge::Observe(const ProgressSample& sample, absl::Time now) {
  // tests/planted_bugs: judge_progress
  if (sample.runnable_sequences == 0 || progress_ != sample.progress) since_ = now;
  progress_ = sample.progress;
  stuck_ = now - since_;
}

Health::Health(Options options) : options_(std::move(options)), thread_([this] { Loop(); }) {}

Health::~Health() {
  stop_.Notify();
  thread_.join();
}

void Health::SetState(ServerState state) {
  {
    absl::MutexLock lock(&mutex_);
    state_ = state;
    started_ |= state == ServerState::kReady;
  }
  Refresh();
}

ServerState Health::state() const {
  absl::MutexLock lock(&mutex_);
  return state_;
}

bool Health::ready() const {
  absl::MutexLock lock(&mutex_);
  return ready_;
}

bool Health::live() const {
  absl::MutexLock lock(&mutex_);
  return live_;
}

bool Health::Refresh() {
  const ProgressSample sample = options_.progress ? options_.progress() : ProgressSample{};
  const bool reachable = !options_.live || options_.live();
  const bool condition = !options_.ready || options_.ready();
  std::map<std::string, bool> conditions;
  for (const auto& [name, holds] : options_.conditions) conditions[name] = holds();
  absl::MutexLock lock(&mutex_);
  conditions_ = std::move(conditions);
  judge_.Observe(sample, SteadyNow());
  ready_ = state_ == ServerState::kReady && condition && judge_.stuck() < kProgressTimeout;
  live_ = reachable && judge_.stuck() < kLivenessTimeout;
  Publish();
  return ready_;
}

void Health::Attach(grpc::HealthCheckServiceInterface* service) {
  absl::MutexLock lock(&mutex_);
  attached_.push_back(service);
  Publish();
}

void Health::Detach(grpc::HealthCheckServiceInterface* service) {
  absl::MutexLock lock(&mutex_);
  attached_.erase(std::remove(attached_.begin(), attached_.end(), service), attached_.end());
}

void Health::Publish() {
  for (grpc::HealthCheckServiceInterface* service : attached_) {
    service->SetServingStatus("startup", started_);
    service->SetServingStatus("liveness", live_);
    service->SetServingStatus("readiness", ready_);
    service->SetServingStatus("", ready_);
    for (const std::string& name : options_.services) service->SetServingStatus(name, ready_);
    for (const auto& [name, holds] : conditions_) service->SetServingStatus(name, holds);
  }
}

void Health::Loop() {
  while (!stop_.WaitFor(kWatchInterval)) Refresh();
}

}  // namespace baton
