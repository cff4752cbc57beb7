// How the scheduler lets the choices of one sequence part.
#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/check.h"
#include "common/engine/scheduler.h"

namespace baton {

bool Scheduler::EndsInABlock(const Sequence& sequence) const {
  return sequence.token_count() % options_.block_size != 0;
}

void Scheduler::DropChoice(Sequence& sequence, int choice) {
  BATON_CHECK(sequence.forks(), "the last choice ends with its sequence");
  const int with = BlocksToStart(sequence);
  const auto dropped = std::find(sequence.choices.begin(), sequence.choices.end(), choice);
  BATON_CHECK(dropped != sequence.choices.end(), "a choice of the sequence");
  sequence.choices.erase(dropped);
  sequence.reservation.GiveUp(
      std::min(sequence.reservation.count(), with - BlocksToStart(sequence)));
}

// Makes every further choice a sequence of its own and returns these. REQUIRES: the step that
// samples the first tokens is enqueued, or they were committed.
std::vector<Sequence*> Scheduler::Part(Sequence& sequence) {
  std::vector<Sequence*> others;
  std::vector<std::unique_ptr<Sequence>>& choices = sequences_.at(sequence.id);
  for (size_t i = 1; i < sequence.choices.size(); ++i) {
    choices.push_back(MakeChoice(sequence, sequence.choices[i]));
    others.push_back(choices.back().get());
  }
  sequence.choices.resize(1);
  // MakeChoice took the blocks reserved for copies. The rest is head-room, which may be less than
  // one block for each.
  for (Sequence* other : others) {
    if (sequence.reservation.count() > 1) other->reservation = sequence.reservation.Split(1);
    running_.insert(other);
  }
  return others;
}

std::unique_ptr<Sequence> Scheduler::MakeChoice(Sequence& first, int choice) {
  SequenceRequest request = first.request;
  request.token_ids = first.token_ids;
  request.choice = choice;
  request.choices = 1;
  const auto rank = static_cast<uint64_t>(choice - first.request.choice);
  auto other = std::make_unique<Sequence>(first.id, first.arrival + rank, std::move(request));
  other->most_tokens = first.most_tokens;
  other->last_step = first.last_step;
  other->state = first.state;
  other->paused = first.paused;
  other->admitted = first.admitted;
  other->committed = first.committed;
  other->kv_numerics = first.kv_numerics;
  other->vouched = first.vouched;
  other->computed_tokens = first.computed_tokens;
  other->cached_tokens = first.cached_tokens;
  other->prefill_tokens = first.prefill_tokens;
  other->preemptions = first.preemptions;
  other->ready = first.ready;
  other->first_step = first.first_step;
  for (size_t i = 0; i < first.blocks.size(); ++i) {
    const bool its_own = EndsInABlock(first) && i + 1 == first.blocks.size();
    AddBlock(*other, its_own ? first.reservation.Take() : first.blocks[i].Share());
  }
  if (EndsInABlock(first)) {
    other->copies_last_block = true;
    other->copied_from = first.blocks.back().Share();
  }
  other->entered_blocks = first.entered_blocks;
  return other;
}

}  // namespace baton
