// Drives one KvReceiver: brings it messages and grants, and turns its actions into copies, answers
// and calls of the engine.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

#include "common/base/bounded_queue.h"
#include "common/handoff/kv_blocks.h"
#include "common/handoff/kv_wire.h"
#include "common/kv/cache.h"
#include "decode_worker/kv_receiver.h"
#include "decode_worker/push_reactor.h"
#include "decode_worker/staged_copier.h"

namespace baton {

// Thread rule: all functions may be called from any thread, and events are handled in the order in
// which they were posted. Run takes a thread, the receiver's, for the whole push.
class AttemptReceiver {
 public:
  // Called on the receiver's thread.
  struct Callbacks {
    std::function<void(const KvReceiver::TakeBlocks&)> take_blocks;  // called once; Grant answers
    std::function<void(const KvReceiver::CommitSequence&)> committed;
    std::function<void(const absl::Status&)> failed;
    std::function<void(const KvReceiver::ReleaseBlocks&)> release_blocks;  // no copy is in flight
    std::function<void(uint64_t)> received;  // gets the payload bytes of a message
  };

  // Borrows the cache. Also borrows its staging where the cache is in a device's memory; otherwise
  // that is null.
  AttemptReceiver(KvReceiver::Config config, KvCache& cache, KvStaging* staging,
                  Callbacks callbacks);
  // Handles events. Returns when the attempt is committed or its blocks are given back. To be
  // called once.
  void Run();

  void Post(KvReceiver::Event event);
  void PostData(KvReceiver::StreamId stream, KvDataMessage message);
  void Grant(std::vector<int32_t> block_table, int start_token);
  // Adds a stream. The answers to its messages go to it, and ReadNext is called for each message
  // that it posted. False when nothing is received any more.
  bool AddStream(std::shared_ptr<PushReactor> stream);
  // Ends the attempt. True: release_blocks follows, if it was not called before. False: the receiver
  // has ended and calls nothing any more; after a commit whoever cancels gives the blocks back.
  [[nodiscard]] bool Cancel(internal::v1::PushRefused::Reason reason);

 private:
  struct Data {
    KvReceiver::StreamId stream = 0;
    KvDataMessage message;
  };
  struct Table {
    std::vector<int32_t> block_table;
    int start_token = 0;
  };
  using Item = std::variant<KvReceiver::Event, Data, Table, StagedCopier::Event>;
  using Queue = BoundedQueue<Item>;

  // Puts an event that must not be lost into the queue: false where the queue is closed. It is
  // never full for such an event: there are a grant, a cancellation or two, and one event for each
  // slot of the staging.
  static bool PutOwn(Queue& queue, Item item);
  // Puts an event of a stream into the queue. Where too many wait already, the attempt fails.
  void PutFromStream(Item item);
  void HandleItem(Item item);
  void Handle(const KvReceiver::Event& event);
  void Execute(const KvReceiver::Action& action);
  void MakeCopies();
  void CopyNow(const KvReceiver::Copy& copy);
  // Null where the stream has ended. Only the receiver's thread calls it: that thread alone forgets
  // streams, so the pointer holds.
  PushReactor* StreamOf(KvReceiver::StreamId id);
  void Forget(KvReceiver::StreamId id);

  KvCache& cache_;
  const Callbacks callbacks_;
  // Only the receiver's thread touches these.
  KvReceiver receiver_;
  KvBlocks blocks_;
  std::map<uint64_t, KvDataMessage> messages_;  // messages by id, until the machine drops them
  uint64_t next_message_id_ = 1;
  std::vector<KvReceiver::Copy> copies_;  // to be made once the event is handled
  std::optional<StagedCopier> staged_;    // set where the cache is in a device's memory

  absl::Mutex mutex_;
  std::map<KvReceiver::StreamId, std::shared_ptr<PushReactor>> streams_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  const size_t own_places_;  // places of the queue for events that must not be lost
  // Shared, because a copy to a device may end after the receiver is gone.
  const std::shared_ptr<Queue> queue_;
  std::atomic<bool> events_lost_ = false;  // an event of a stream found no place
};

}  // namespace baton
