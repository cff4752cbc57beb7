// Pinned memory for K and V on their way between a device's KV blocks and the network.
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
#include "common/base/job_pool.h"
#include "common/kv/cache.h"
#include "common/kv/layout.h"

namespace baton {

// A fixed number of slots, each for the K and V of some tokens in one layer. Users (a push, or the
// receiver of one) take slots in turn. A user gets another slot only while it holds less than an
// equal share of all slots among the users that hold or wait for some; one slot is always allowed.
// So a user that needs one slot at a time goes on as long as those that hold slots do.
//
// Thread-safe. Borrows the cache, and must outlive its users and slots.
class KvStaging {
 public:
  struct Options {
    uint64_t bytes = uint64_t{256} << 20;  // most pinned memory in bytes
    int chunk_tokens = 512;  // most tokens that are computed together; a slot holds no more
    int helpers = 0;         // threads that help the users' own with what is in slots
  };
  // RESOURCE_EXHAUSTED or INVALID_ARGUMENT names --kv-staging-memory-bytes. REQUIRES: the cache is
  // in a device's memory; chunk_tokens > 0.
  static absl::StatusOr<std::unique_ptr<KvStaging>> Create(KvCache& cache, const Options& options);
  ~KvStaging();

  KvCache& cache() const { return cache_; }
  DeviceCopies& copies() const { return *cache_.device_copies(); }
  // The layout of a slot: one block with one layer.
  const KvLayout& layout() const { return layout_; }
  int slot_tokens() const { return layout_.block_size; }
  size_t slot_bytes() const { return layout_.block_bytes(); }
  int slot_count() const { return slot_count_; }
  int free_slots() const;
  // The threads that help the users' own.
  JobPool& jobs() { return jobs_; }

  // A slot in use. The destructor gives it back, on any thread. Empty when default-constructed or
  // moved from.
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

  // Takes slots for one push, or for the receiver of one. Thread rule: one thread. Its slots may
  // outlive it.
  class User {
   public:
    // `granted` is called, on any thread, with the slot that Take could not return at once. It must
    // neither wait nor take slots. It may be called once more while the user is being destroyed.
    User(KvStaging& staging, std::function<void(Slot)> granted);
    // Ends the wait for a slot.
    ~User();
    User(const User&) = delete;
    User& operator=(const User&) = delete;

    // Returns a slot; or an empty one, and then the next slot for this user goes to `granted`.
    // REQUIRES: the user does not wait for a slot already.
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
  KvStaging(KvCache& cache, const KvLayout& layout, int slot_count, BackendBuffer memory,
            int helpers);

  void GiveBack(uint64_t user, int index);
  void Leave(uint64_t user);
  Slot TakeFor(uint64_t id, UserState& user);
  bool MayTake(const UserState& user) const;
  void Forget(std::map<uint64_t, UserState>::iterator user);
  // Takes the free slots for the waiting users whose turn it is. The caller then calls the grants
  // in order, without the lock.
  std::vector<Grant> GrantWaiting();

  KvCache& cache_;
  const KvLayout layout_;
  const int slot_count_;
  const BackendBuffer memory_;

  mutable std::mutex mutex_;  // guards the members below
  std::vector<int> free_;     // free slots
  uint64_t last_user_ = 0;
  std::map<uint64_t, UserState> users_;  // users that are not gone, or still hold slots
  std::deque<uint64_t> waiting_;         // waiting users, first come, first served

  JobPool jobs_;  // the last member, so that its threads end first
};

}  // namespace baton
