#include "client/plan/planned_engine.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace baton {
namespace {

using Kind = PlannedSequence::Kind;

// The name by which a sequence's own tokens stay. Pages have hashes for names, so a page of the
// same name is as unlikely as two equal hashes.
uint64_t OwnName(const PlannedSequence& sequence) {
  return (uint64_t{0xba70} << 48) + sequence.request + 1;
}

bool ArrivedBefore(const PlannedSequence* a, const PlannedSequence* b) {
  return a->request < b->request;
}

}  // namespace

PlannedEngine::PlannedEngine(const Options& options, const StepCosts& costs, PlannedMemory memory)
    : options_(options),
      costs_(costs),
      memory_(std::move(memory)),
      sizer_(options.max_num_batched_tokens, options.max_step_duration) {}

void PlannedEngine::Submit(PlannedSequence& sequence) {
  sequence.known_tokens = sequence.prompt_tokens;
  waiting_.insert(std::upper_bound(waiting_.begin(), waiting_.end(), &sequence, ArrivedBefore),
                  &sequence);
}

void PlannedEngine::Commit(PlannedSequence& sequence) {
  sequence.computed_tokens = sequence.prompt_tokens;
  ++sequence.known_tokens;
  EnterPages(sequence);
  running_.insert(std::upper_bound(running_.begin(), running_.end(), &sequence, ArrivedBefore),
                  &sequence);
}

void PlannedEngine::Release(PlannedSequence& sequence) {
  const auto place = std::find(running_.begin(), running_.end(), &sequence);
  if (place != running_.end()) running_.erase(place);
  const auto used = static_cast<size_t>(sequence.pages_used);
  memory_.Leave(sequence.pages.first(used), sequence.own_tokens, OwnName(sequence));
  sequence.pages_used = 0;
  sequence.own_tokens = 0;
}

std::optional<int64_t> PlannedEngine::Begin() {
  BATON_CHECK(!in_step_, "one step at a time");
  admitted_.clear();
  batch_.clear();
  shape_ = {};
  const int decode_rows = ScheduleDecodes();
  int room = std::max(sizer_.rows() - decode_rows, kChunkTokens);
  const auto members =
      std::min<size_t>(running_.size(), static_cast<size_t>(options_.max_num_seqs));
  for (size_t i = 0; i < members; ++i) {
    if (running_[i]->uncomputed_tokens() > 1) room -= ScheduleChunk(*running_[i], room);
  }
  Admit(options_.max_num_seqs - static_cast<int>(members), room);
  if (batch_.empty()) return std::nullopt;
  in_step_ = true;
  step_ns_ = costs_.StepNanoseconds(shape_);
  ++counts_.steps;
  counts_.decode_steps += shape_.decodes > 0;
  counts_.decode_rows += static_cast<uint64_t>(shape_.decodes);
  counts_.chunk_rows += static_cast<uint64_t>(shape_.chunk_rows);
  counts_.busy_ns += step_ns_;
  return step_ns_;
}

absl::Span<const StepOutcome> PlannedEngine::Finish() {
  BATON_CHECK(in_step_, "a step is in flight");
  in_step_ = false;
  sizer_.Observe(shape_.decodes + shape_.chunk_rows, absl::Nanoseconds(step_ns_));
  for (const StepOutcome& outcome : batch_) {
    PlannedSequence& sequence = *outcome.sequence;
    sequence.computed_tokens += outcome.token_count;
    if (outcome.first_token < sequence.prompt_tokens) EnterPages(sequence);
    if (!outcome.produces_token) continue;
    ++sequence.known_tokens;
    if (sequence.decodes()) continue;
    // The prompt is computed; its blocks stay until the last byte has gone.
    running_.erase(std::find(running_.begin(), running_.end(), &sequence));
  }
  return batch_;
}

int64_t PlannedEngine::InBlocks(int64_t tokens) const {
  return (tokens + options_.block_tokens - 1) / options_.block_tokens * options_.block_tokens;
}

// Room for the first `tokens` tokens, in whole blocks.
bool PlannedEngine::GrowTo(PlannedSequence& sequence, int64_t tokens) {
  const int64_t of_pages = int64_t{sequence.pages_used} * memory_.page_tokens();
  const int64_t lacking = InBlocks(tokens) - of_pages - sequence.own_tokens;
  if (lacking <= 0) return true;
  if (!memory_.TryTake(lacking)) return false;
  sequence.own_tokens += lacking;
  return true;
}

