// Which KV blocks are free, promised or used: ids and reference counts, no bytes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace baton {

// Thread rule: one thread (the engine's), its blocks and promises too; these must not outlive it. A
// block is free or has references; a promise sets free blocks aside without naming them, so that
// what was promised can always be taken and nobody else gets it. A free block may be kept for what
// it holds: it is given out anew only when no other is free, the one that was used least recently
// first. Always: used + free = total, promised <= free, kept <= free.
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
    // Turns one of them into that block, with what it holds. REQUIRES: it is free and kept;
    // count() > 0.
    Block TakeKept(int32_t id);
    // So many of them are not needed. REQUIRES: 0 <= count <= count().
    void GiveUp(int count);
    // So many of them become a promise of their own. REQUIRES: 0 <= count <= count().
    Promise Split(int count);

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

  // One more reference. REQUIRES: it is used.
  Block Share(int32_t id);

  // What a used block holds is worth keeping from now on, until the block is given out anew or
  // dropped from keeping.
  void Keep(int32_t id);
  void StopKeeping(int32_t id);
  // Called for a kept block once it was given out anew, its generation advanced. The cache behind
  // `evicted` must live as long as blocks are taken.
  void OnEviction(std::function<void(int32_t id)> evicted) { evicted_ = std::move(evicted); }

  int total_blocks() const { return static_cast<int>(states_.size()); }
  int used_blocks() const { return total_blocks() - free_blocks(); }
  int free_blocks() const { return static_cast<int>(free_.size() + kept_.size()); }
  int kept_blocks() const { return static_cast<int>(kept_.size()); }  // of the free ones
  int promised_blocks() const { return promised_; }
  int available_blocks() const { return free_blocks() - promised_; }  // free and not promised
  int reference_count(int32_t id) const;
  // Advances each time the block is given out anew: tells a block from its earlier lives. May be
  // asked for on any thread.
  uint32_t generation(int32_t id) const;
  // Ends the process if the books do not balance. Linear in the blocks: for tests.
  void CheckInvariants() const;

 private:
  struct State {
    int references = 0;
    std::atomic<uint32_t> generation = 0;
    bool keep = false;      // when it is free
    uint64_t freed_at = 0;  // its key in kept_
  };
  State& At(int32_t id) { return states_[static_cast<size_t>(id)]; }
  const State& At(int32_t id) const { return states_[static_cast<size_t>(id)]; }
  Block TakeFree();
  void Drop(int32_t id);

  std::vector<State> states_;         // [block]
  std::vector<int32_t> free_;         // not kept; given out from the back
  std::map<uint64_t, int32_t> kept_;  // [freed_at]: the first is the least recently used
  uint64_t drops_ = 0;                // the clock of freed_at
  int promised_ = 0;
  std::function<void(int32_t id)> evicted_;
};

}  // namespace baton
