#include "common/kv/block_pool.h"

#include <utility>

#include "common/base/check.h"

namespace baton {

BlockPool::Block::Block(Block&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), id_(other.id_) {}

BlockPool::Block& BlockPool::Block::operator=(Block&& other) noexcept {
  Block taken(std::move(other));  // what was held is dropped on return
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
  ++pool_->references_[static_cast<size_t>(id_)];
  return Block(pool_, id_);
}

BlockPool::Promise::Promise(Promise&& other) noexcept
    : pool_(std::exchange(other.pool_, nullptr)), count_(std::exchange(other.count_, 0)) {}

BlockPool::Promise& BlockPool::Promise::operator=(Promise&& other) noexcept {
  Promise taken(std::move(other));  // what was held is given up on return
  std::swap(pool_, taken.pool_);
  std::swap(count_, taken.count_);
  return *this;
}

BlockPool::Promise::~Promise() {
  if (pool_ != nullptr) pool_->promised_ -= count_;
}

BlockPool::Block BlockPool::Promise::Take() {
  BATON_CHECK(count_ > 0, "nothing is promised any more");
  --count_;
  --pool_->promised_;
  return pool_->TakeFree();
}

BlockPool::BlockPool(int block_count) {
  BATON_CHECK(block_count >= 0, "a pool cannot have less than no blocks");
  references_.resize(static_cast<size_t>(block_count));
  generations_.resize(static_cast<size_t>(block_count));
  free_.reserve(static_cast<size_t>(block_count));
  for (int32_t id = block_count - 1; id >= 0; --id) free_.push_back(id);
}

BlockPool::~BlockPool() {
  BATON_CHECK(used_blocks() == 0 && promised_ == 0, "blocks or promises outlive their pool");
}

std::optional<BlockPool::Block> BlockPool::TryAllocate() {
  if (available_blocks() <= 0) return std::nullopt;
  return TakeFree();
}

std::optional<BlockPool::Promise> BlockPool::TryPromise(int count) {
  BATON_CHECK(count >= 0, "a promise cannot be of less than no blocks");
  if (available_blocks() < count) return std::nullopt;
  promised_ += count;
  return Promise(this, count);
}

int BlockPool::reference_count(int32_t id) const { return references_[static_cast<size_t>(id)]; }

uint32_t BlockPool::generation(int32_t id) const { return generations_[static_cast<size_t>(id)]; }

void BlockPool::CheckInvariants() const {
  BATON_CHECK(promised_ >= 0 && promised_ <= free_blocks(), "more is promised than is free");
  std::vector<bool> listed(references_.size());
  for (int32_t id : free_) {
    BATON_CHECK(!listed[static_cast<size_t>(id)], "a block is free twice");
    BATON_CHECK(reference_count(id) == 0, "a free block has references");
    listed[static_cast<size_t>(id)] = true;
  }
  for (size_t id = 0; id < references_.size(); ++id) {
    BATON_CHECK(listed[id] || references_[id] > 0, "a block is neither free nor used");
  }
}

BlockPool::Block BlockPool::TakeFree() {
  BATON_CHECK(!free_.empty(), "a promised block is not there");
  const int32_t id = free_.back();
  free_.pop_back();
  BATON_CHECK(references_[static_cast<size_t>(id)] == 0, "a free block has references");
  references_[static_cast<size_t>(id)] = 1;
  ++generations_[static_cast<size_t>(id)];
  return Block(this, id);
}

void BlockPool::Drop(int32_t id) {
  int& references = references_[static_cast<size_t>(id)];
  BATON_CHECK(references > 0, "a block is given back twice");
  if (--references == 0) free_.push_back(id);
}

}  // namespace baton
