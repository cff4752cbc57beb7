#include "tests/simulation/prefill_worker/prefill_blocks.h"

#include <algorithm>
#include <utility>

#include "tests/simulation/worker_core.h"

namespace baton {

PrefillBlocks::PrefillBlocks(Sim& sim, const KvLayout& layout, int worker)
    : sim_(sim), layout_(layout), worker_(worker) {
  memory_.resize(static_cast<size_t>(kPoolBlocks) * layout_.block_bytes());
  page_crcs_.resize(kPoolBlocks * static_cast<size_t>(layout_.pages_per_block()));
}

void PrefillBlocks::Boot(const std::string& prefix_identity) {
  live_slices_.assign(kPoolBlocks, 0);
  pool_.emplace(kPoolBlocks);
  prefix_cache_.emplace(prefix_identity, layout_, *pool_);
}

void PrefillBlocks::Crash() {
  squeezed_.clear();
  prefix_cache_.reset();
  pool_.reset();
}

std::vector<int32_t> PrefillBlocks::Cached(const std::vector<int32_t>& token_ids) const {
  const auto tokens = static_cast<int>(token_ids.size());
  return prefix_cache_->Find(token_ids, "", {.computes = true, .handed_off = tokens});
}

int PrefillBlocks::HeldTokens(const std::vector<int32_t>& token_ids) const {
  return static_cast<int>(Cached(token_ids).size()) / layout_.groups.count() * layout_.block_size;
}

void PrefillBlocks::CheckUnused(const BlockPool::Block& block) {
  if (live_slices_[static_cast<size_t>(block.id())] > 0) {
    sim_.Violation("prefill worker ", worker_, " gives out block ", block.id(),
                   " under live slices");
  }
}

void PrefillBlocks::TakeReserved(SimHolding& held, size_t entry) {
  held.Put(entry, held.reservation.Take(), *pool_);
  CheckUnused(held.blocks[entry]);
}

bool PrefillBlocks::Take(SimHolding& held, const std::vector<int32_t>& token_ids,
                         bool take_cached) {
  const KvLayerGroups& groups = layout_.groups;
  const auto tokens = static_cast<int>(token_ids.size());
  std::vector<int32_t> cached;
  if (take_cached) cached = Cached(token_ids);
  // A block of a window that is given back makes room for another, so that it costs one anyway.
  int used = 0;
  for (size_t entry = 0; entry < cached.size(); ++entry) {
    const bool windowed = groups.window(static_cast<int>(entry) % groups.count()) > 0;
    used += !windowed && pool_->reference_count(cached[entry]) > 0 ? 1 : 0;
  }
  const auto most = static_cast<int>(groups.BlocksOf(tokens, layout_.block_size, kSimChunk));
  auto reservation = pool_->TryReserve(most - used);
  if (!reservation.has_value()) return false;
  held.reservation = *std::move(reservation);
  held.memory = {memory_.data(), layout_, {}};
  held.AddCached(cached, *pool_);
  while (held.spans() < layout_.BlocksFor(tokens)) held.AddSpan(*pool_);
  for (const size_t entry :
       held.Lacking(static_cast<int>(held.entered_spans) * layout_.block_size, tokens)) {
    const bool windowed = groups.window(static_cast<int>(entry) % groups.count()) > 0;
    if (!windowed) TakeReserved(held, entry);
  }
  return true;
}

bool PrefillBlocks::TakeForChunk(SimHolding& held, int first, int end) {
  for (const size_t entry : held.Lacking(first, end)) {
    if (held.reservation.count() == 0 && !held.reservation.TryGrow()) return false;
    TakeReserved(held, entry);
  }
  return true;
}

void PrefillBlocks::Enter(SimHolding& held, const std::vector<int32_t>& token_ids, int tokens) {
  const auto whole = static_cast<size_t>(tokens / layout_.block_size);
  for (size_t& next = held.entered_spans; next < whole; ++next) {
    for (PrefixCache::Replaced& one : prefix_cache_->Insert(token_ids, "", held.blocks, next)) {
      Replace(held, next, static_cast<int>(token_ids.size()), std::move(one));
    }
  }
}

// What no peer reads makes room at once, since the shared block may not when it is given back.
void PrefillBlocks::Replace(SimHolding& held, size_t span, int tokens, PrefixCache::Replaced one) {
  const KvLayerGroups& groups = layout_.groups;
  const int end = (static_cast<int>(span) + 1) * layout_.block_size;
  if (groups.window(one.group) == 0 || end > groups.FirstHandedOff(one.group, tokens)) {
    held.replaced.push_back(std::move(one.block));
    return;
  }
  const size_t entry = held.Entry(static_cast<int>(span), one.group);
  held.memory.block_table[entry] = held.blocks[entry].id();
  held.generations[entry] = pool_->generation(held.blocks[entry].id());
  one.block = {};
  held.reservation.TryGrow();
}

void PrefillBlocks::GiveBackUnread(SimHolding& held, int computed, int tokens) {
  for (const size_t entry : held.Unread(computed, {.computes = true, .handed_off = tokens})) {
    held.Put(entry, {}, *pool_);
    ++sim_.coverage.blocks_behind_windows;
    if (computed < tokens) held.reservation.TryGrow();
  }
  if (computed == tokens) held.reservation = BlockPool::Reservation();
}

void PrefillBlocks::GiveBack(SimHolding& held) {
  while (!held.blocks.empty()) held.blocks.pop_back();  // the last block first
  held.replaced.clear();
  held.reservation = BlockPool::Reservation();
}

uint32_t& PrefillBlocks::PageCrc(const SimHolding& held, int layer, int token) {
  const auto page = static_cast<size_t>(token % layout_.block_size / kKvPageTokens);
  const auto block = static_cast<size_t>(BlockOf(held, layer, token));
  return page_crcs_[block * static_cast<size_t>(layout_.pages_per_block()) + page];
}

void PrefillBlocks::Written(const SimHolding& held, int layer, int first, int end) {
  for (const TokenRange page : PagesOf({first / kKvPageTokens * kKvPageTokens, end})) {
    PageCrc(held, layer, page.begin) = held.memory.PageCrc(layer, page);
  }
}

SendEvent::LayerReady PrefillBlocks::Ready(const SimHolding& held, int layer, int first, int end) {
  SendEvent::LayerReady ready{{layer, {first, end}}, {}};
  for (const TokenRange page : PagesOf({first, end})) {
    ready.page_crcs.push_back(PageCrc(held, layer, page.begin));
  }
  return ready;
}

std::vector<int32_t> PrefillBlocks::HoldSlices(const SimHolding& held, const LayerTokens& rows,
                                               int layers) {
  std::vector<int32_t> blocks;
  for (int layer = rows.layer; layer < rows.layer + layers; ++layer) {
    for (const TokenRange page : PagesOf(rows.tokens)) {
      const int32_t block = BlockOf(held, layer, page.begin);
      if (block == kNoBlock) {
        sim_.Violation("prefill worker ", worker_, " sends of a block that it has given back");
        continue;
      }
      blocks.push_back(block);
      ++live_slices_[static_cast<size_t>(block)];
    }
  }
  return blocks;
}

void PrefillBlocks::ReleaseSlices(const std::vector<int32_t>& blocks) {
  for (const int32_t block : blocks) --live_slices_[static_cast<size_t>(block)];
}

bool PrefillBlocks::Intact(const SimHolding& held) const {
  for (size_t i = 0; i < held.generations.size(); ++i) {
    const int32_t block = held.memory.block_table[i];
    if (block != kNoBlock && pool_->generation(block) != held.generations[i]) return false;
  }
  return true;
}

void PrefillBlocks::Squeeze() {
  while (pool_->available_blocks() > 2 * layout_.groups.count()) {
    squeezed_.push_back(*pool_->TryAllocate());
    CheckUnused(squeezed_.back());
    uint8_t* first =
        memory_.data() + static_cast<size_t>(squeezed_.back().id()) * layout_.block_bytes();
    std::fill(first, first + layout_.block_bytes(), static_cast<uint8_t>(sim_.random.Next()));
  }
}

void PrefillBlocks::CheckAtRest() {
  if (pool_->used_blocks() != 0 || pool_->reserved_blocks() != 0) {
    sim_.Violation("prefill worker ", worker_, " has ", pool_->used_blocks(), " blocks in use");
  }
  pool_->CheckInvariants();
}

}  // namespace baton
