#include "common/engine/scheduler.h"

#include <algorithm>

namespace baton {

using State = Sequence::State;

Scheduler::Scheduler(int max_num_seqs, SequenceTable& sequences, BlockLedger& ledger)
    : max_num_seqs_(max_num_seqs), sequences_(sequences), ledger_(ledger) {}

// The answer may be a false yes: it also counts decodes that ScheduleDecodes would not reach.
bool Scheduler::MayPreempt() const {
  int lacking = 0;
  for (const Sequence* sequence : BatchMembers()) {
    if (sequence->uncomputed_tokens() != 1 || sequence->complete()) continue;
    lacking += ledger_.LackingBlocks(*sequence);
  }
  return lacking > ledger_.available_blocks();
}

Schedule Scheduler::Next(int row_budget) {
  Schedule schedule;
  sitting_out_ = 0;
  std::vector<Sequence*> members = BatchMembers();
  int room = ScheduleMembers(members, row_budget, schedule);
  bool isolated = !members.empty() && members.front()->request.isolate;
  if (isolated && sitting_out_ > 0) {
    // It waits for its mask, or for the blocks of sequences that must run to their end to give them
    // back.
    isolated = !members.front()->waits_for_mask();
    members = BatchMembers(/*without=*/members.front());
    room = ScheduleMembers(members, row_budget, schedule);
  }
  int places = isolated ? 0 : max_num_seqs_;
  for (const Sequence* member : members) places -= PlacesOf(*member);
  Admit(places, room, schedule);
  return schedule;
}

Scheduler::Counts Scheduler::CountSequences() const {
  Counts counts;
  counts.waiting = static_cast<int>(sequences_.waiting().size());
  for (const Sequence* sequence : sequences_.waiting()) {
    if (!sequence->awaits_kv()) counts.waiting_tokens += sequence->uncomputed_tokens();
  }
  for (const Sequence* sequence : sequences_.running()) {
    if (!sequence->paused) ++counts.running;
    if (sequence->uncomputed_tokens() > 1) counts.waiting_tokens += sequence->uncomputed_tokens();
  }
  counts.runnable = std::max(0, counts.running - sitting_out_);
  return counts;
}

int Scheduler::PlacesOf(const Sequence& sequence) const {
  return std::min(static_cast<int>(sequence.choices.size()), max_num_seqs_);
}

std::vector<Sequence*> Scheduler::BatchMembers(const Sequence* without) const {
  std::vector<Sequence*> members;
  int places = max_num_seqs_;
  for (Sequence* sequence : sequences_.running()) {
    if (sequence->paused || sequence == without) continue;
    if (sequence->request.isolate) return {sequence};
    places -= PlacesOf(*sequence);
    if (places >= 0) members.push_back(sequence);
  }
  return members;
}

int Scheduler::ScheduleMembers(const std::vector<Sequence*>& members, int row_budget,
                               Schedule& schedule) {
  const int decode_rows = ScheduleDecodes(members, schedule);
  const int room = std::max(row_budget - decode_rows, kChunkTokens);
  return SchedulePrefills(members, room, schedule);
}

int Scheduler::ScheduleDecodes(const std::vector<Sequence*>& members, Schedule& schedule) {
  for (Sequence* sequence : members) {
    // An older member may have preempted this one a moment ago.
    if (sequence->state() != State::kRunning || sequence->uncomputed_tokens() != 1 ||
        sequence->complete() || sequence->waits_for_token()) {
      continue;
    }
    if (sequence->waits_for_mask()) {
      // tests/planted_bugs: mask_waits_for_one
      ++sitting_out_;
      continue;
    }
    if (GetBlocksForNextToken(*sequence, schedule)) {
      const SequenceBlocks& blocks = sequence->blocks;
      auto copy = blocks.table.end() - static_cast<std::ptrdiff_t>(blocks.copied_from.size());
      for (const BlockPool::Block& from : blocks.copied_from) {
        schedule.copies.push_back({from.id(), *copy++});
      }
      schedule.batch.push_back(
          {sequence, sequence->kv.computed_tokens, 1, /*produces_token=*/true});
    } else if (sequence->state() == State::kRunning) {
      ++sitting_out_;
    }
  }
  return static_cast<int>(schedule.batch.size());
}

int Scheduler::SchedulePrefills(const std::vector<Sequence*>& members, int room,
                                Schedule& schedule) {
  for (Sequence* sequence : members) {
    if (sequence->state() != State::kRunning || sequence->uncomputed_tokens() == 1) continue;
    room -= ScheduleChunk(*sequence, room, schedule);
  }
  return room;
}

void Scheduler::Admit(int places, int room, Schedule& schedule) {
  const SequenceTable::Line& waiting = sequences_.waiting();
  for (auto next = waiting.begin(); next != waiting.end();) {
    Sequence& sequence = **next++;
    const bool computed_here = !sequence.awaits_kv();
    if (computed_here && (sequence.paused || places <= 0 || room <= 0)) continue;
    if (computed_here && places < PlacesOf(sequence)) {
      places = 0;  // no sequence that is computed here overtakes it
      continue;
    }
    if (!ledger_.TryStart(sequence)) return;
    if (sequences_.Admit(sequence)) schedule.admitted.push_back(&sequence);
    if (!computed_here) continue;
    places -= PlacesOf(sequence);
    if (sequence.request.isolate) {
      // It is alone from the next step on, or in this one if the batch is empty. No sequence starts
      // behind it.
      places = 0;
      if (!schedule.batch.empty()) continue;
    }
    room -= ScheduleChunk(sequence, room, schedule);
  }
}

// Adds the sequence's next tokens to the batch, at most `room` rows, and returns how many. A chunk
// that is not the last one ends on a multiple of kChunkTokens; none is added if `room` does not
// reach the first such multiple.
int Scheduler::ScheduleChunk(Sequence& sequence, int room, Schedule& schedule) {
  int end = sequence.tokens.count();
  if (sequence.uncomputed_tokens() > room) {
    end = sequence.kv.computed_tokens + room;
    end -= end % kChunkTokens;
  }
  // All but the last rows, which sample the output.
  const bool waits = end == sequence.tokens.count() && sequence.waits_for_mask();
  if (waits) end = (end - 1) / kChunkTokens * kChunkTokens;
  const int count = end - sequence.kv.computed_tokens;
  if (count <= 0) {
    sitting_out_ += waits ? 1 : 0;
    return 0;
  }
  if (!ledger_.TakeForChunk(sequence, end)) {
    ++sitting_out_;
    return 0;
  }
  schedule.batch.push_back(
      {&sequence, sequence.kv.computed_tokens, count, end == sequence.tokens.count()});
  return count;
}

// Returns false when the sequence was preempted itself or sits this step out.
bool Scheduler::GetBlocksForNextToken(Sequence& sequence, Schedule& schedule) {
  while (!ledger_.TryTakeForNextToken(sequence)) {
    Sequence* victim = ChooseVictim();
    if (victim == nullptr) return false;
    sequences_.Preempt(*victim);
    schedule.preempted.push_back(victim);
    if (victim == &sequence) return false;
  }
  return true;
}

// Returns null when fewer than two sequences could be preempted: the only one keeps its blocks.
Sequence* Scheduler::ChooseVictim() const {
  Sequence* victim = nullptr;
  int preemptible = 0;
  for (Sequence* sequence : sequences_.running()) {
    if (!sequence->preemptible()) continue;
    ++preemptible;
    if (victim == nullptr || sequence->paused >= victim->paused) victim = sequence;
  }
  return preemptible < 2 ? nullptr : victim;
}

}  // namespace baton
