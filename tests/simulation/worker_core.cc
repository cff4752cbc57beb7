#include "tests/simulation/worker_core.h"

#include "common/base/prefix_hash.h"
#include "common/rpc/limits.h"
#include "tests/simulation/sim_open.h"

namespace baton {
namespace {

constexpr int kTicksOfSign = 16;  // 4 s, as EngineOptions::sign_interval

}  // namespace

void WorkerCore::Boot() {
  process_.Start();
  hung_ = draining_ = forging_ = has_forged_ = false;
  quarantined_.clear();
  network_.SetTakesWork(id_, true);
  slowness_ = 1;
  progress_ = 0;
  stopped_runnable_ = 0;
  serves_other_model_ = other_model_;
  info_.Clear();
  info_.set_name(id_.address());
  info_.set_role(id_.is_prefill ? internal::v1::WORKER_ROLE_PREFILL
                                : internal::v1::WORKER_ROLE_DECODE);
  info_.set_incarnation(sim_.random.Next());
  *info_.mutable_identity() = SimIdentity();
  if (serves_other_model_) info_.mutable_identity()->set_weights_digest(std::string(32, 'v'));
  *info_.mutable_shape() = SimShape(SimLayout(block_size_));
  info_.set_max_model_len(4096);
  info_.set_version("sim");
  info_.set_address(id_.address());
  process_.After(absl::ToInt64Microseconds(kWatchInterval), [this] { Tick(); });
}

void WorkerCore::Crash() {
  process_.Die();
  watchers_.clear();
  stalled_.clear();
}

void WorkerCore::Work(Micros time, std::function<void()> step) {
  process_.After(time * slowness_, [this, step = std::move(step)] {
    if (hung_) return stalled_.push_back(step);
    ++progress_;
    ++sim_.coverage.steps;
    step();
  });
}

void WorkerCore::Hang() {
  const Load load = load_();
  hung_ = true;
  stopped_runnable_ = load.runnable;
  NoteStandstill(load);
}

void WorkerCore::StandStill(std::function<void()> step) {
  Hang();
  stalled_.push_back(std::move(step));
  process_.After(sim_.random.Between(1'000'000, 20'000'000), [this] {
    if (hung_) GoOn();
  });
}

void WorkerCore::NoteStandstill(const Load& load) const {
  for (const int request : load.computed) {
    sim_.requests.at(static_cast<uint64_t>(request))->stood_still.insert(id_.address());
  }
}

void WorkerCore::GoOn() {
  hung_ = false;
  stopped_runnable_ = 0;
  for (auto& step : std::exchange(stalled_, {})) {
    Work(sim_.random.Between(1, 500), std::move(step));
  }
}

void WorkerCore::SetDraining(bool draining) {
  draining_ = draining;
  network_.SetTakesWork(id_, !draining);
  for (const auto& [call, watcher] : watchers_) Tell(call, false);
}

void WorkerCore::SetQuarantined(std::vector<std::string> pushers) {
  quarantined_ = std::move(pushers);
  if (sim_.random.Chance(500)) return;
  for (const auto& [call, watcher] : watchers_) Tell(call, false);
}

void WorkerCore::Watched(ControlNetwork::CallId call) {
  watchers_[call] = {};
  Tell(call, true);
}

void WorkerCore::Tick() {
  for (const auto& [call, watcher] : watchers_) Tell(call, false);
  if (++ticks_ % kTicksOfSign == 0 && !hung_) give_signs_();
  process_.After(absl::ToInt64Microseconds(kWatchInterval), [this] { Tick(); });
}

void WorkerCore::Tell(ControlNetwork::CallId call, bool first) {
  auto message = std::make_shared<internal::v1::WatchResponse>();
  if (first) *message->mutable_info() = info_;
  message->set_state(draining_ ? internal::v1::WORKER_STATE_DRAINING
                               : internal::v1::WORKER_STATE_READY);
  message->set_progress(progress_);
  const Load load = load_();
  if (hung_) NoteStandstill(load);
  message->set_runnable_sequences(std::max(load.runnable, stopped_runnable_));
  message->mutable_load()->set_waiting_sequences(load.waiting);
  message->mutable_load()->set_running_sequences(load.running);
  message->mutable_load()->set_waiting_tokens(load.waiting_tokens);
  message->mutable_load()->set_free_blocks(load.free_blocks);
  for (const std::string& pusher : quarantined_) message->add_quarantined_pushers(pusher);
  AddPages(call, *message);
  network_.Answer(call, std::move(message));
}

// What does not fit follows at once.
void WorkerCore::AddPages(ControlNetwork::CallId call, internal::v1::WatchResponse& message) {
  Watcher& watcher = watchers_.at(call);
  pages_().Publish();
  const PrefixPages::Changes changes = pages_().Read(watcher.position, most_pages_);
  if (changes.more) {
    process_.After(sim_.random.Between(1, 1'000), [this, call] {
      if (IsWatch(call)) Tell(call, false);
    });
  }
  if (changes.empty()) return;
  internal::v1::PrefixDelta& delta = *message.mutable_prefix();
  delta.set_version(++watcher.version);
  delta.set_full(changes.full);
  delta.mutable_added()->Add(changes.added.begin(), changes.added.end());
  delta.mutable_removed()->Add(changes.removed.begin(), changes.removed.end());
}

std::string WorkerCore::prefix_identity() const {
  return PrefixIdentity(identity().weights_digest(), identity().config_digest(),
                        info_.shape().numerics());
}

}  // namespace baton
