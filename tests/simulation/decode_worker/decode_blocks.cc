#include "tests/simulation/decode_worker/decode_blocks.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/simulation/worker_core.h"

namespace baton {

DecodeBlocks::DecodeBlocks(Sim& sim, const KvLayout& layout) : sim_(sim), layout_(layout) {
  memory_.resize(static_cast<size_t>(kPoolBlocks) * layout_.block_bytes());
}

void DecodeBlocks::Boot(const std::string& prefix_identity) {
  owners_.assign(kPoolBlocks, nullptr);
  pool_.emplace(kPoolBlocks);
  prefix_cache_.emplace(prefix_identity, layout_, *pool_);
  retained_.emplace(layout_, RetainedPrefixes::Bounds{.max_prefixes = 4}, *pool_);
  sources_.emplace(layout_, *pool_);
  distrusted_ = 0;
}

void DecodeBlocks::Crash() {
  squeezed_.clear();
  sources_.reset();
  retained_.reset();
  prefix_cache_.reset();
  pool_.reset();
}

uint8_t* DecodeBlocks::Bytes(int32_t block) {
  return memory_.data() + static_cast<size_t>(block) * layout_.block_bytes();
}

int DecodeBlocks::BlocksForTokens(int tokens, bool computed_here) const {
  const KvLayerGroups& groups = layout_.groups;
  if (computed_here) {
    return static_cast<int>(groups.BlocksOf(tokens, layout_.block_size, kSimChunk));
  }
  int blocks = 0;
  for (int group = 0; group < groups.count(); ++group) {
    blocks += layout_.BlocksFor(tokens) - groups.FirstHandedOff(group, tokens) / layout_.block_size;
  }
  return blocks;
}

int DecodeBlocks::UsedOf(const std::vector<int32_t>& table, bool computes) const {
  const KvLayerGroups& groups = layout_.groups;
  int used = 0;
  for (size_t entry = 0; entry < table.size(); ++entry) {
    if (table[entry] == kNoBlock || pool_->reference_count(table[entry]) == 0) continue;
    const bool windowed = groups.window(static_cast<int>(entry) % groups.count()) > 0;
    used += computes && windowed ? 0 : 1;
  }
  return used;
}

void DecodeBlocks::TakeOwn(SimHolding& held, size_t entry, BlockPool::Block block) {
  const SimHolding*& owner = owners_[static_cast<size_t>(block.id())];
  if (owner != nullptr) sim_.Violation("a block has two owners");
  owner = &held;
  held.Put(entry, std::move(block), *pool_);
}

void DecodeBlocks::Disown(const SimHolding& held, size_t entry) {
  const SimHolding*& owner = owners_[static_cast<size_t>(held.blocks[entry].id())];
  if (owner == &held) owner = nullptr;
}

void DecodeBlocks::TakeCached(SimHolding& held, const std::vector<int32_t>& blocks) {
  held.memory = {memory_.data(), layout_, {}};
  held.generations.clear();
  held.former_sources.clear();
  held.AddCached(blocks, *pool_);
}

void DecodeBlocks::TakeKept(SimHolding& held, const std::vector<int32_t>& blocks) {
  for (const int32_t id : blocks) {
    held.Add({}, *pool_);
    if (id != kNoBlock) TakeOwn(held, held.blocks.size() - 1, held.reservation.TakeKept(id));
  }
}

void DecodeBlocks::TakeReserved(SimHolding& held, int tokens, bool pushed) {
  const KvLayerGroups& groups = layout_.groups;
  while (held.spans() < layout_.BlocksFor(tokens)) held.AddSpan(*pool_);
  for (int group = 0; group < groups.count(); ++group) {
    if (groups.window(group) > 0 && !pushed) continue;
    const int first = pushed ? groups.FirstHandedOff(group, tokens) / layout_.block_size : 0;
    for (int span = first; span < held.spans(); ++span) {
      const size_t entry = held.Entry(span, group);
      if (held.blocks[entry].empty()) TakeOwn(held, entry, held.reservation.Take());
    }
  }
}

bool DecodeBlocks::TakeForChunk(SimHolding& held, int first, int end) {
  for (const size_t entry : held.Lacking(first, end)) {
    if (held.reservation.count() == 0 && !held.reservation.TryGrow()) return false;
    TakeOwn(held, entry, held.reservation.Take());
  }
  return true;
}

bool DecodeBlocks::TakeSpan(SimHolding& held) {
  const int groups = layout_.groups.count();
  if (groups - held.reservation.count() > pool_->available_blocks()) return false;
  for (int group = 0; group < groups; ++group) {
    const bool reserved = held.reservation.count() > 0;
    held.Add({}, *pool_);
    TakeOwn(held, held.blocks.size() - 1,
            reserved ? held.reservation.Take() : *pool_->TryAllocate());
  }
  return true;
}

bool DecodeBlocks::TakeAhead(SimHolding& held) {
  const int groups = layout_.groups.count();
  if (pool_->available_blocks() < groups) return false;
  for (int group = 0; group < groups; ++group) {
    held.Add({}, *pool_);
    TakeOwn(held, held.blocks.size() - 1, *pool_->TryAllocate());
  }
  return true;
}

void DecodeBlocks::SettleAhead(SimHolding& held, int tokens) {
  const int groups = layout_.groups.count();
  if (held.spans() > layout_.BlocksFor(tokens)) {
    ++sim_.coverage.blocks_of_refused;
    for (int group = 0; group < groups; ++group) {
      Disown(held, held.blocks.size() - 1);
      held.memory.block_table.pop_back();
      held.generations.pop_back();
      held.blocks.pop_back();
    }
  } else {
    held.reservation.GiveUp(std::min(held.reservation.count(), groups));
  }
}

void DecodeBlocks::Enter(SimHolding& held, const std::vector<int32_t>& token_ids, int tokens,
                         int handed_off) {
  const auto whole = static_cast<size_t>(tokens / layout_.block_size);
  for (size_t& next = held.entered_spans; next < whole; ++next) {
    for (const PrefixCache::Replaced& own :
         prefix_cache_->Insert(token_ids, "", held.blocks, next, handed_off)) {
      const SimHolding*& owner = owners_[static_cast<size_t>(own.block.id())];
      if (owner == &held) owner = nullptr;
    }
    for (int group = 0; group < held.groups(); ++group) {
      const size_t entry = held.Entry(static_cast<int>(next), group);
      held.Put(entry, std::move(held.blocks[entry]), *pool_);
    }
  }
}

// As an engine does, it remembers who wrote what it gives back: its tokens rest on that still.
void DecodeBlocks::GiveBackUnread(SimHolding& held, int computed, int tokens) {
  for (const size_t entry : held.Unread(computed, {.computes = true})) {
    const std::set<std::string> names = sources_->NamesOf(held.blocks[entry]);
    held.former_sources.insert(names.begin(), names.end());
    if (names.size() != 1) held.former_sources.insert("");
    Disown(held, entry);
    held.Put(entry, {}, *pool_);
    ++sim_.coverage.blocks_behind_windows;
    if (computed < tokens) held.reservation.TryGrow();
  }
}

void DecodeBlocks::Fork(SimHolding& from, SimHolding& to, bool copies_last) {
  to.memory = {memory_.data(), layout_, {}};
  to.former_sources = from.former_sources;
  const size_t last_span = from.Entry(from.spans() - 1, 0);
  for (size_t entry = 0; entry < from.blocks.size(); ++entry) {
    const BlockPool::Block& block = from.blocks[entry];
    const bool copies = copies_last && entry >= last_span;
    to.Add(block.empty() || copies ? BlockPool::Block() : block.Share(), *pool_);
    if (!copies) continue;
    TakeOwn(to, entry, from.reservation.Take());
    std::memcpy(Bytes(to.blocks[entry].id()), Bytes(block.id()), layout_.block_bytes());
    sources_->Copied(block, to.blocks[entry]);
  }
  const int span = layout_.groups.count();
  if (from.reservation.count() >= 2 * span) to.reservation = from.reservation.Split(span);
}

void DecodeBlocks::Move(SimHolding& from, SimHolding& to) {
  std::replace(owners_.begin(), owners_.end(), static_cast<const SimHolding*>(&from),
               static_cast<const SimHolding*>(&to));
  to = std::exchange(from, {});
}

void DecodeBlocks::GiveBack(SimHolding& held) {
  std::replace(owners_.begin(), owners_.end(), static_cast<const SimHolding*>(&held),
               static_cast<const SimHolding*>(nullptr));
  while (!held.blocks.empty()) held.blocks.pop_back();  // the last block first
  held.reservation = BlockPool::Reservation();
}

bool DecodeBlocks::Owns(const SimHolding& held, size_t entry) const {
  const int32_t block = held.memory.block_table[entry];
  return block != kNoBlock && owners_[static_cast<size_t>(block)] == &held &&
         pool_->generation(block) == held.generations[entry];
}

bool DecodeBlocks::IsAlone(const SimHolding& held, size_t entry) const {
  const int32_t block = held.memory.block_table[entry];
  return block != kNoBlock && owners_[static_cast<size_t>(block)] == &held &&
         pool_->reference_count(block) == 1;
}

void DecodeBlocks::Distrust(const std::string& source) {
  retained_->ForgetAll();
  prefix_cache_->ForgetAll();
  if (!source.empty()) distrusted_ |= ForgerNamed(source);
}

void DecodeBlocks::Squeeze() {
  while (pool_->available_blocks() > 2 * layout_.groups.count()) {
    squeezed_.push_back(*pool_->TryAllocate());
    const int32_t id = squeezed_.back().id();
    if (owners_[static_cast<size_t>(id)] != nullptr) sim_.Violation("a block has two owners");
    uint8_t* first = Bytes(id);
    std::fill(first, first + layout_.block_bytes(), static_cast<uint8_t>(sim_.random.Next()));
  }
}

void DecodeBlocks::CheckAtRest(int worker) {
  if (pool_->used_blocks() != 0 || pool_->reserved_blocks() != 0) {
    sim_.Violation("decode worker ", worker, " has ", pool_->used_blocks(), " blocks in use, ",
                   pool_->reserved_blocks(), " reserved");
  }
  if (retained_->size() != 0) sim_.Violation("what was retained has not expired");
  pool_->CheckInvariants();
}

}  // namespace baton
