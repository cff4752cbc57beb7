// How the scheduler gives sequences their blocks: reserved ones, and blocks that hold the prefix
// that they begin with.
#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/engine/scheduler.h"

namespace baton {

using Mode = SequenceRequest::Mode;

int Scheduler::BlocksToStart(const Sequence& sequence) const {
  const int for_tokens = BlocksFor(sequence.token_count());
  if (sequence.request.mode == Mode::kPrefillOnly) return for_tokens;
  const int choices = static_cast<int>(sequence.choices.size());
  const int copies = EndsInABlock(sequence) ? choices - 1 : 0;
  return std::min(for_tokens + copies + choices, pool_.total_blocks());
}

// Reserves the blocks that the sequence starts with; false where too few are free. A sequence that
// is computed here takes the held blocks of its prefix at once. One whose KV comes from elsewhere
// takes them when it is opened: until then they are only looked at.
bool Scheduler::ReserveBlocks(Sequence& sequence) {
  HeldPrefix held;
  if (!sequence.awaits_kv()) held = FindHeld(sequence);
  std::optional<BlockPool::Reservation> reservation =
      pool_.TryReserve(BlocksToStart(sequence) - held.used_blocks);
  if (!reservation) return false;
  sequence.reservation = *std::move(reservation);
  if (sequence.awaits_kv()) {
    sequence.cached_tokens = FindHeld(sequence).tokens;
    return true;
  }
  TakeHeld(sequence, held);
  sequence.computed_tokens = held.tokens;
  sequence.vouched = held.shared == held.blocks.size();
  return true;
}

Scheduler::HeldPrefix Scheduler::FindHeld(const Sequence& sequence) const {
  HeldPrefix held;
  if (prefix_cache_ != nullptr && sequence.kv_numerics.empty()) {
    held.blocks = prefix_cache_->Find(sequence.token_ids, sequence.request.cache_salt);
  }
  held.shared = held.blocks.size();
  held.tokens = static_cast<int>(held.shared) * options_.block_size;
  const RetainedPrefixes::Match more = retained_.Find(
      sequence.request.resume_key, sequence.kv_numerics, sequence.token_ids, held.shared);
  if (more.tokens > 0) {
    held.blocks.insert(held.blocks.end(), more.blocks.begin(), more.blocks.end());
    held.tokens = more.tokens;
  }
  held.used_blocks =
      static_cast<int>(std::count_if(held.blocks.begin(), held.blocks.end(), [this](int32_t block) {
        return pool_.reference_count(block) > 0;
      }));
  return held;
}

// Held blocks that somebody uses are shared. Those that nobody uses come out of the reservation.
void Scheduler::TakeHeld(Sequence& sequence, const HeldPrefix& held) {
  for (const int32_t block : held.blocks) {
    const bool is_used = pool_.reference_count(block) > 0;
    AddBlock(sequence, is_used ? pool_.Share(block) : sequence.reservation.TakeKept(block));
  }
  sequence.entered_blocks = held.shared;
  sequence.cached_tokens = held.tokens;
  retained_.Forget(sequence.request.resume_key);
}

// A peer writes into the blocks behind the held prefix, so nobody else may read these.
void Scheduler::CheckWrittenBlocksAreItsOwn(const Sequence& sequence) const {
  for (size_t index = static_cast<size_t>(sequence.cached_tokens / options_.block_size);
       index < sequence.blocks.size(); ++index) {
    BATON_CHECK(pool_.reference_count(sequence.blocks[index].id()) == 1,
                "a block to be written is shared");
  }
}

int Scheduler::BlocksFor(int tokens) const {
  return (tokens + options_.block_size - 1) / options_.block_size;
}

// Takes as many reserved blocks as the sequence's tokens still lack.
void Scheduler::TakeReservedBlocks(Sequence& sequence) {
  while (static_cast<int>(sequence.blocks.size()) < BlocksFor(sequence.token_count())) {
    AddBlock(sequence, sequence.reservation.Take());
  }
}

// Tells the prefix cache of every whole block that is computed. Where the cache returns another
// block with the same content, the sequence goes on with that one.
void Scheduler::EnterBlocks(Sequence& sequence, int computed_tokens) {
  const size_t whole = static_cast<size_t>(computed_tokens / options_.block_size);
  for (size_t& next = sequence.entered_blocks; next < whole; ++next) {
    BlockPool::Block block = prefix_cache_->Insert(sequence.token_ids, sequence.request.cache_salt,
                                                   sequence.blocks, next);
    if (block.id() == sequence.blocks[next].id()) continue;
    sequence.block_table[next] = block.id();
    std::swap(sequence.blocks[next], block);
    const bool peer_reads = sequence.request.mode == Mode::kPrefillOnly;
    if (peer_reads) {
      sequence.replaced.push_back(std::move(block));
    } else if (InFlight(sequence)) {
      leaving_.push_back({.last_step = sequence.last_step, .block = std::move(block)});
    }
  }
}

void Scheduler::AddBlock(Sequence& sequence, BlockPool::Block block) {
  sequence.block_table.push_back(block.id());
  sequence.blocks.push_back(std::move(block));
}

}  // namespace baton
