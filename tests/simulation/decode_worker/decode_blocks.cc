#include "tests/simulation/decode_worker/decode_blocks.h"

#include <algorithm>
#include <cstring>
#include <utility>

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

void DecodeBlocks::TakeOwn(Holding& held, BlockPool::Block block) {
  const Holding*& owner = owners_[static_cast<size_t>(block.id())];
  if (owner != nullptr) sim_.Violation("a block has two owners");
  owner = &held;
  held.memory.block_table.push_back(block.id());
  held.generations.push_back(pool_->generation(block.id()));
  held.blocks.push_back(std::move(block));
}

int DecodeBlocks::TakeCached(Holding& held, const std::vector<int32_t>& blocks) {
  held.memory = {memory_.data(), layout_, {}};
  held.generations.clear();
  int used = 0;
  for (const int32_t id : blocks) {
    const bool is_used = pool_->reference_count(id) > 0;
    held.blocks.push_back(is_used ? pool_->Share(id) : held.reservation.TakeKept(id));
    used += is_used ? 1 : 0;
    held.memory.block_table.push_back(id);
    held.generations.push_back(pool_->generation(id));
  }
  held.shared_blocks = blocks.size();
  return used;
}

void DecodeBlocks::TakeKept(Holding& held, const std::vector<int32_t>& blocks) {
  for (const int32_t id : blocks) TakeOwn(held, held.reservation.TakeKept(id));
}

void DecodeBlocks::TakeReserved(Holding& held, int tokens) {
  const auto needed = static_cast<size_t>(layout_.BlocksFor(tokens));
  while (held.blocks.size() < needed) TakeOwn(held, held.reservation.Take());
}

bool DecodeBlocks::TakeOne(Holding& held) {
  if (held.reservation.count() > 0) {
    TakeOwn(held, held.reservation.Take());
    return true;
  }
  return TakeAhead(held);
}

bool DecodeBlocks::TakeAhead(Holding& held) {
  auto block = pool_->TryAllocate();
  if (!block.has_value()) return false;
  TakeOwn(held, *std::move(block));
  return true;
}

void DecodeBlocks::SettleAhead(Holding& held, int tokens) {
  if (static_cast<int>(held.blocks.size()) > layout_.BlocksFor(tokens)) {
    ++sim_.coverage.blocks_of_refused;
    owners_[static_cast<size_t>(held.memory.block_table.back())] = nullptr;
    held.memory.block_table.pop_back();
    held.generations.pop_back();
    held.blocks.pop_back();
  } else if (held.reservation.count() > 0) {
    held.reservation.GiveUp(1);
  }
}

void DecodeBlocks::Enter(Holding& held, const std::vector<int32_t>& token_ids) {
  const size_t whole = token_ids.size() / static_cast<size_t>(layout_.block_size);
  for (size_t i = held.shared_blocks; i < whole; ++i) {
    for (const BlockPool::Block& own : prefix_cache_->Insert(token_ids, "", held.blocks, i)) {
      const Holding*& owner = owners_[static_cast<size_t>(own.id())];
      if (owner == &held) owner = nullptr;
    }
    held.memory.block_table[i] = held.blocks[i].id();
    held.generations[i] = pool_->generation(held.blocks[i].id());
  }
}

void DecodeBlocks::Fork(Holding& from, Holding& to, bool copies_last) {
  to.memory = {memory_.data(), layout_, {}};
  for (size_t i = 0; i < from.blocks.size(); ++i) {
    if (copies_last && i + 1 == from.blocks.size()) {
      TakeOwn(to, from.reservation.Take());
      std::memcpy(Bytes(to.blocks[i].id()), Bytes(from.blocks[i].id()), layout_.block_bytes());
      sources_->Copied(from.blocks[i], to.blocks[i]);
      continue;
    }
    to.blocks.push_back(from.blocks[i].Share());
    to.memory.block_table.push_back(from.memory.block_table[i]);
    to.generations.push_back(from.generations[i]);
  }
  if (from.reservation.count() > 1) to.reservation = from.reservation.Split(1);
}

void DecodeBlocks::Move(Holding& from, Holding& to) {
  std::replace(owners_.begin(), owners_.end(), static_cast<const Holding*>(&from),
               static_cast<const Holding*>(&to));
  to = std::exchange(from, {});
}

void DecodeBlocks::GiveBack(Holding& held) {
  std::replace(owners_.begin(), owners_.end(), static_cast<const Holding*>(&held),
               static_cast<const Holding*>(nullptr));
  while (!held.blocks.empty()) held.blocks.pop_back();  // the last block first
  held.reservation = BlockPool::Reservation();
}

bool DecodeBlocks::Owns(const Holding& held, size_t index) const {
  const int32_t block = held.memory.block_table[index];
  return owners_[static_cast<size_t>(block)] == &held &&
         pool_->generation(block) == held.generations[index];
}

bool DecodeBlocks::IsAlone(const Holding& held, size_t index) const {
  const int32_t block = held.memory.block_table[index];
  return owners_[static_cast<size_t>(block)] == &held && pool_->reference_count(block) == 1;
}

void DecodeBlocks::Distrust(const std::string& source) {
  retained_->ForgetAll();
  prefix_cache_->ForgetAll();
  if (!source.empty()) distrusted_ |= ForgerNamed(source);
}

void DecodeBlocks::Squeeze() {
  while (pool_->available_blocks() > 2) {
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
