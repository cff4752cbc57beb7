// What reaches the thread of one push: events in order, and messages whose slices are gone.
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

// Thread-safe, but for Next and Close, which belong to the push's thread.
class PushInbox {
 public:
  struct Item {
    KvSender::Event event;
    std::vector<int32_t> block_table;          // empty: as before
    std::vector<uint32_t> generations;         // of its blocks
    std::shared_ptr<void> last_use = nullptr;  // destroyed with the item, on the push's thread
    uint64_t copies_after = 0;                 // of a layer: the mark that its operations have
    std::optional<LayerStager::Event> staged = std::nullopt;  // beside the event
    uint64_t sequence_number = 0;                             // of SlicesReleased: the message
  };
  // Of a block; callable on any thread, without waiting.
  using Generation = std::function<uint32_t(int32_t block)>;
  struct HeldBlock {
    int32_t id = 0;
    uint32_t generation = 0;  // when its bytes were computed
  };

  explicit PushInbox(Generation generation);
  ~PushInbox();

  // Dropped after Close.
  void Post(Item item);
  // One message on its way: calls of the function that it returns say that its slices are gone,
  // once, on whatever thread that happens, deep inside gRPC perhaps: it takes no lock and allocates
  // nothing. It looks whether all `blocks` are still what they were. Next then answers
  // SlicesReleased.
  static std::function<void()> Track(std::shared_ptr<PushInbox> inbox,
                                     std::vector<HeldBlock> blocks, uint64_t sequence_number = 0);
  uint32_t GenerationOf(int32_t block) const { return generation_(block); }
  bool Intact(const std::vector<HeldBlock>& blocks) const;

  // The next of them; nothing after `timeout`.
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
  // Never full: layers x chunks of one prompt, and an answer for each stream.
  BoundedQueue<Item> items_;
  std::atomic<Message*> released_ = nullptr;  // newest first; a stack that is only ever taken whole
  Message* taken_ = nullptr;                  // oldest first
  sem_t changed_;
};

}  // namespace baton
