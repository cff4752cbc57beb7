// The queue before the thread of one push at the prefill worker: messages in order, and messages
// whose slices are gone. Its mirror at the decode worker is decode_worker/receive_inbox.h.
#pragma once

#include <semaphore.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "absl/time/time.h"

#include "common/base/bounded_queue.h"
#include "common/kv/block_ref.h"
#include "prefill_worker/layer_stager.h"
#include "prefill_worker/send_events.h"

namespace baton {

// Thread rule: Next and Close belong to the push's thread. Everything else may be called from any
// thread.
class SendInbox {
 public:
  // A computed layer, and the blocks that hold it.
  struct Layer {
    SendEvent::LayerReady ready;
    std::vector<BlockRef> blocks;  // blocks of the layer's tokens, in order
    uint64_t copies_after = 0;     // the mark of DeviceCopies behind the layer's operations
  };
  struct StreamOver {
    SendEvent::StreamEnded ended;
    std::shared_ptr<void> last_use;  // destroyed with the message, on the push's thread
  };
  // The slices of a message are gone.
  struct Released {
    uint64_t sequence_number = 0;
    bool intact = true;  // false: one of its blocks was given away before
  };
  using Message =
      std::variant<Layer, SendEvent::ChunkReady, SendEvent::FirstToken, SendEvent::Alive,
                   SendEvent::Abort, SendEvent::Response, StreamOver, Released, LayerStager::Event>;
  // The generation of a block. It may be called on any thread and does not wait.
  using Generation = std::function<uint32_t(int32_t block)>;

  struct Bounds {
    // Layers, chunks, first tokens and signs of life that may wait: the layers x chunks of almost
    // any prompt.
    size_t prefill_messages = size_t{1} << 20;
    size_t staging_slots = 0;  // slots of the staging that the push uses; 0 if it uses none
  };
  SendInbox(Generation generation, const Bounds& bounds);
  ~SendInbox();

  // Adds a message; drops it after Close. If Bounds::prefill_messages messages of the prefill wait
  // already, drops the message and all later ones of the prefill, and lost() returns true from then
  // on. Every other message has a reserved place.
  void Post(Message message);
  bool lost() const { return lost_; }
  // Returns the function to call once when the slices of a message are gone. It may be called on
  // any thread, also deep inside gRPC: it takes no lock and allocates nothing. It checks whether
  // all `blocks` still have the generations in which their bytes were computed. Next then returns
  // Released.
  static std::function<void()> Track(std::shared_ptr<SendInbox> inbox, std::vector<BlockRef> blocks,
                                     uint64_t sequence_number = 0);
  uint32_t GenerationOf(int32_t block) const { return generation_(block); }
  // Whether all `blocks` still have their generations.
  bool Intact(const std::vector<BlockRef>& blocks) const;

  // Waits for the next message; returns nullopt after `timeout`.
  std::optional<Message> Next(absl::Duration timeout);
  void Close() { messages_.Close(); }

 private:
  // A message on the network whose slices are alive.
  struct Sending {
    std::shared_ptr<SendInbox> inbox;
    std::vector<BlockRef> blocks;
    Released released;
    Sending* next = nullptr;
  };
  static void SlicesGone(Sending* sending);
  std::optional<Released> TakeReleased();

  const Generation generation_;
  const size_t own_places_;  // places for messages that must not be lost
  BoundedQueue<Message> messages_;
  std::atomic<bool> lost_ = false;
  // Released messages, newest first: a stack that is only ever taken whole.
  std::atomic<Sending*> released_ = nullptr;
  Sending* taken_ = nullptr;  // messages taken from the stack, oldest first
  sem_t changed_;
};

}  // namespace baton
