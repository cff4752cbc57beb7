#include "tests/simulation/cluster.h"

#include <algorithm>

namespace baton {

SimCluster::SimCluster(Sim& sim) : sim_(sim), network_(sim, MakeEnds()), control_(sim) {
  for (int i = 0; i < kSimWorkers; ++i) {
    const auto index = static_cast<size_t>(i);
    prefill_[index] = std::make_unique<PrefillSim>(sim_, network_, control_, i);
    decode_[index] = std::make_unique<DecodeSim>(sim_, network_, control_, i);
  }
  router_ = std::make_unique<RouterSim>(sim_, control_);
  sim_.kill_worker = [this](bool is_prefill, int index) {
    const SimWorkerId worker{is_prefill, index};
    sim_.queue.After(0, [this, worker, life = core(worker).process().life()] {
      if (core(worker).process().life() != life || !core(worker).process().up()) return;
      Crash(worker, sim_.random.Between(50'000, 500'000), false);
    });
  };
}

Network::Ends SimCluster::MakeEnds() {
  using StreamId = Network::StreamId;
  return {
      .request = [this](int worker, StreamId id,
                        const std::string& bytes) { decode(worker).Request(id, bytes); },
      .lost = [this](int worker, StreamId id) { decode(worker).Lost(id); },
      .answer = [this](int worker, StreamId id,
                       const std::string& bytes) { prefill(worker).Answer(id, bytes); },
      .ended = [this](int worker, StreamId id,
                      const absl::Status& status) { prefill(worker).Ended(id, status); },
      .prefill_process = [this](int worker) -> SimProcess& { return prefill(worker).process(); },
      .decode_process = [this](int worker) -> SimProcess& { return decode(worker).process(); }};
}

WorkerCore& SimCluster::core(SimWorkerId worker) {
  return worker.is_prefill ? prefill(worker.index).core() : decode(worker.index).core();
}

std::vector<SimWorkerId> SimCluster::Workers() {
  std::vector<SimWorkerId> workers;
  for (int i = 0; i < kSimWorkers; ++i) {
    for (const bool is_prefill : {true, false}) workers.push_back({is_prefill, i});
  }
  return workers;
}

void SimCluster::Crash(SimWorkerId worker, Micros down, bool silently) {
  worker.is_prefill ? prefill(worker.index).Crash() : decode(worker.index).Crash();
  ++sim_.deaths;
  network_.WorkerDied(worker.is_prefill, worker.index);
  control_.WorkerDied(worker, silently);
  sim_.queue.After(down, [this, worker, life = core(worker).process().life()] {
    if (core(worker).process().life() == life) Restart(worker);
  });
}

void SimCluster::Restart(SimWorkerId worker) {
  if (core(worker).process().up()) return;
  control_.WorkerStarted(worker);
  worker.is_prefill ? prefill(worker.index).Restart() : decode(worker.index).Restart();
}

void SimCluster::List(SimWorkerId worker, bool listed) {
  router_->SetTarget(worker, listed);
  control_.SetTakesWork(worker, listed && !core(worker).draining());
}

void SimCluster::GoBackToModel(SimWorkerId worker) {
  WorkerCore& of = core(worker);
  of.ServeOtherModel(false);
  if (of.serves_other_model() && of.process().up()) Crash(worker, 20'000, false);
}

void SimCluster::EndAll(SimWorkerId worker) {
  worker.is_prefill ? prefill(worker.index).EndAll() : decode(worker.index).EndAll();
}

void SimCluster::Squeeze(SimWorkerId worker) {
  worker.is_prefill ? prefill(worker.index).Squeeze() : decode(worker.index).Squeeze();
}

void SimCluster::Relax(SimWorkerId worker) {
  worker.is_prefill ? prefill(worker.index).Relax() : decode(worker.index).Relax();
}

bool SimCluster::Usable(SimWorkerId worker) {
  WorkerCore& of = core(worker);
  return control_.Reachable(worker) && router_->listed(worker) && !of.draining() &&
         !(of.hung() && of.runnable() > 0);
}

bool SimCluster::Quarantined(SimWorkerId prefill) {
  for (int i = 0; i < kSimWorkers; ++i) {
    const std::vector<std::string>& by = core({false, i}).quarantined();
    const bool told = std::find(by.begin(), by.end(), prefill.address()) != by.end();
    if (told && Usable({false, i})) return true;
  }
  return false;
}

bool SimCluster::AtRest() const {
  const auto idle = [](const auto& worker) { return worker->idle(); };
  return router_->idle() && network_.live_streams() == 0 &&
         std::all_of(prefill_.begin(), prefill_.end(), idle) &&
         std::all_of(decode_.begin(), decode_.end(), idle);
}

void SimCluster::CheckAtRest() {
  router_->CheckKnowledge(
      {.incarnation = [this](SimWorkerId worker) { return core(worker).incarnation(); },
       .held_tokens =
           [this](SimWorkerId worker, const std::vector<int32_t>& prompt) {
             return worker.is_prefill ? prefill(worker.index).HeldTokens(prompt)
                                      : decode(worker.index).HeldTokens(prompt);
           }});
  router_->clients().CheckAtRest();
  for (const auto& worker : prefill_) worker->CheckAtRest();
  for (const auto& worker : decode_) worker->CheckAtRest();
  if (network_.live_streams() > 0) sim_.Violation(network_.live_streams(), " streams are left");
}

}  // namespace baton
