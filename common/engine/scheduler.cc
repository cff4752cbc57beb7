#include "common/engine/scheduler.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/kv/layout.h"

namespace baton {

using Mode = SequenceRequest::Mode;
using State = Sequence::State;

Scheduler::Scheduler(const SchedulerOptions& options, BlockPool& pool, PrefixCache* prefix_cache)
    : options_(options),
      pool_(pool),
      prefix_cache_(prefix_cache),
      retained_(options.block_size, options.retained, pool) {}

Scheduler::~Scheduler() = default;

Sequence& Scheduler::Add(SequenceId id, SequenceRequest request) {
  auto sequence = std::make_unique<Sequence>(id, next_arrival_, std::move(request));
  next_arrival_ += sequence->choices.size();
  std::vector<std::unique_ptr<Sequence>>& choices = sequences_[id];
  BATON_CHECK(choices.empty(), "a sequence id is used twice");
  Sequence& newest = *choices.emplace_back(std::move(sequence));
  newest.most_tokens = static_cast<int>(
      std::min(int64_t{newest.request.prompt_length} + newest.request.sampling.max_tokens,
               int64_t{options_.max_model_len}));
  waiting_.insert(&newest);
  return newest;
}

Sequence* Scheduler::Find(SequenceId id) {
  const auto entry = sequences_.find(id);
  return entry == sequences_.end() ? nullptr : entry->second.front().get();
}

std::vector<Sequence*> Scheduler::Choices(SequenceId id) {
  std::vector<Sequence*> choices;
  const auto entry = sequences_.find(id);
  if (entry == sequences_.end()) return choices;
  for (const auto& sequence : entry->second) choices.push_back(sequence.get());
  return choices;
}

void Scheduler::OpenReceive(Sequence& sequence, std::string kv_numerics) {
  BATON_CHECK(sequence.state == State::kReserved, "OpenReceive without a reservation");
  sequence.kv_numerics = std::move(kv_numerics);
  const HeldPrefix held = FindHeld(sequence);
  TakeHeld(sequence, held);
  sequence.reservation.GiveUp(held.used_blocks);
  TakeReservedBlocks(sequence);
  CheckWrittenBlocksAreItsOwn(sequence);
  sequence.state = State::kReceiving;
}

std::vector<Sequence*> Scheduler::Commit(Sequence& sequence,
                                         absl::Span<const int32_t> first_tokens) {
  BATON_CHECK(sequence.state == State::kReceiving, "Commit before blocks were granted");
  BATON_CHECK(first_tokens.size() == sequence.choices.size(), "a first token for each choice");
  CheckWrittenBlocksAreItsOwn(sequence);
  retained_.Forget(sequence.request.resume_key);
  sequence.committed = true;
  MarkComputed(sequence, sequence.token_count());
  sequence.prefill_tokens = sequence.token_count();
  sequence.state = State::kRunning;
  running_.insert(&sequence);
  std::vector<Sequence*> choices = Part(sequence);
  choices.insert(choices.begin(), &sequence);
  for (size_t i = 0; i < choices.size(); ++i) AddOutput(*choices[i], first_tokens[i]);
  return choices;
}

void Scheduler::StepEnqueued(Schedule& schedule) {
  ++enqueued_steps_;
  for (ScheduledTokens& scheduled : schedule.batch) {
    Sequence& sequence = *scheduled.sequence;
    sequence.computed_tokens = scheduled.end_token();
    sequence.last_step = enqueued_steps_;
    if (std::exchange(sequence.copies_last_block, false)) {
      leaving_.push_back({.last_step = enqueued_steps_, .block = std::move(sequence.copied_from)});
    }
    const bool decodes_here = sequence.request.mode != Mode::kPrefillOnly;
    if (!scheduled.produces_token || !decodes_here) continue;
    scheduled.parted = Part(sequence);
    ++sequence.pending_outputs;
    for (Sequence* other : scheduled.parted) ++other->pending_outputs;
  }
}

std::vector<Scheduler::Leaving> Scheduler::StepDone() {
  BATON_CHECK(done_steps_ < enqueued_steps_, "a step in flight");
  ++done_steps_;
  std::vector<Leaving> left;
  std::vector<Leaving> staying;
  for (Leaving& leaving : leaving_) {
    (leaving.last_step <= done_steps_ ? left : staying).push_back(std::move(leaving));
  }
  leaving_ = std::move(staying);
  return left;
}

void Scheduler::MarkComputed(Sequence& sequence, int end_token) {
  sequence.computed_tokens = std::max(sequence.computed_tokens, end_token);
  if (prefix_cache_ != nullptr && sequence.shareable()) EnterBlocks(sequence, end_token);
}

void Scheduler::AddOutput(Sequence& sequence, int32_t token_id) {
  sequence.token_ids.push_back(token_id);
  sequence.counts.AddOutput(token_id);
  sequence.pending_outputs = std::max(0, sequence.pending_outputs - 1);
}

void Scheduler::Retain(Sequence& sequence, int received_tokens, absl::Time now) {
  if (sequence.state != State::kReceiving || sequence.request.resume_key.empty()) return;
  BATON_CHECK(received_tokens <= sequence.token_count(), "no more is received than there is");
  int tokens = std::max(received_tokens, sequence.cached_tokens);
  tokens -= tokens % kKvPageTokens;
  const auto begin = sequence.token_ids.begin();
  retained_.Retain(sequence.request.resume_key,
                   {.token_ids = {begin, begin + tokens},
                    .numerics = sequence.kv_numerics,
                    .first_block = sequence.entered_blocks},
                   sequence.blocks, now);
}

void Scheduler::ForgetBlocks(Sequence& sequence) {
  if (prefix_cache_ == nullptr) return;
  for (const int32_t block : sequence.block_table) prefix_cache_->Forget(block);
}

void Scheduler::Hold(Sequence& sequence) {
  running_.erase(&sequence);
  sequence.state = State::kHeld;
}

void Scheduler::Remove(Sequence& sequence) {
  waiting_.erase(&sequence);
  running_.erase(&sequence);
  const auto entry = sequences_.find(sequence.id);
  auto& choices = entry->second;
  const auto place = std::find_if(choices.begin(), choices.end(),
                                  [&](const auto& choice) { return choice.get() == &sequence; });
  std::unique_ptr<Sequence> removed = std::move(*place);
  choices.erase(place);
  if (choices.empty()) sequences_.erase(entry);
  if (!InFlight(sequence)) return;
  sequence.state = State::kEnded;
  sequence.reservation = BlockPool::Reservation();
  leaving_.push_back({.last_step = sequence.last_step, .sequence = std::move(removed)});
}

// The answer may be a false yes: it also counts decodes that ScheduleDecodes would not reach.
bool Scheduler::MayPreempt() const {
  int lacking = 0;
  for (const Sequence* sequence : BatchMembers()) {
    if (sequence->uncomputed_tokens() != 1 || sequence->complete()) continue;
    const int blocks = static_cast<int>(sequence->blocks.size()) + sequence->reservation.count();
    lacking += std::max(0, BlocksFor(sequence->token_count()) - blocks);
  }
  return lacking > pool_.available_blocks();
}

Schedule Scheduler::Next(int row_budget) {
  Schedule schedule;
  sitting_out_ = 0;
  std::vector<Sequence*> members = BatchMembers();
  int decode_rows = ScheduleDecodes(members, schedule);
  const bool isolated = !members.empty() && members.front()->request.isolate;
  if (isolated && sitting_out_ > 0) {
    // It waits for the blocks of sequences that must run to their end to give them back.
    members = BatchMembers(/*without=*/members.front());
    decode_rows = ScheduleDecodes(members, schedule);
  }
  int room = std::max(row_budget - decode_rows, kChunkTokens);
  room = SchedulePrefills(members, room, schedule);
  int places = isolated ? 0 : options_.max_num_seqs;
  for (const Sequence* member : members) places -= PlacesOf(*member);
  Admit(places, room, schedule);
  return schedule;
}

Scheduler::Counts Scheduler::CountSequences() const {
  Counts counts;
  counts.waiting = static_cast<int>(waiting_.size());
  for (const Sequence* sequence : waiting_) {
    if (!sequence->awaits_kv()) counts.waiting_tokens += sequence->uncomputed_tokens();
  }
  for (const Sequence* sequence : running_) {
    if (!sequence->paused) ++counts.running;
    if (sequence->uncomputed_tokens() > 1) counts.waiting_tokens += sequence->uncomputed_tokens();
  }
  counts.runnable = std::max(0, counts.running - sitting_out_);
  return counts;
}

int Scheduler::PlacesOf(const Sequence& sequence) const {
  return std::min(static_cast<int>(sequence.choices.size()), options_.max_num_seqs);
}

std::vector<Sequence*> Scheduler::BatchMembers(const Sequence* without) const {
  std::vector<Sequence*> members;
  int places = options_.max_num_seqs;
  for (Sequence* sequence : running_) {
    if (sequence->paused || sequence == without) continue;
    if (sequence->request.isolate) return {sequence};
    places -= PlacesOf(*sequence);
    if (places >= 0) members.push_back(sequence);
  }
  return members;
}

int Scheduler::ScheduleDecodes(const std::vector<Sequence*>& members, Schedule& schedule) {
  for (Sequence* sequence : members) {
    // An older member may have preempted this one a moment ago.
    if (sequence->state != State::kRunning || sequence->uncomputed_tokens() != 1 ||
        sequence->complete()) {
      continue;
    }
    if (GetBlockForNextToken(*sequence, schedule)) {
      if (sequence->copies_last_block) {
        schedule.copies.push_back({sequence->copied_from.id(), sequence->blocks.back().id()});
      }
      schedule.batch.push_back({sequence, sequence->computed_tokens, 1, /*produces_token=*/true});
    } else if (sequence->state == State::kRunning) {
      ++sitting_out_;
    }
  }
  return static_cast<int>(schedule.batch.size());
}

int Scheduler::SchedulePrefills(const std::vector<Sequence*>& members, int room,
                                Schedule& schedule) {
  for (Sequence* sequence : members) {
    if (sequence->state != State::kRunning || sequence->uncomputed_tokens() == 1) continue;
    room -= ScheduleChunk(*sequence, room, schedule);
  }
  return room;
}

void Scheduler::Admit(int places, int room, Schedule& schedule) {
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    Sequence& sequence = **next++;
    const bool computed_here = !sequence.awaits_kv();
    if (computed_here && (sequence.paused || places <= 0 || room <= 0)) continue;
    if (computed_here && places < PlacesOf(sequence)) {
      places = 0;  // no sequence that is computed here overtakes it
      continue;
    }
    if (!ReserveBlocks(sequence)) return;
    waiting_.erase(&sequence);
    if (!std::exchange(sequence.admitted, true)) schedule.admitted.push_back(&sequence);
    if (!computed_here) {
      sequence.state = State::kReserved;
      continue;
    }
    TakeReservedBlocks(sequence);
    sequence.prefill_tokens = sequence.token_count();
    sequence.state = State::kRunning;
    running_.insert(&sequence);
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
// that is not the last one ends on a multiple of kChunkTokens; none is added where `room` does not
// reach the first such multiple.
int Scheduler::ScheduleChunk(Sequence& sequence, int room, Schedule& schedule) const {
  int end = sequence.token_count();
  if (sequence.uncomputed_tokens() > room) {
    end = sequence.computed_tokens + room;
    end -= end % kChunkTokens;
  }
  const int count = end - sequence.computed_tokens;
  if (count <= 0) return 0;
  schedule.batch.push_back(
      {&sequence, sequence.computed_tokens, count, end == sequence.token_count()});
  return count;
}

// Returns false when the sequence was preempted itself or sits this step out.
bool Scheduler::GetBlockForNextToken(Sequence& sequence, Schedule& schedule) {
  while (static_cast<int>(sequence.blocks.size()) < BlocksFor(sequence.token_count())) {
    if (sequence.reservation.count() > 0) {
      AddBlock(sequence, sequence.reservation.Take());
    } else if (std::optional<BlockPool::Block> block = pool_.TryAllocate()) {
      AddBlock(sequence, *std::move(block));
    } else {
      Sequence* victim = ChooseVictim();
      if (victim == nullptr) return false;
      Preempt(*victim, schedule);
      if (victim == &sequence) return false;
    }
  }
  return true;
}

// Returns null when fewer than two sequences could be preempted: the only one keeps its blocks.
Sequence* Scheduler::ChooseVictim() const {
  Sequence* victim = nullptr;
  int preemptible = 0;
  for (Sequence* sequence : running_) {
    if (!sequence->preemptible()) continue;
    ++preemptible;
    if (victim == nullptr || sequence->paused >= victim->paused) victim = sequence;
  }
  return preemptible < 2 ? nullptr : victim;
}

void Scheduler::Preempt(Sequence& sequence, Schedule& schedule) {
  BATON_CHECK(!InFlight(sequence) && sequence.pending_outputs == 0, "no step has it");
  running_.erase(&sequence);
  sequence.GiveBackBlocks();
  sequence.computed_tokens = 0;
  sequence.kv_numerics.clear();  // computed here from now on
  ++sequence.preemptions;
  sequence.state = State::kWaiting;
  waiting_.insert(&sequence);
  schedule.preempted.push_back(&sequence);
}

}  // namespace baton
