// Drives one ReceiveMachine: brings it messages and grants, and turns its actions into copies,
// answers and calls of the engine. Its mirror at the prefill worker is
// prefill_worker/send_driver.h.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

#include "common/handoff/kv_blocks.h"
#include "common/handoff/kv_wire.h"
#include "common/kv/cache.h"
#include "decode_worker/receive_inbox.h"
#include "decode_worker/receive_machine.h"
#include "decode_worker/receive_stream.h"
#include "decode_worker/staged_copier.h"

namespace baton {

// Thread rule: all functions may be called from any thread, and messages are handled in the order
// in which they were posted. Run takes a thread, the push's, for the whole push.
class ReceiveDriver {
 public:
  // Called on the thread of Run.
  struct Callbacks {
    // Called once; Grant answers.
    std::function<void(const ReceiveAction::TakeBlocks&)> take_blocks;
    std::function<void(const ReceiveAction::CommitSequence&)> committed;
    std::function<void(const absl::Status&)> failed;
    // Called once unless the attempt is committed: no copy is in flight.
    std::function<void(const ReceiveAction::ReleaseBlocks&)> release_blocks;
    std::function<void(uint64_t)> received;  // gets the payload bytes of a message
  };

  // Borrows the cache and, if that is in a device's memory, its staging; otherwise `staging` is
  // null.
  ReceiveDriver(ReceiveConfig config, KvCache& cache, KvStaging* staging, Callbacks callbacks);
  // Does the whole push. Returns when the attempt is committed or its blocks are given back. To be
  // called once.
  void Run();

  // Posts a message of a stream, or its end.
  void PostFromStream(ReceiveInbox::Message message) { inbox_->PostFromStream(std::move(message)); }
  void Grant(std::vector<int32_t> block_table, int start_token);
  // Adds a stream. The answers to its messages go to it, and ReadNext is called for each message
  // that it posted. Returns false if the push receives nothing any more.
  bool AddStream(std::shared_ptr<ReceiveStream> stream);
  // Ends the attempt. True: release_blocks follows, if it was not called before. False: the push
  // has ended and makes no further callback; after a commit the caller gives the blocks back.
  [[nodiscard]] bool Cancel(internal::v1::PushRefused::Reason reason);

 private:
  void Take(ReceiveInbox::Message message);
  void On(const ReceiveEvent::ControlReceived& control);
  void On(ReceiveInbox::Data data);
  void On(const ReceiveEvent::Malformed& malformed) { Tell(malformed); }
  void On(const ReceiveEvent::StreamLost& lost);
  void On(ReceiveInbox::Grant grant);
  void On(const ReceiveEvent::Cancelled& cancelled) { Tell(cancelled); }
  void On(StagedCopier::Event event) { staged_->On(std::move(event)); }

  void Tell(const ReceiveEvent::Any& event);
  void Execute(const ReceiveAction::TakeBlocks& take) { callbacks_.take_blocks(take); }
  void Execute(const ReceiveAction::Send& send);
  void Execute(const ReceiveAction::EndStream& end);
  void Execute(const ReceiveAction::Copy& copy) { copies_.push_back(copy); }
  void Execute(const ReceiveAction::Drop& drop) { messages_.erase(drop.message_id); }
  void Execute(const ReceiveAction::CommitSequence& commit) { callbacks_.committed(commit); }
  void Execute(const ReceiveAction::Failed& failed) { callbacks_.failed(failed.status); }
  void Execute(const ReceiveAction::ReleaseBlocks& release) { callbacks_.release_blocks(release); }

  void Advance();
  void CopyNow(const ReceiveAction::Copy& copy);
  // Null where the stream has ended. Only the thread of Run calls it: that thread alone forgets
  // streams, so the pointer holds.
  ReceiveStream* Stream(PushStreamId id);
  void ReadNext(PushStreamId id);
  void Forget(PushStreamId id);

  KvCache& cache_;
  const Callbacks callbacks_;
  // Only the thread of Run touches these.
  ReceiveMachine machine_;
  KvBlocks blocks_;
  std::map<uint64_t, KvDataMessage> messages_;  // messages by id, until the machine drops them
  uint64_t next_message_id_ = 1;
  std::vector<ReceiveAction::Copy> copies_;  // to be made once the event is handled
  std::optional<StagedCopier> staged_;       // set if the cache is in a device's memory

  absl::Mutex mutex_;
  std::map<PushStreamId, std::shared_ptr<ReceiveStream>> streams_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  // Shared, because a copy to a device may end after the driver is gone.
  const std::shared_ptr<ReceiveInbox> inbox_;
};

}  // namespace baton
