// Which KV blocks are free, promised or used: ids and reference counts, no bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace baton {

// Thread rule: one thread (the engine's), its blocks and promises too; these must not outlive it. A
// block is free or has references; a promise sets free blocks aside without naming them, so that
// what was promised can always be taken and nobody else gets it. Always: used + free = total,
// promised <= free.
class BlockPool {
 public:
  // One reference to one block, given back when destroyed. Empty when default-constructed or moved
  // from.
  class Block {
   public:
    Block() = default;
    Block(Block&& other) noexcept;
    Block& operator=(Block&& other) noexcept;
    ~Block();
    // REQUIRES: not empty.
    int32_t id() const;
    // A second reference to the same block.
    Block Share() const;

   private:
    friend class BlockPool;
    Block(BlockPool* pool, int32_t id) : pool_(pool), id_(id) {}
    BlockPool* pool_ = nullptr;
    int32_t id_ = 0;
  };

  // The right to take `count()` blocks, given up when destroyed.
  class Promise {
   public:
    Promise() = default;
    Promise(Promise&& other) noexcept;
    Promise& operator=(Promise&& other) noexcept;
    ~Promise();
    int count() const { return count_; }
    // Turns one of the promised blocks into a block. REQUIRES: count() > 0.
    Block Take();

   private:
    friend class BlockPool;
    Promise(BlockPool* pool, int count) : pool_(pool), count_(count) {}
    BlockPool* pool_ = nullptr;
    int count_ = 0;
  };

  // REQUIRES: block_count >= 0.
  explicit BlockPool(int block_count);
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // Nothing when every free block is promised.
  std::optional<Block> TryAllocate();
  // All or nothing. First come first served: who asks decides the order of asking.
  std::optional<Promise> TryPromise(int count);

  int total_blocks() const { return static_cast<int>(references_.size()); }
  int used_blocks() const { return total_blocks() - free_blocks(); }
  int free_blocks() const { return static_cast<int>(free_.size()); }
  int promised_blocks() const { return promised_; }
  int available_blocks() const { return free_blocks() - promised_; }  // free and not promised
  int reference_count(int32_t id) const;
  // Advances each time the block is given out anew: tells a block from its earlier lives.
  uint32_t generation(int32_t id) const;
  // Ends the process if the books do not balance. Linear in the blocks: for tests.
  void CheckInvariants() const;

 private:
  Block TakeFree();
  void Drop(int32_t id);

  std::vector<int> references_;        // [block]
  std::vector<uint32_t> generations_;  // [block]
  std::vector<int32_t> free_;          // given out from the back
  int promised_ = 0;
};

}  // namespace baton
