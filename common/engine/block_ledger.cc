#include "common/engine/block_ledger.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/kv/layout.h"

namespace baton {

using Mode = SequenceRequest::Mode;

BlockLedger::BlockLedger(const Options& options, BlockPool& pool, PrefixCache* prefix_cache,
                         StepsInFlight& steps)
    : block_size_(options.block_size),
      pool_(pool),
      prefix_cache_(prefix_cache),
      steps_(steps),
      retained_({.block_size = options.block_size}, options.retained, pool),
      sources_({.block_size = options.block_size}, pool) {}

int BlockLedger::BlocksFor(int tokens) const { return (tokens + block_size_ - 1) / block_size_; }

bool BlockLedger::EndsInABlock(const Sequence& sequence) const {
  return sequence.tokens.count() % block_size_ != 0;
}

int BlockLedger::BlocksToStart(const Sequence& sequence) const {
  const int for_tokens = BlocksFor(sequence.tokens.count());
  if (sequence.request.mode == Mode::kPrefillOnly) return for_tokens;
  const int choices = static_cast<int>(sequence.choices.size());
  const int copies = EndsInABlock(sequence) ? choices - 1 : 0;
  return std::min(for_tokens + copies + choices, pool_.total_blocks());
}

int BlockLedger::LackingBlocks(const Sequence& sequence) const {
  const int has = sequence.blocks.count() + sequence.blocks.reservation.count();
  return std::max(0, BlocksFor(sequence.tokens.count()) - has);
}

bool BlockLedger::TryStart(Sequence& sequence) {
  HeldPrefix held;
  if (!sequence.awaits_kv()) held = FindHeld(sequence);
  std::optional<BlockPool::Reservation> reservation =
      pool_.TryReserve(BlocksToStart(sequence) - held.used_blocks);
  if (!reservation) return false;
  sequence.blocks.reservation = *std::move(reservation);
  if (sequence.awaits_kv()) {
    sequence.kv.cached_tokens = FindHeld(sequence).tokens;
    return true;
  }
  TakeHeld(sequence, held);
  sequence.kv.computed_tokens = held.tokens;
  sequence.kv.vouched = held.shared == held.blocks.size();
  TakeReserved(sequence);
  return true;
}

void BlockLedger::Open(Sequence& sequence, std::string kv_numerics) {
  sequence.kv.numerics = std::move(kv_numerics);
  const HeldPrefix held = FindHeld(sequence);
  TakeHeld(sequence, held);
  sequence.blocks.reservation.GiveUp(held.used_blocks);
  TakeReserved(sequence);
  CheckWrittenBlocksAreItsOwn(sequence);
  sources_.Opened(sequence.blocks.held, sequence.kv.cached_tokens, sequence.request.kv_source);
}

void BlockLedger::ForgetAllHeld() {
  retained_.ForgetAll();
  if (prefix_cache_ != nullptr) prefix_cache_->ForgetAll();
}

void BlockLedger::Commit(Sequence& sequence) {
  CheckWrittenBlocksAreItsOwn(sequence);
  retained_.Forget(sequence.request.resume_key);
}

bool BlockLedger::TryTakeBlock(Sequence& sequence) {
  if (sequence.blocks.reservation.count() > 0) {
    sequence.blocks.Add(sequence.blocks.reservation.Take());
    return true;
  }
  std::optional<BlockPool::Block> block = pool_.TryAllocate();
  if (!block) return false;
  sequence.blocks.Add(*std::move(block));
  return true;
}

int BlockLedger::TakeAhead(Sequence& sequence, int wanted) {
  SequenceBlocks& blocks = sequence.blocks;
  const auto room = [&] { return blocks.count() * block_size_ - sequence.tokens.count(); };
  if (wanted > room()) {
    std::optional<BlockPool::Block> block = pool_.TryAllocate();
    if (block) {
      blocks.Add(*std::move(block));
      blocks.ahead = true;
    }
  }
  return std::min(wanted, room());
}

// So the sequence has, in all, as many blocks as if nothing had been guessed.
void BlockLedger::SettleAhead(Sequence& sequence) {
  SequenceBlocks& blocks = sequence.blocks;
  if (!std::exchange(blocks.ahead, false)) return;
  if (blocks.count() > BlocksFor(sequence.tokens.count())) {
    blocks.table.pop_back();
    blocks.held.pop_back();
  } else if (blocks.reservation.count() > 0) {
    blocks.reservation.GiveUp(1);
  }
}

void BlockLedger::Share(Sequence& first, Sequence& other) {
  SequenceBlocks& from = first.blocks;
  const bool copies_last = EndsInABlock(first);
  for (size_t i = 0; i < from.held.size(); ++i) {
    const bool its_own = copies_last && i + 1 == from.held.size();
    other.blocks.Add(its_own ? from.reservation.Take() : from.held[i].Share());
    if (its_own) sources_.Copied(from.held[i], other.blocks.held.back());
  }
  if (copies_last) {
    other.blocks.copies_last = true;
    other.blocks.copied_from = from.held.back().Share();
  }
  other.blocks.entered = from.entered;
}

// Share took the blocks reserved for copies. The rest is head-room, which may be less than one
// block for each.
void BlockLedger::SplitHeadRoom(Sequence& first, const std::vector<Sequence*>& others) {
  BlockPool::Reservation& left = first.blocks.reservation;
  for (Sequence* other : others) {
    if (left.count() > 1) other->blocks.reservation = left.Split(1);
  }
}

void BlockLedger::GiveUpSince(Sequence& sequence, int before) {
  BlockPool::Reservation& reservation = sequence.blocks.reservation;
  reservation.GiveUp(std::min(reservation.count(), before - BlocksToStart(sequence)));
}

void BlockLedger::Copied(Sequence& sequence, uint64_t step) {
  if (!std::exchange(sequence.blocks.copies_last, false)) return;
  steps_.Keep({.last_step = step, .block = std::move(sequence.blocks.copied_from)});
}

void BlockLedger::GiveUpReservation(Sequence& sequence) {
  sequence.blocks.reservation = BlockPool::Reservation();
}

void BlockLedger::GiveBack(Sequence& sequence) {
  sequence.blocks.GiveBack();
  sequence.kv.computed_tokens = 0;
  sequence.kv.numerics.clear();  // computed here from now on
}

BlockLedger::HeldPrefix BlockLedger::FindHeld(const Sequence& sequence) const {
  HeldPrefix held;
  if (prefix_cache_ != nullptr && sequence.kv.numerics.empty()) {
    held.blocks =
        prefix_cache_->Find(sequence.tokens.ids, sequence.request.cache_salt, {.computes = true});
  }
  held.shared = held.blocks.size();
  held.tokens = static_cast<int>(held.shared) * block_size_;
  const RetainedPrefixes::Match more =
      retained_.Find(sequence.request.resume_key, sequence.kv.numerics, sequence.tokens.ids,
                     held.shared, {.computes = true});
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
void BlockLedger::TakeHeld(Sequence& sequence, const HeldPrefix& held) {
  for (const int32_t block : held.blocks) {
    const bool is_used = pool_.reference_count(block) > 0;
    sequence.blocks.Add(is_used ? pool_.Share(block) : sequence.blocks.reservation.TakeKept(block));
  }
  sequence.blocks.entered = held.shared;
  sequence.kv.cached_tokens = held.tokens;
  retained_.Forget(sequence.request.resume_key);
}

// Takes as many reserved blocks as the sequence's tokens still lack.
void BlockLedger::TakeReserved(Sequence& sequence) {
  while (!HasBlocks(sequence)) sequence.blocks.Add(sequence.blocks.reservation.Take());
}

// A peer writes into the blocks behind the held prefix, so nobody else may read these.
void BlockLedger::CheckWrittenBlocksAreItsOwn(const Sequence& sequence) const {
  const std::vector<BlockPool::Block>& held = sequence.blocks.held;
  for (size_t index = static_cast<size_t>(sequence.kv.cached_tokens / block_size_);
       index < held.size(); ++index) {
    BATON_CHECK(pool_.reference_count(held[index].id()) == 1, "a block to be written is shared");
  }
}

void BlockLedger::EnterBlocks(Sequence& sequence, int computed_tokens) {
  if (prefix_cache_ == nullptr || !sequence.kv.shareable()) return;
  SequenceBlocks& blocks = sequence.blocks;
  const size_t whole = static_cast<size_t>(computed_tokens / block_size_);
  for (size_t& next = blocks.entered; next < whole; ++next) {
    std::vector<BlockPool::Block> replaced =
        prefix_cache_->Insert(sequence.tokens.ids, sequence.request.cache_salt, blocks.held, next);
    blocks.table[next] = blocks.held[next].id();
    const bool peer_reads = sequence.request.mode == Mode::kPrefillOnly;
    for (BlockPool::Block& block : replaced) {
      if (peer_reads) {
        blocks.replaced.push_back(std::move(block));
      } else if (steps_.Have(sequence)) {
        steps_.Keep({.last_step = sequence.last_step, .block = std::move(block)});
      }
    }
  }
}

void BlockLedger::ForgetBlocks(const Sequence& sequence) {
  if (prefix_cache_ == nullptr) return;
  for (const int32_t block : sequence.blocks.table) prefix_cache_->Forget(block);
}

void BlockLedger::Retain(const Sequence& sequence, int received_tokens, absl::Time now) {
  if (sequence.state() != Sequence::State::kReceiving || sequence.request.resume_key.empty()) {
    return;
  }
  BATON_CHECK(received_tokens <= sequence.tokens.count(), "no more is received than there is");
  int tokens = std::max(received_tokens, sequence.kv.cached_tokens);
  tokens -= tokens % kKvPageTokens;
  const auto begin = sequence.tokens.ids.begin();
  retained_.Retain(sequence.request.resume_key,
                   {.token_ids = {begin, begin + tokens},
                    .numerics = sequence.kv.numerics,
                    .first_block = sequence.blocks.entered},
                   sequence.blocks.held, now);
}

}  // namespace baton
