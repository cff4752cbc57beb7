#include "common/engine/block_ledger.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "common/base/check.h"
#include "common/kv/layout.h"

namespace baton {

using Mode = SequenceRequest::Mode;

namespace {

// A part of the prompt is still to be computed, for which it takes blocks of its reservation.
bool StillPrefills(const Sequence& sequence, int computed_tokens) {
  return computed_tokens < sequence.kv.prefill_tokens;
}

}  // namespace

BlockLedger::BlockLedger(const Options& options, BlockPool& pool, PrefixCache* prefix_cache,
                         StepsInFlight& steps)
    : layout_{.block_size = options.block_size, .groups = options.groups},
      block_size_(layout_.block_size),
      groups_(layout_.groups),
      chunk_tokens_(options.chunk_tokens),
      pool_(pool),
      prefix_cache_(prefix_cache),
      steps_(steps),
      retained_(layout_, options.retained, pool),
      sources_(layout_, pool) {
  BATON_CHECK(!groups_.any_window() || chunk_tokens_ > 0, "a window waits for chunks");
}

bool BlockLedger::EndsInASpan(const Sequence& sequence) const {
  return sequence.tokens.count() % block_size_ != 0;
}

KvNeed BlockLedger::NeedOf(const Sequence& sequence) const {
  const int tokens = sequence.tokens.count();
  if (sequence.awaits_kv()) return {.handed_off = tokens};
  const bool hands_off = sequence.request.mode == Mode::kPrefillOnly;
  return {.computes = true, .handed_off = hands_off ? tokens : 0};
}

// The most that it has at once.
int BlockLedger::BlocksForTokens(const Sequence& sequence) const {
  const int tokens = sequence.tokens.count();
  if (!sequence.awaits_kv()) {
    return static_cast<int>(groups_.BlocksOf(tokens, block_size_, chunk_tokens_));
  }
  int blocks = 0;
  for (int group = 0; group < groups_.count(); ++group) {
    blocks += SpansFor(tokens) - groups_.FirstHandedOff(group, tokens) / block_size_;
  }
  return blocks;
}

int BlockLedger::HeadRoom(const Sequence& sequence) const {
  if (sequence.request.mode == Mode::kPrefillOnly) return 0;
  return static_cast<int>(sequence.choices.size()) * groups_.count();
}

int BlockLedger::BlocksToStart(const Sequence& sequence) const {
  const int for_tokens = BlocksForTokens(sequence);
  if (sequence.request.mode == Mode::kPrefillOnly) return for_tokens;
  const int further_choices = static_cast<int>(sequence.choices.size()) - 1;
  const int copies = EndsInASpan(sequence) ? further_choices * groups_.count() : 0;
  return std::min(for_tokens + copies + HeadRoom(sequence), pool_.total_blocks());
}

int BlockLedger::LackingBlocks(const Sequence& sequence) const {
  const SequenceBlocks& blocks = sequence.blocks;
  int lacking = (SpansFor(sequence.tokens.count()) - SpansOf(sequence)) * groups_.count();
  for (size_t entry = Entry(sequence.kv.computed_tokens / block_size_, 0);
       entry < blocks.held.size(); ++entry) {
    if (blocks.held[entry].empty()) ++lacking;
  }
  return std::max(0, lacking - blocks.reservation.count());
}

bool BlockLedger::TryStart(Sequence& sequence) {
  HeldPrefix held;
  // tests/planted_bugs: prompt_logprobs_behind_a_cached_prefix
  if (!sequence.awaits_kv() && !sequence.scores()) held = FindHeld(sequence);
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
  sequence.kv.vouched = held.shared * block_size_ == held.tokens;
  TakeReserved(sequence);
  return true;
}

void BlockLedger::Open(Sequence& sequence, std::string kv_numerics) {
  sequence.kv.received_tokens = sequence.tokens.count();
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
  // tests/planted_bugs: quarantined_prefix_kept
  if (prefix_cache_ != nullptr) prefix_cache_->ForgetAll();
}

void BlockLedger::Commit(Sequence& sequence) {
  CheckWrittenBlocksAreItsOwn(sequence);
  retained_.Forget(sequence.request.resume_key);
  EnterSpans(sequence, sequence.tokens.count());
}

bool BlockLedger::TakeForChunk(Sequence& sequence, int end) {
  SequenceBlocks& blocks = sequence.blocks;
  for (size_t entry = Entry(sequence.kv.computed_tokens / block_size_, 0);
       entry < Entry(SpansFor(end), 0); ++entry) {
    if (!blocks.held[entry].empty()) continue;
    if (blocks.reservation.count() == 0 && !blocks.reservation.TryGrow()) return false;
    blocks.Put(entry, blocks.reservation.Take());
  }
  return true;
}

bool BlockLedger::TryTakeForNextToken(Sequence& sequence) {
  if (LackingBlocks(sequence) > pool_.available_blocks()) return false;
  SequenceBlocks& blocks = sequence.blocks;
  while (!HasSpans(sequence)) blocks.Add({});
  for (size_t entry = Entry(sequence.kv.computed_tokens / block_size_, 0);
       entry < blocks.held.size(); ++entry) {
    if (!blocks.held[entry].empty()) continue;
    const bool reserved = blocks.reservation.count() > 0;
    blocks.Put(entry, reserved ? blocks.reservation.Take() : *pool_.TryAllocate());
  }
  return true;
}

int BlockLedger::TakeAhead(Sequence& sequence, int wanted) {
  SequenceBlocks& blocks = sequence.blocks;
  const auto room = [&] { return SpansOf(sequence) * block_size_ - sequence.tokens.count(); };
  // tests/planted_bugs: guess_takes_the_head_room
  if (wanted > room() && pool_.available_blocks() >= groups_.count()) {
    for (int group = 0; group < groups_.count(); ++group) blocks.Add(*pool_.TryAllocate());
    blocks.ahead = true;
  }
  return std::min(wanted, room());
}

// So the sequence has, in all, as many blocks as if nothing had been guessed.
void BlockLedger::SettleAhead(Sequence& sequence) {
  SequenceBlocks& blocks = sequence.blocks;
  if (!std::exchange(blocks.ahead, false)) return;
  // tests/planted_bugs: guess_keeps_its_block
  if (SpansOf(sequence) > SpansFor(sequence.tokens.count())) {
    for (int group = 0; group < groups_.count(); ++group) {
      blocks.table.pop_back();
      blocks.held.pop_back();
    }
  } else {
    blocks.reservation.GiveUp(std::min(blocks.reservation.count(), groups_.count()));
  }
}

void BlockLedger::Share(Sequence& first, Sequence& other) {
  SequenceBlocks& from = first.blocks;
  const size_t last_span = Entry(SpansOf(first) - 1, 0);
  for (size_t entry = 0; entry < from.held.size(); ++entry) {
    const BlockPool::Block& block = from.held[entry];
    if (block.empty()) {
      other.blocks.Add({});
    } else if (entry < last_span || !EndsInASpan(first)) {
      other.blocks.Add(block.Share());
    } else {
      other.blocks.Add(from.reservation.Take());
      sources_.Copied(block, other.blocks.held.back());
      other.blocks.copied_from.push_back(block.Share());
    }
  }
  other.blocks.entered = from.entered;
}

// Share took the blocks reserved for copies. The rest is head-room, which may be less than one
// block for each.
void BlockLedger::SplitHeadRoom(Sequence& first, const std::vector<Sequence*>& others) {
  BlockPool::Reservation& left = first.blocks.reservation;
  const int span = groups_.count();
  for (Sequence* other : others) {
    if (left.count() >= 2 * span) other->blocks.reservation = left.Split(span);
  }
}

void BlockLedger::GiveUpSince(Sequence& sequence, int before) {
  BlockPool::Reservation& reservation = sequence.blocks.reservation;
  reservation.GiveUp(std::min(reservation.count(), before - BlocksToStart(sequence)));
}

void BlockLedger::Copied(Sequence& sequence, uint64_t step) {
  for (BlockPool::Block& block : sequence.blocks.copied_from) {
    steps_.Keep({.last_step = step, .block = std::move(block)});
  }
  sequence.blocks.copied_from.clear();
}

void BlockLedger::GiveUpReservation(Sequence& sequence) {
  sequence.blocks.reservation = BlockPool::Reservation();
}

void BlockLedger::GiveBack(Sequence& sequence) {
  sequence.blocks.GiveBack();
  sequence.kv.computed_tokens = 0;
  sequence.kv.received_tokens = 0;
  sequence.kv.numerics.clear();  // computed here from now on
}

BlockLedger::HeldPrefix BlockLedger::FindHeld(const Sequence& sequence) const {
  HeldPrefix held;
  const KvNeed need = NeedOf(sequence);
  if (prefix_cache_ != nullptr && sequence.kv.numerics.empty()) {
    held.table = prefix_cache_->Find(sequence.tokens.ids, sequence.request.cache_salt, need);
  }
  held.shared = static_cast<int>(held.table.size()) / groups_.count();
  held.tokens = held.shared * block_size_;
  const RetainedPrefixes::Match more =
      retained_.Find(sequence.request.resume_key, sequence.kv.numerics, sequence.tokens.ids,
                     static_cast<size_t>(held.shared), need);
  if (more.tokens > 0) {
    held.table.insert(held.table.end(), more.blocks.begin(), more.blocks.end());
    held.tokens = more.tokens;
  }
  for (size_t entry = 0; entry < held.table.size(); ++entry) {
    const int32_t block = held.table[entry];
    if (block == kNoBlock || pool_.reference_count(block) == 0) continue;
    // One that gives the blocks of a window back takes others in their place.
    const int group = static_cast<int>(entry) % groups_.count();
    if (sequence.awaits_kv() || groups_.window(group) == 0) ++held.used_blocks;
  }
  return held;
}

// Held blocks in use are shared; unused ones come out of the reservation.
void BlockLedger::TakeHeld(Sequence& sequence, const HeldPrefix& held) {
  SequenceBlocks& blocks = sequence.blocks;
  for (const int32_t block : held.table) {
    if (block == kNoBlock) {
      blocks.Add({});
    } else if (pool_.reference_count(block) > 0) {
      blocks.Add(pool_.Share(block));
    } else {
      blocks.Add(blocks.reservation.TakeKept(block));
    }
  }
  blocks.entered = static_cast<size_t>(held.shared);
  sequence.kv.cached_tokens = held.tokens;
  retained_.Forget(sequence.request.resume_key);
}

// Takes reserved blocks for the rest of the sequence's tokens: those that it reads or writes from
// now on, but of windows only what a peer writes. TakeForChunk takes the others.
void BlockLedger::TakeReserved(Sequence& sequence) {
  SequenceBlocks& blocks = sequence.blocks;
  while (!HasSpans(sequence)) blocks.Add({});
  for (int group = 0; group < groups_.count(); ++group) {
    int first = 0;
    if (groups_.window(group) > 0) {
      if (!sequence.awaits_kv()) continue;
      first = groups_.FirstHandedOff(group, sequence.tokens.count());
    }
    for (int span = first / block_size_; span < SpansOf(sequence); ++span) {
      if (!blocks.held[Entry(span, group)].empty()) continue;
      blocks.Put(Entry(span, group), blocks.reservation.Take());
    }
  }
}

// A peer writes into the blocks behind the held prefix, so no other sequence may read them.
void BlockLedger::CheckWrittenBlocksAreItsOwn(const Sequence& sequence) const {
  const std::vector<BlockPool::Block>& held = sequence.blocks.held;
  for (size_t entry = Entry(sequence.kv.cached_tokens / block_size_, 0); entry < held.size();
       ++entry) {
    BATON_CHECK(held[entry].empty() || pool_.reference_count(held[entry].id()) == 1,
                "a block to be written is shared");
  }
}

void BlockLedger::Computed(Sequence& sequence, int computed_tokens) {
  EnterSpans(sequence, computed_tokens);
  if (!groups_.any_window()) return;
  GiveBackUnread(sequence, computed_tokens);
  if (StillPrefills(sequence, computed_tokens)) return;
  // From here on it takes span by span.
  BlockPool::Reservation& reservation = sequence.blocks.reservation;
  reservation.GiveUp(std::max(0, reservation.count() - HeadRoom(sequence)));
}

void BlockLedger::EnterSpans(Sequence& sequence, int computed_tokens) {
  if (prefix_cache_ == nullptr || !sequence.kv.shareable()) return;
  SequenceBlocks& blocks = sequence.blocks;
  const size_t whole = static_cast<size_t>(computed_tokens / block_size_);
  // tests/planted_bugs: whole_spans_entered
  for (size_t& next = blocks.entered; next < whole; ++next) {
    const auto span = static_cast<int>(next);
    NoteContinued(sequence, span);
    for (auto& [group, block] :
         prefix_cache_->Insert(sequence.tokens.ids, sequence.request.cache_salt, blocks.held, next,
                               sequence.kv.received_tokens)) {
      if (PeerReads(sequence, span, group)) {
        blocks.replaced.push_back(std::move(block));
        continue;
      }
      if (steps_.Have(sequence)) {
        steps_.Keep({.last_step = sequence.last_step, .block = std::move(block)});
      }
      block = {};
      // When the block in its place is given back, nothing comes free as long as others have it.
      if (StillPrefills(sequence, computed_tokens) && groups_.window(group) > 0) {
        blocks.reservation.TryGrow();
      }
    }
    for (int group = 0; group < groups_.count(); ++group) {
      const size_t entry = Entry(span, group);
      blocks.table[entry] = blocks.held[entry].empty() ? kNoBlock : blocks.held[entry].id();
    }
  }
}

// A peer wrote the span's first rows, and the others were computed here.
void BlockLedger::NoteContinued(const Sequence& sequence, int span) {
  const int begin = span * block_size_;
  const int received = sequence.kv.received_tokens;
  if (received <= begin || received >= begin + block_size_) return;
  for (int group = 0; group < groups_.count(); ++group) {
    const BlockPool::Block& block = sequence.blocks.held[Entry(span, group)];
    if (!block.empty()) sources_.ContinuedHere(block);
  }
}

// The hand-off carries tokens of the block.
bool BlockLedger::PeerReads(const Sequence& sequence, int span, int group) const {
  return sequence.request.mode == Mode::kPrefillOnly &&
         (span + 1) * block_size_ > groups_.FirstHandedOff(group, sequence.tokens.count());
}

// No later token, and no hand-off, reads what comes before the windows.
void BlockLedger::GiveBackUnread(Sequence& sequence, int computed_tokens) {
  SequenceBlocks& blocks = sequence.blocks;
  const KvNeed need = NeedOf(sequence);
  for (int group = 0; group < groups_.count(); ++group) {
    int span = groups_.FirstNeeded(group, need, computed_tokens) / block_size_;
    while (--span >= 0 && !blocks.held[Entry(span, group)].empty()) {
      const std::set<std::string> names = sources_.NamesOf(blocks.held[Entry(span, group)]);
      sequence.kv.former_sources.insert(names.begin(), names.end());
      if (names.size() != 1) sequence.kv.former_sources.insert("");
      blocks.Put(Entry(span, group), {});
      if (StillPrefills(sequence, computed_tokens)) blocks.reservation.TryGrow();
    }
  }
}

void BlockLedger::ForgetBlocks(const Sequence& sequence) {
  if (prefix_cache_ == nullptr) return;
  for (const int32_t block : sequence.blocks.table) {
    if (block != kNoBlock) prefix_cache_->Forget(block);
  }
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
                    .first_block = sequence.blocks.entered,
                    .handed_off = sequence.tokens.count()},
                   sequence.blocks.held, now);
}

}  // namespace baton
