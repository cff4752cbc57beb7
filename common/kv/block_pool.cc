#include "common/kv/block_pool.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace baton {

BlockPool::Block::Block(Block&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), id_(other.id_) {}

BlockPool::Block& BlockPool::Block::operator=(Block&& other) noexcept {
  Block taken(std::move(other));  // its destructor drops the old reference
  std::swap(pool_, taken.pool_);
  std::swap(id_, taken.id_);
  return *this;
}

BlockPool::Block::~Block() {
  if (pool_ != nullptr) pool_->Drop(id_);
}

int32_t BlockPool::Block::id() const {
  BATON_CHECK(pool_ != nullptr, "an empty block has no id");
  return id_;
}

BlockPool::Block BlockPool::Block::Share() const {
  BATON_CHECK(pool_ != nullptr, "an empty block cannot be shared");
  return pool_->Share(id_);
}

BlockPool::Reservation::Reservation(Reservation&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), count_(std::exchange(other.count_, 0)) {}

BlockPool::Reservation& BlockPool::Reservation::operator=(Reservation&& other) noexcept {
  Reservation taken(std::move(other));  // its destructor gives the old blocks up
  std::swap(pool_, taken.pool_);
  std::swap(count_, taken.count_);
  return *this;
}

BlockPool::Reservation::~Reservation() {
  if (pool_ != nullptr) pool_->reserved_ -= count_;
}

BlockPool::Block BlockPool::Reservation::Take() {
  BATON_CHECK(count_ > 0, "nothing is reserved any more");
  --count_;
  --pool_->reserved_;
  return pool_->TakeFree();
}

BlockPool::Block BlockPool::Reservation::TakeKept(int32_t id) {
  BATON_CHECK(count_ > 0, "nothing is reserved any more");
  State& state = pool_->At(id);
  BATON_CHECK(state.references == 0 && state.keep, "nothing free is kept in that block");
  --count_;
  --pool_->reserved_;
  pool_->kept_.erase(state.freed_at);
  state.references = 1;
  return Block(pool_, id);
}

bool BlockPool::Reservation::TryGrow() {
  if (pool_->available_blocks() == 0) return false;
  ++count_;
  ++pool_->reserved_;
  return true;
}

void BlockPool::Reservation::GiveUp(int count) {
  BATON_CHECK(count >= 0 && count <= count_, "so many are not reserved");
  if (count == 0) return;
  count_ -= count;
  pool_->reserved_ -= count;
}

BlockPool::Reservation BlockPool::Reservation::Split(int count) {
  BATON_CHECK(count >= 0 && count <= count_, "so many are not reserved");
  count_ -= count;
  return Reservation(pool_, count);
}

BlockPool::BlockPool(int block_count) : states_(static_cast<size_t>(std::max(block_count, 0))) {
  BATON_CHECK(block_count >= 0, "a pool cannot have less than no blocks");
  free_.reserve(static_cast<size_t>(block_count));
  for (int32_t id = block_count - 1; id >= 0; --id) free_.push_back(id);
}

BlockPool::~BlockPool() {
  BATON_CHECK(used_blocks() == 0 && reserved_ == 0, "blocks or reservations outlive their pool");
}

std::optional<BlockPool::Block> BlockPool::TryAllocate() {
  if (available_blocks() <= 0) return std::nullopt;
  return TakeFree();
}

std::optional<BlockPool::Reservation> BlockPool::TryReserve(int count) {
  BATON_CHECK(count >= 0, "a reservation cannot be of less than no blocks");
  if (available_blocks() < count) return std::nullopt;
  reserved_ += count;
  return Reservation(this, count);
}

BlockPool::Block BlockPool::Share(int32_t id) {
  BATON_CHECK(At(id).references > 0, "a free block cannot be shared");
  ++At(id).references;
  return Block(this, id);
}

void BlockPool::Keep(int32_t id) {
  BATON_CHECK(At(id).references > 0, "only a used block holds anything new");
  At(id).keep = true;
}

void BlockPool::StopKeeping(int32_t id) {
  State& state = At(id);
  if (!std::exchange(state.keep, false) || state.references > 0) return;
  kept_.erase(state.freed_at);
  free_.push_back(id);
}

int BlockPool::reference_count(int32_t id) const { return At(id).references; }

uint32_t BlockPool::generation(int32_t id) const { return At(id).generation; }

void BlockPool::CheckInvariants() const {
  BATON_CHECK(reserved_ >= 0 && reserved_ <= free_blocks(), "more is reserved than is free");
  std::vector<bool> listed(states_.size());
  const auto list = [&](int32_t id, bool kept) {
    BATON_CHECK(!listed[static_cast<size_t>(id)], "a block is free twice");
    BATON_CHECK(At(id).references == 0, "a free block has references");
    BATON_CHECK(At(id).keep == kept, "a free block is in the wrong line");
    listed[static_cast<size_t>(id)] = true;
  };
  for (int32_t id : free_) list(id, false);
  for (const auto& [freed_at, id] : kept_) {
    list(id, true);
    BATON_CHECK(At(id).freed_at == freed_at, "a kept block is out of line");
  }
  for (size_t id = 0; id < states_.size(); ++id) {
    BATON_CHECK(listed[id] || states_[id].references > 0, "a block is neither free nor used");
  }
}

BlockPool::Block BlockPool::TakeFree() {
  BATON_CHECK(free_blocks() > 0, "a reserved block is not there");
  int32_t id = 0;
  const bool evicts = free_.empty();
  if (!evicts) {
    id = free_.back();
    free_.pop_back();
  } else {
    id = kept_.begin()->second;
    kept_.erase(kept_.begin());
  }
  State& state = At(id);
  BATON_CHECK(state.references == 0, "a free block has references");
  state.references = 1;
  state.keep = false;
  ++state.generation;
  if (evicts && evicted_) evicted_(id);
  return Block(this, id);
}

void BlockPool::Drop(int32_t id) {
  State& state = At(id);
  BATON_CHECK(state.references > 0, "a block is given back twice");
  if (--state.references > 0) return;
  if (state.keep) {
    state.freed_at = drops_++;
    kept_.emplace(state.freed_at, id);
  } else {
    free_.push_back(id);
  }
}

}  // namespace baton
