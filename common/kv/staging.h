// Pinned memory for K and V on their way between the blocks of a device and the network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"

#include "common/backend/device_copies.h"
#include "common/kv/cache.h"
#include "common/kv/layout.h"

namespace baton {

// A fixed number of slots, each for the K and V of some tokens in one layer. They are given to
// users (a push, or what receives one) in turn: while somebody waits, nobody gets more than an
// equal part, but each at least one. So whoever needs one slot at a time goes on as long as those
// who hold slots do.
//
// Thread-safe. Borrows the cache, and must outlive its users and slots.
class KvStaging {
 public:
  struct Options {
    uint64_t bytes = uint64_t{256} << 20;  // at most
    int chunk_tokens = 512;                // that are computed together: no more come at once
  };
  // RESOURCE_EXHAUSTED or INVALID_ARGUMENT names --kv-staging-memory-bytes. REQUIRES: the cache is
  // in a device's memory.
  static absl::StatusOr<std::unique_ptr<KvStaging>> Create(KvCache& cache, const Options& options);
  ~KvStaging();

  KvCache& cache() const { return cache_; }
  DeviceCopies& copies() const { return *cache_.device_copies(); }
  // Of a slot: one layer, one block.
  const KvLayout& layout() const { return layout_; }
  int slot_tokens() const { return layout_.block_size; }
  size_t slot_bytes() const { return layout_.block_bytes(); }
  int slot_count() const { return slot_count_; }
  int free_slots() const;

  // Gives itself back when destroyed, on any thread. Empty when default-constructed or moved from.
  class Slot {
   public:
    Slot() = default;
    Slot(Slot&& other) noexcept;
    Slot& operator=(Slot&& other) noexcept;
    ~Slot();
    bool empty() const { return staging_ == nullptr; }
    uint8_t* data() const;  // [layout().block_bytes()]; REQUIRES: not empty

   private:
    friend class KvStaging;
    Slot(KvStaging* staging, uint64_t user, int index)
        : staging_(staging), user_(user), index_(index) {}
    KvStaging* staging_ = nullptr;
    uint64_t user_ = 0;
    int index_ = 0;
  };

  // One who takes slots; on one thread. Slots may outlive it.
  class User {
   public:
    // `granted` is called with a slot that Take did not have at once, on any thread; it must
    // neither wait nor take slots. It may be called once more while this is being destroyed.
    User(KvStaging& staging, std::function<void(Slot)> granted);
    // Nothing is waited for any more.
    ~User();
    User(const User&) = delete;
    User& operator=(const User&) = delete;

    // A slot; or an empty one, and the next one that is for this user is granted. REQUIRES: none is
    // waited for.
    Slot Take();

   private:
    KvStaging& staging_;
    const uint64_t id_;
  };

 private:
  struct UserState {
    std::function<void(Slot)> granted;
    int held = 0;
    bool waiting = false;
    bool gone = false;
  };
  struct Grant {
    std::function<void(Slot)> granted;
    Slot slot;
  };
  KvStaging(KvCache& cache, const KvLayout& layout, int slot_count, BackendBuffer memory);

  void GiveBack(uint64_t user, int index);
  void Leave(uint64_t user);
  Slot TakeFor(uint64_t id, UserState& user);
  bool MayTake(const UserState& user) const;
  void Forget(std::map<uint64_t, UserState>::iterator user);
  // Those whose turn it is now; to be called, without the lock, in order.
  std::vector<Grant> GrantWaiting();

  KvCache& cache_;
  const KvLayout layout_;
  const int slot_count_;
  const BackendBuffer memory_;

  mutable std::mutex mutex_;  // guards what follows
  std::vector<int> free_;
  uint64_t last_user_ = 0;
  std::map<uint64_t, UserState> users_;  // that are not gone, or hold slots
  std::deque<uint64_t> waiting_;         // first come first served
};

}  // namespace baton
