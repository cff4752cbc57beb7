#include "router/fleet/lease.h"

#include <algorithm>
#include <utility>

namespace baton {
namespace {

// Takes back what was added, never more than is there: the worker may have been given up meanwhile.
void Subtract(uint32_t& from, uint32_t count) { from -= std::min(from, count); }

}  // namespace

Lease::Lease(Fleet& fleet, const Terms& terms) : fleet_(&fleet), terms_(terms) {
  Worker* const prefill = fleet.Find(terms.prefill);
  Worker* const decode = fleet.Find(terms.decode);
  Worker* const prompt_worker = prefill != nullptr ? prefill : decode;
  for (Worker* worker : {prefill, decode}) {
    if (worker == nullptr) continue;
    WorkerSnapshot& seen = worker->seen;
    ++seen.own_sequences;
    seen.own_alone += terms.alone ? 1 : 0;
    ++seen.sequences_since;
    seen.tokens_since += terms.prompt_tokens;
    if (worker == prompt_worker) {
      ++seen.own_prompts;
      seen.own_prompt_tokens += terms.computed_tokens;
      seen.prompt_tokens_since += terms.computed_tokens;
    } else {
      ++seen.own_arriving;
    }
    (worker == prefill ? prefill_begun_ : decode_begun_) = worker->breaker.Begin(fleet.Now());
    fleet.LoadChanged(*worker);
  }
}

Lease::Lease(Lease&& other) noexcept
    : fleet_(std::exchange(other.fleet_, nullptr)),
      terms_(other.terms_),
      prefill_begun_(other.prefill_begun_),
      decode_begun_(other.decode_begun_),
      prompt_waits_(other.prompt_waits_),
      postponed_(other.postponed_) {}

Lease::~Lease() {
  if (fleet_ == nullptr) return;
  PromptComputed();
  for (const uint64_t id : {terms_.prefill, terms_.decode}) {
    Worker* worker = fleet_->Find(id);
    if (worker == nullptr) continue;
    Subtract(worker->seen.own_sequences, 1);
    --worker->seen.sequences_since;
  }
}

void Lease::PromptPostponed() {
  if (terms_.prefill == 0 || !prompt_waits_ || std::exchange(postponed_, true)) return;
  if (Worker* worker = fleet_->Find(terms_.prefill)) {
    ++worker->seen.own_postponed;
    fleet_->LoadChanged(*worker);
  }
}

void Lease::PromptComes() {
  if (!std::exchange(postponed_, false)) return;
  if (Worker* worker = fleet_->Find(terms_.prefill)) {
    Subtract(worker->seen.own_postponed, 1);
    fleet_->LoadChanged(*worker);
  }
}

bool Lease::PromptComputed() {
  PromptComes();
  if (!std::exchange(prompt_waits_, false)) return false;
  for (const uint64_t id : {terms_.prefill, terms_.decode}) {
    Worker* worker = fleet_->Find(id);
    if (!terms_.alone || worker == nullptr) continue;
    Subtract(worker->seen.own_alone, 1);
    fleet_->LoadChanged(*worker);
  }
  const uint64_t prompt_worker = terms_.prefill != 0 ? terms_.prefill : terms_.decode;
  // tests/planted_bugs: registry_keeps_the_prompts_place
  if (Worker* worker = fleet_->Find(prompt_worker)) {
    Subtract(worker->seen.own_prompts, 1);
    Subtract(worker->seen.own_prompt_tokens, terms_.computed_tokens);
    worker->seen.prompt_tokens_since -= terms_.computed_tokens;
    fleet_->LoadChanged(*worker);
  }
  if (terms_.prefill == 0) return true;
  if (Worker* worker = fleet_->Find(terms_.decode)) Subtract(worker->seen.own_arriving, 1);
  return true;
}

}  // namespace baton
