// Drives one KvReceiver: messages and grants in, copies, answers and engine calls out, on a thread
// of its own.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

#include "common/base/bounded_queue.h"
#include "common/kv/cache.h"
#include "common/rpc/kv_blocks.h"
#include "common/rpc/kv_wire.h"
#include "decode_worker/kv_receiver.h"
#include "decode_worker/push_reactor.h"
#include "decode_worker/staged_copier.h"

namespace baton {

// Thread-safe; events are handled in the order in which they were posted. Keeps itself alive until
// the attempt is committed or its blocks went back.
class AttemptReceiver : public std::enable_shared_from_this<AttemptReceiver> {
 public:
  // On the receiver's thread.
  struct Callbacks {
    std::function<void(const KvReceiver::TakeBlocks&)> take_blocks;  // once, answered by Grant
    std::function<void(const KvReceiver::CommitSequence&)> committed;
    std::function<void(const absl::Status&)> failed;
    std::function<void(const KvReceiver::ReleaseBlocks&)> release_blocks;  // no copy is in flight
    std::function<void(uint64_t)> received;                                // bytes of payload
  };

  // Borrows the cache, and its staging where it is in a device's memory (else null).
  AttemptReceiver(KvReceiver::Config config, KvCache& cache, KvStaging* staging,
                  Callbacks callbacks);
  void Start();

  void Post(KvReceiver::Event event);
  void PostData(KvReceiver::StreamId stream, KvDataMessage message);
  void Grant(std::vector<int32_t> block_table, int start_token);
  // Answers to its messages go there; it is told ReadNext for each message that it posted. False
  // when nothing is received any more.
  bool AddStream(std::shared_ptr<PushReactor> stream);
  // The attempt ends, whatever it was doing: release_blocks follows if it was not called before.
  void Cancel(internal::v1::PushRefused::Reason reason);

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
  // Copies to a device may end when this is gone.
  using Queue = BoundedQueue<Item>;

  void Run();
  void HandleItem(Item item);
  void Handle(const KvReceiver::Event& event);
  void Execute(const KvReceiver::Action& action);
  void MakeCopies();
  void CopyNow(const KvReceiver::Copy& copy);
  PushReactor* StreamOf(KvReceiver::StreamId id);  // the thread's, which alone forgets streams
  void Forget(KvReceiver::StreamId id);

  KvCache& cache_;
  const Callbacks callbacks_;
  // Of the thread.
  KvReceiver receiver_;
  KvBlocks blocks_;
  std::map<uint64_t, KvDataMessage> messages_;
  uint64_t next_message_id_ = 1;
  std::vector<KvReceiver::Copy> copies_;  // to be made once the event is handled
  std::optional<StagedCopier> staged_;    // where the cache is in a device's memory

  absl::Mutex mutex_;
  std::map<KvReceiver::StreamId, std::shared_ptr<PushReactor>> streams_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  // Never full: one message a stream, the pieces on their way, and a handful of others.
  const std::shared_ptr<Queue> queue_;
};

}  // namespace baton
