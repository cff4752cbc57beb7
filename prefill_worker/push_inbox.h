// The queue before the thread of one push: events in order, and messages whose slices are gone.
#pragma once

#include <semaphore.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/time/time.h"

#include "common/base/bounded_queue.h"
#include "prefill_worker/kv_sender.h"
#include "prefill_worker/layer_stager.h"

namespace baton {

// Thread rule: Next and Close belong to the push's thread. Everything else may be called from any
// thread.
class PushInbox {
 public:
  struct Item {
    KvSender::Event event;
    std::vector<int32_t> block_table;          // empty: it has not changed
    std::vector<uint32_t> generations;         // [block_table] generations of the blocks
    std::shared_ptr<void> last_use = nullptr;  // destroyed with the item, on the push's thread
    uint64_t copies_after = 0;                 // for LayerReady: the mark behind its operations
    std::optional<LayerStager::Event> staged = std::nullopt;  // an event for the stager
    uint64_t sequence_number = 0;  // for SlicesReleased: the message's sequence number
  };
  // The generation of a block. It may be called on any thread and does not wait.
  using Generation = std::function<uint32_t(int32_t block)>;
  struct HeldBlock {
    int32_t id = 0;
    uint32_t generation = 0;  // the block's generation when its bytes were computed
  };

  explicit PushInbox(Generation generation);
  ~PushInbox();

  // Adds an item; drops it after Close.
  void Post(Item item);
  // Returns the function to call once when the slices of a message are gone. It may be called on
  // any thread, also deep inside gRPC: it takes no lock and allocates nothing. It checks whether
  // all `blocks` still have their generations. After it Next returns SlicesReleased.
  static std::function<void()> Track(std::shared_ptr<PushInbox> inbox,
                                     std::vector<HeldBlock> blocks, uint64_t sequence_number = 0);
  uint32_t GenerationOf(int32_t block) const { return generation_(block); }
  // Whether all `blocks` still have their generations.
  bool Intact(const std::vector<HeldBlock>& blocks) const;

  // Waits for the next item; nothing after `timeout`.
  std::optional<Item> Next(absl::Duration timeout);
  void Close() { items_.Close(); }

 private:
  struct Message {
    std::shared_ptr<PushInbox> inbox;
    std::vector<HeldBlock> blocks;
    uint64_t sequence_number = 0;
    bool intact = true;
    Message* next = nullptr;
  };
  static void Released(Message* message);
  std::optional<Item> TakeReleased();

  const Generation generation_;
  // It has at most the layers x chunks of one prompt, an event for each slot of the staging, and an
  // answer for each stream. That fits, so Post checks it.
  BoundedQueue<Item> items_;
  // Released messages, newest first: a stack that is only ever taken whole.
  std::atomic<Message*> released_ = nullptr;
  Message* taken_ = nullptr;  // messages taken from the stack, oldest first
  sem_t changed_;
};

}  // namespace baton