bool PlannedEngine::TryStart(PlannedSequence& sequence) {
  const int held = memory_.HeldPages(sequence.pages);
  memory_.Use(sequence.pages, held);
  sequence.pages_used = held;
  // What a preempted sequence has left is of use only if all before it is there too.
  sequence.own_tokens = memory_.TakeAgain(OwnName(sequence));
  if (held < static_cast<int>(sequence.pages.size())) {
    memory_.Give(std::exchange(sequence.own_tokens, 0));
  }
  int64_t there = int64_t{held} * memory_.page_tokens() + sequence.own_tokens;
  // A hit is of whole blocks and never covers the last token.
  there = std::min<int64_t>(there, sequence.known_tokens - 1);
  there -= there % options_.block_tokens;
  const int64_t head_room = sequence.decodes() ? options_.block_tokens : 0;
  if (!GrowTo(sequence, InBlocks(sequence.known_tokens) + head_room)) {
    memory_.Leave(sequence.pages.first(static_cast<size_t>(held)), sequence.own_tokens,
                  OwnName(sequence));
    sequence.pages_used = 0;
    sequence.own_tokens = 0;
    return false;
  }
  sequence.cached_tokens = static_cast<int>(there);
  sequence.computed_tokens = static_cast<int>(there);
  return true;
}

bool PlannedEngine::GetRoomForNextToken(PlannedSequence& sequence) {
  while (!GrowTo(sequence, sequence.known_tokens)) {
    // The youngest sequence is preempted, which may be this one; a lone sequence misses the step.
    if (running_.size() < 2) return false;
    PlannedSequence& victim = *running_.back();
    Preempt(victim);
    if (&victim == &sequence) return false;
  }
  return true;
}

void PlannedEngine::Preempt(PlannedSequence& sequence) {
  ++counts_.preemptions;
  Release(sequence);
  sequence.preempted = true;
  sequence.computed_tokens = 0;
  sequence.kind = Kind::kWhole;  // it is recomputed here
  waiting_.insert(std::upper_bound(waiting_.begin(), waiting_.end(), &sequence, ArrivedBefore),
                  &sequence);
}

int PlannedEngine::ScheduleDecodes() {
  // Preemptions shorten the list from its end.
  for (size_t i = 0; i < running_.size() && i < static_cast<size_t>(options_.max_num_seqs); ++i) {
    PlannedSequence& sequence = *running_[i];
    if (sequence.uncomputed_tokens() != 1 || !GetRoomForNextToken(sequence)) continue;
    batch_.push_back({.sequence = &sequence,
                      .first_token = sequence.computed_tokens,
                      .token_count = 1,
                      .produces_token = true});
    if (sequence.decodes()) {
      ++shape_.decodes;
      shape_.decode_context += sequence.known_tokens;
    } else {
      shape_.AddChunk(1, sequence.computed_tokens);
    }
  }
  return static_cast<int>(batch_.size());
}

// Chunks that are not the last end on multiples of kChunkTokens.
int PlannedEngine::ScheduleChunk(PlannedSequence& sequence, int room) {
  int end = sequence.known_tokens;
  if (sequence.uncomputed_tokens() > room) {
    end = sequence.computed_tokens + room;
    end -= end % kChunkTokens;
  }
  const int count = end - sequence.computed_tokens;
  if (count <= 0) return 0;
  batch_.push_back({.sequence = &sequence,
                    .first_token = sequence.computed_tokens,
                    .token_count = count,
                    .produces_token = end == sequence.known_tokens});
  shape_.AddChunk(count, sequence.computed_tokens);
  return count;
}

void PlannedEngine::Admit(int places, int room) {
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    PlannedSequence& sequence = **next;
    const bool computed_here = sequence.kind != Kind::kReceive;
    if (computed_here && (places <= 0 || room <= 0)) {
      ++next;
      continue;
    }
    if (!TryStart(sequence)) return;
    next = waiting_.erase(next);
    if (!sequence.preempted) admitted_.push_back(&sequence);
    if (!computed_here) continue;
    --places;
    running_.insert(std::upper_bound(running_.begin(), running_.end(), &sequence, ArrivedBefore),
                    &sequence);
    room -= ScheduleChunk(sequence, room);
  }
}

// Those that are computed from the last used one on.
void PlannedEngine::EnterPages(PlannedSequence& sequence) {
  const int page_tokens = memory_.page_tokens();
  const int whole =
      std::min(static_cast<int>(sequence.pages.size()), sequence.computed_tokens / page_tokens);
  while (sequence.pages_used < whole) {
    memory_.Enter(sequence.pages[static_cast<size_t>(sequence.pages_used++)]);
    sequence.own_tokens -= page_tokens;
  }
}

}  // namespace baton
