// Keeps count of the KV blocks that are free, reserved or used: ids and references, no bytes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "common/kv/block_ref.h"

namespace baton {

// A block is free, or it is used: then it has references. A reservation sets a number of free
// blocks aside without naming them, so that only its owner can take them. A
// free block may be kept for what it holds: it is given out anew only when no other block is free,
// the least recently used one first. Always: used + free = total, reserved <= free, kept <= free.
//
// Thread rule: one thread, the engine's, for the pool, its blocks and its reservations, except
// generation(), Ref and Lives. Blocks and reservations must not outlive the pool.
class BlockPool {
 public:
  // One reference to one block. The destructor gives it back. Empty when default-constructed or
  // moved from.
  class Block {
   public:
    Block() = default;
    Block(Block&& other) noexcept;
    Block& operator=(Block&& other) noexcept;
    ~Block();
    bool empty() const { return pool_ == nullptr; }
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

  // The right to take `count()` blocks. The destructor gives it up.
  class Reservation {
   public:
    Reservation() = default;
    Reservation(Reservation&& other) noexcept;
    Reservation& operator=(Reservation&& other) noexcept;
    ~Reservation();
    int count() const { return count_; }
    // Takes one of the reserved blocks. REQUIRES: count() > 0.
    Block Take();
    // Takes block `id` with what it holds for one of the reserved blocks. REQUIRES: block `id` is
    // free and kept; count() > 0.
    Block TakeKept(int32_t id);
    // Reserves one block more; false if every free block is reserved. REQUIRES: not
    // default-constructed.
    bool TryGrow();
    // Gives up `count` of the reserved blocks. REQUIRES: 0 <= count <= count().
    void GiveUp(int count);
    // Moves `count` of the reserved blocks to a reservation of their own. REQUIRES:
    // 0 <= count <= count().
    Reservation Split(int count);

   private:
    friend class BlockPool;
    Reservation(BlockPool* pool, int count) : pool_(pool), count_(count) {}
    BlockPool* pool_ = nullptr;
    int count_ = 0;
  };

  // REQUIRES: block_count >= 0.
  explicit BlockPool(int block_count);
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // Takes any block; nothing when every free block is reserved.
  std::optional<Block> TryAllocate();
  // Reserves `count` blocks, all or none. The pool has no queue: the caller sees to it that the
  // first to come is the first to ask. REQUIRES: count >= 0.
  std::optional<Reservation> TryReserve(int count);

  // One more reference to a block. REQUIRES: it is used.
  Block Share(int32_t id);

  // Keeps the block for what it holds, when it becomes free, until it is given out anew or
  // StopKeeping is called. REQUIRES: it is used.
  void Keep(int32_t id);
  void StopKeeping(int32_t id);
  // `evicted` is called when a kept block is given out anew, before its taker gets it; its
  // generation has advanced. It must stay valid as long as blocks are taken.
  void OnEviction(std::function<void(int32_t id)> evicted) { evicted_ = std::move(evicted); }

  int total_blocks() const { return static_cast<int>(states_.size()); }
  int used_blocks() const { return total_blocks() - free_blocks(); }
  int free_blocks() const { return static_cast<int>(free_.size() + kept_.size()); }
  int kept_blocks() const { return static_cast<int>(kept_.size()); }  // kept free blocks
  int reserved_blocks() const { return reserved_; }
  int available_blocks() const { return free_blocks() - reserved_; }  // free and not reserved
  int reference_count(int32_t id) const;
  // The generation of a block advances each time it is given out anew, and so
  // distinguishes the block from its earlier lives. May be called on any thread.
  uint32_t generation(int32_t id) const;
  // The block in the life that it has now; and whether it still is in that life.
  BlockRef Ref(int32_t id) const { return {id, generation(id)}; }
  bool Lives(const BlockRef& block) const { return generation(block.id) == block.generation; }
  // Ends the process if the counts contradict each other. Takes time linear in the blocks: for
  // tests.
  void CheckInvariants() const;

 private:
  struct State {
    int references = 0;
    std::atomic<uint32_t> generation = 0;
    bool keep = false;      // whether the block is kept when it is free
    uint64_t freed_at = 0;  // key of the block in kept_
  };
  State& At(int32_t id) { return states_[static_cast<size_t>(id)]; }
  const State& At(int32_t id) const { return states_[static_cast<size_t>(id)]; }
  Block TakeFree();
  void Drop(int32_t id);

  std::vector<State> states_;         // [block]
  std::vector<int32_t> free_;         // free blocks that are not kept; given out from the back
  std::map<uint64_t, int32_t> kept_;  // kept free blocks by freed_at, least recently used first
  uint64_t drops_ = 0;                // the next freed_at
  int reserved_ = 0;
  std::function<void(int32_t id)> evicted_;
};

}  // namespace baton
