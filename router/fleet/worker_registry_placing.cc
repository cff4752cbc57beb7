// The part of the registry that placement reads and writes: who is ready, what it holds, what it
// was given, and how that went.
#include <algorithm>
#include <utility>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/rpc/duration.h"
#include "router/fleet/worker_registry.h"

namespace baton {
namespace {

constexpr double kWeightOfNew = 0.2;
// A few tokens say more about a step's fixed cost than about the rate.
constexpr uint32_t kLeastMeasuredTokens = 64;

// Takes back what was added, never more than is there: the worker may have been given up meanwhile.
void Subtract(uint32_t& from, uint32_t count) { from -= std::min(from, count); }

}  // namespace

void WorkerRegistry::Relist(Worker& worker) {
  const bool ready = worker.ready();
  if (worker.listed && (!ready || worker.seen.id != worker.id)) {
    ready_.Remove(worker.seen.id);
    if (--roots_[worker.prefix_root] == 0) roots_.erase(worker.prefix_root);
    worker.listed = false;
  }
  if (worker.seen.id != worker.id) {
    // What it was given was lost with the id.
    worker.seen.id = worker.id;
    worker.seen.own_sequences = worker.seen.own_arriving = 0;
    worker.seen.own_prompts = worker.seen.own_postponed = worker.seen.own_prompt_tokens = 0;
  }
  if (worker.listed || !ready) return;
  worker.listed = true;
  ++roots_[worker.prefix_root];
  ready_.Add(worker.target.role == internal::v1::WORKER_ROLE_PREFILL ? ReadyWorkers::Role::kPrefill
                                                                     : ReadyWorkers::Role::kDecode,
             worker.seen);
}

void WorkerRegistry::Update(Worker& worker) {
  worker.seen.takes_requests = worker.breaker.Takes(SteadyNow());
  if (worker.circuit_open != worker.breaker.open()) {
    worker.circuit_open = worker.breaker.open();
    if (options_.on_circuit) options_.on_circuit(worker.target, worker.circuit_open);
  }
  ready_.Changed(worker.id);
}

void WorkerRegistry::TakeLoad(Worker& worker, const internal::v1::WorkerLoad& load) {
  WorkerSnapshot& seen = worker.seen;
  seen.free_blocks = load.free_blocks();
  seen.queued_tokens = load.waiting_tokens();
  seen.reported_sequences = load.waiting_sequences() + load.running_sequences();
  seen.sequences_since = 0;
  seen.prompt_tokens_since = 0;
  seen.tokens_since = 0;
}

void WorkerRegistry::TakePages(Worker& worker, const internal::v1::PrefixDelta& delta) {
  const bool known = prefixes_.Apply(worker.slot, {.version = delta.version(),
                                                   .full = delta.full(),
                                                   .added = delta.added(),
                                                   .removed = delta.removed()});
  if (options_.on_pages) options_.on_pages(worker.target, prefixes_.pages(worker.slot));
  if (!known) {
    LogWarning("{} worker '{}' at {}: a message about its prefix pages is missing",
               RoleName(worker.target.role), LogSafe(worker.info.name()), worker.target.address);
    if (worker.watch != nullptr) worker.watch->Cancel();  // the next stream begins with all
  }
}

void WorkerRegistry::ForgetPages(Worker& worker) {
  prefixes_.Forget(worker.slot);
  if (options_.on_pages) options_.on_pages(worker.target, 0);
}

ReadyWorkers::Candidates WorkerRegistry::Choose(const WorkerNeeds& needs,
                                                absl::Span<const int32_t> prompt,
                                                const std::string& salt,
                                                const PlacementOptions& options,
                                                uint64_t turn) const {
  std::vector<ReadyWorkers::Held> held;
  if (options.policy == PlacementPolicy::kPrefixAware && ready_.has_room()) {
    for (const auto& [root, workers] : roots_) {
      for (const PrefixIndex::Hit& hit : prefixes_.Find(root, prompt, salt)) {
        held.push_back({.worker_id = by_slot_.find(hit.worker)->second->id, .tokens = hit.tokens});
      }
    }
  }
  return ready_.Choose(needs, held, options, turn);
}

LinkEstimate WorkerRegistry::Link(uint64_t prefill, uint64_t decode) const {
  return links_.Get(prefill, decode, SteadyNow());
}

void WorkerRegistry::Take(WorkerShare& share) {
  Worker* const prefill = Find(share.prefill);
  Worker* const decode = Find(share.decode);
  Worker* const prompt_worker = prefill != nullptr ? prefill : decode;
  share.prompt_waits = true;
  for (Worker* worker : {prefill, decode}) {
    if (worker == nullptr) continue;
    WorkerSnapshot& seen = worker->seen;
    ++seen.own_sequences;
    ++seen.sequences_since;
    seen.tokens_since += share.prompt_tokens;
    if (worker == prompt_worker) {
      ++seen.own_prompts;
      seen.own_prompt_tokens += share.computed_tokens;
      seen.prompt_tokens_since += share.computed_tokens;
    } else {
      ++seen.own_arriving;
    }
    (worker == prefill ? share.prefill_begun : share.decode_begun) =
        worker->breaker.Begin(SteadyNow());
    Update(*worker);
  }
}

void WorkerRegistry::PromptPostponed(WorkerShare& share) {
  if (share.prefill == 0 || !share.prompt_waits || std::exchange(share.postponed, true)) return;
  if (Worker* worker = Find(share.prefill)) {
    ++worker->seen.own_postponed;
    Update(*worker);
  }
}

void WorkerRegistry::PromptComes(WorkerShare& share) {
  if (!std::exchange(share.postponed, false)) return;
  if (Worker* worker = Find(share.prefill)) {
    Subtract(worker->seen.own_postponed, 1);
    Update(*worker);
  }
}

void WorkerRegistry::PromptComputed(WorkerShare& share) {
  PromptComes(share);
  if (!std::exchange(share.prompt_waits, false)) return;
  const uint64_t prompt_id = share.prefill != 0 ? share.prefill : share.decode;
  if (Worker* worker = Find(prompt_id)) {
    Subtract(worker->seen.own_prompts, 1);
    Subtract(worker->seen.own_prompt_tokens, share.computed_tokens);
    worker->seen.prompt_tokens_since -= share.computed_tokens;
    Update(*worker);
  }
  if (share.prefill == 0) return;
  if (Worker* worker = Find(share.decode)) Subtract(worker->seen.own_arriving, 1);
}

void WorkerRegistry::GiveBack(WorkerShare& share) {
  PromptComputed(share);
  for (const uint64_t id : {std::exchange(share.prefill, 0), std::exchange(share.decode, 0)}) {
    Worker* worker = Find(id);
    if (worker == nullptr) continue;
    Subtract(worker->seen.own_sequences, 1);
    --worker->seen.sequences_since;
  }
}

void WorkerRegistry::Served(uint64_t worker_id) {
  Worker* worker = Find(worker_id);
  if (worker == nullptr) return;
  if (worker->breaker.open()) {
    LogInfo("{} worker '{}' at {} serves again", RoleName(worker->target.role),
            LogSafe(worker->info.name()), worker->target.address);
  }
  worker->breaker.Succeeded();
  Update(*worker);
}

void WorkerRegistry::Failed(uint64_t worker_id, uint64_t begun, const absl::Status& status) {
  Worker* worker = Find(worker_id);
  if (worker == nullptr || !IsWorkersFault(status)) return;
  const bool was_open = worker->breaker.open();
  worker->breaker.Failed(begun, SteadyNow());
  if (worker->breaker.open() && !was_open) {
    LogWarning("{} worker '{}' at {} gets few requests: it failed {} in a row, the last with: {}",
               RoleName(worker->target.role), LogSafe(worker->info.name()), worker->target.address,
               CircuitBreaker::kFailures, LogSafe(status.message()));
  }
  Update(*worker);
}

void WorkerRegistry::Prefilled(uint64_t worker_id, uint32_t tokens, absl::Duration compute) {
  Worker* worker = Find(worker_id);
  if (worker == nullptr || tokens < kLeastMeasuredTokens || compute <= absl::ZeroDuration()) return;
  double& rate = worker->measured_tokens_per_second;
  const double now = tokens / absl::ToDoubleSeconds(compute);
  rate = rate == 0 ? now : rate + kWeightOfNew * (now - rate);
  worker->seen.prefill_tokens_per_second = rate;
}

void WorkerRegistry::HandedOff(uint64_t prefill, uint64_t decode,
                               const internal::v1::PrefillFinished& finished) {
  if (Find(prefill) == nullptr || Find(decode) == nullptr) return;
  links_.Succeeded(prefill, decode, finished.bytes_sent(), DurationFromProto(finished.transfer()),
                   DurationFromProto(finished.exposed_transfer()));
}

void WorkerRegistry::HandOffFailed(uint64_t prefill, uint64_t decode) {
  if (Find(prefill) == nullptr || Find(decode) == nullptr) return;
  links_.Failed(prefill, decode, SteadyNow());
}

}  // namespace baton
