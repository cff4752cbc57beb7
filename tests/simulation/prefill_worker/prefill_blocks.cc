#include "tests/simulation/prefill_worker/prefill_blocks.h"

#include <algorithm>
#include <utility>

namespace baton {

PrefillBlocks::PrefillBlocks(Sim& sim, const KvLayout& layout, int worker)
    : sim_(sim), layout_(layout), worker_(worker) {
  memory_.resize(static_cast<size_t>(kPoolBlocks) * layout_.block_bytes());
  page_crcs_.resize(static_cast<size_t>(kPoolBlocks * layout_.layers * layout_.pages_per_block()));
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

int PrefillBlocks::HeldTokens(const std::vector<int32_t>& token_ids) const {
  return static_cast<int>(prefix_cache_->Find(token_ids, "", {.computes = true}).size()) *
         layout_.block_size;
}

void PrefillBlocks::CheckUnused(const BlockPool::Block& block) {
  if (live_slices_[static_cast<size_t>(block.id())] > 0) {
    sim_.Violation("prefill worker ", worker_, " gives out block ", block.id(),
                   " under live slices");
  }
}

bool PrefillBlocks::Take(Holding& held, const std::vector<int32_t>& token_ids, bool take_cached) {
  const auto needed = static_cast<size_t>(layout_.BlocksFor(static_cast<int>(token_ids.size())));
  std::vector<int32_t> cached;
  if (take_cached) cached = prefix_cache_->Find(token_ids, "", {.computes = true});
  int kept = 0;
  for (const int32_t id : cached) kept += pool_->reference_count(id) == 0 ? 1 : 0;
  const int used = static_cast<int>(cached.size()) - kept;
  auto reservation = pool_->TryReserve(static_cast<int>(needed) - used);
  if (!reservation.has_value()) return false;
  for (const int32_t id : cached) {
    held.blocks.push_back(pool_->reference_count(id) == 0 ? reservation->TakeKept(id)
                                                          : pool_->Share(id));
  }
  while (held.blocks.size() < needed) {
    held.blocks.push_back(reservation->Take());
    CheckUnused(held.blocks.back());
  }
  held.entered_blocks = cached.size();
  held.memory = {memory_.data(), layout_, {}};
  for (const BlockPool::Block& block : held.blocks) {
    held.memory.block_table.push_back(block.id());
    held.generations.push_back(pool_->generation(block.id()));
  }
  return true;
}

void PrefillBlocks::Enter(Holding& held, const std::vector<int32_t>& token_ids, int tokens) {
  const auto whole = static_cast<size_t>(tokens / layout_.block_size);
  for (size_t& next = held.entered_blocks; next < whole; ++next) {
    for (BlockPool::Block& block : prefix_cache_->Insert(token_ids, "", held.blocks, next)) {
      held.replaced.push_back(std::move(block));
    }
  }
}

void PrefillBlocks::GiveBack(Holding& held) {
  while (!held.blocks.empty()) held.blocks.pop_back();  // the last block first
  held.replaced.clear();
}

uint32_t& PrefillBlocks::PageCrc(const Holding& held, int layer, int token) {
  const int page = token % layout_.block_size / kKvPageTokens;
  return page_crcs_[static_cast<size_t>(
      (BlockOf(held, token) * layout_.layers + layer) * layout_.pages_per_block() + page)];
}

void PrefillBlocks::Written(const Holding& held, int layer, int first, int end) {
  for (const TokenRange page : PagesOf({first / kKvPageTokens * kKvPageTokens, end})) {
    PageCrc(held, layer, page.begin) = held.memory.PageCrc(layer, page);
  }
}

SendEvent::LayerReady PrefillBlocks::Ready(const Holding& held, int layer, int first, int end) {
  SendEvent::LayerReady ready{{layer, {first, end}}, {}};
  for (const TokenRange page : PagesOf({first, end})) {
    ready.page_crcs.push_back(PageCrc(held, layer, page.begin));
  }
  return ready;
}

std::vector<int32_t> PrefillBlocks::HoldSlices(const Holding& held, int first, int end) {
  std::vector<int32_t> blocks;
  for (const TokenRange page : PagesOf({first, end})) {
    blocks.push_back(BlockOf(held, page.begin));
    ++live_slices_[static_cast<size_t>(blocks.back())];
  }
  return blocks;
}

void PrefillBlocks::ReleaseSlices(const std::vector<int32_t>& blocks) {
  for (const int32_t block : blocks) --live_slices_[static_cast<size_t>(block)];
}

bool PrefillBlocks::Intact(const Holding& held) const {
  for (size_t i = 0; i < held.generations.size(); ++i) {
    if (pool_->generation(held.memory.block_table[i]) != held.generations[i]) return false;
  }
  return true;
}

void PrefillBlocks::Squeeze() {
  while (pool_->available_blocks() > 2) {
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
