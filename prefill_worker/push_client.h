// Drives one KvSender: events in, gRPC calls out, on a thread of its own, each stream on a channel
// of its own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "grpcpp/channel.h"

#include "common/rpc/kv_blocks.h"
#include "common/rpc/kv_wire_type.h"
#include "prefill_worker/kv_sender.h"
#include "prefill_worker/layer_stager.h"
#include "prefill_worker/push_inbox.h"
#include "prefill_worker/push_stream.h"

namespace baton {

// Thread-safe; events are handled in the order of Post. Keeps itself alive until the machine is
// gone: blocks released and stream ended.
class PushClient : public std::enable_shared_from_this<PushClient> {
 public:
  // On the push's own thread.
  struct Callbacks {
    std::function<void(const absl::Status&, const KvSendReport&)> finished;  // once
    // Once, after finished: no slice points into them, and nothing of the push is staged.
    std::function<void()> release_blocks;
    std::function<void()> drop_channel;  // nobody should use these connections any more
  };
  struct Options {
    KvSender::Config sender;        // as many streams as there are channels
    uint8_t* cache_base = nullptr;  // of block 0
    KvStaging* staging = nullptr;   // borrowed; of a cache in a device's memory, else null
    // Tells a block that is somebody else's by now from the one that was posted. Default: of blocks
    // that never change hands.
    PushInbox::Generation block_generation = [](int32_t) { return 0u; };
    std::vector<std::shared_ptr<grpc::Channel>> channels;
    Callbacks callbacks;
  };

  explicit PushClient(Options options);
  // Begins the push.
  void Start();
  void Post(KvSender::Event event);
  // A computed layer; `block_table` covers at least its tokens. Called on the thread that could
  // give the blocks away. A block that is nevertheless another's when a message with it is
  // enqueued, or when its slices are destroyed, ends the push as failed, and an error is logged.
  // Where it has to be staged it comes without CRCs, and is there after the mark `copies_after` of
  // DeviceCopies.
  void PostLayer(KvSender::LayerReady layer, absl::Span<const int32_t> block_table,
                 uint64_t copies_after = 0);

 private:
  void Run();
  void Handle(PushInbox::Item item);
  void Advance();
  // False where the event has to wait until what it is about is staged.
  bool ForMachine(PushInbox::Item& item);
  void Tell(const KvSender::Event& event);
  void SetBlocks(std::vector<int32_t> block_table, const std::vector<uint32_t>& generations);
  KvSender::Event OnTheWire(KvSender::LayerReady layer) const;
  void Execute(const KvSender::Action& action);
  void OpenStream(const KvSender::OpenStream& open);
  void SendData(const KvSender::SendData& data);
  grpc::ByteBuffer MakeBuffer(const internal::v1::KvDataHeader& header,
                              const std::vector<KvLayerRows>& staged,
                              std::function<void()> released) const;
  // REQUIRES: it was opened and has not ended; the machine asks nothing of others.
  PushStream& Stream(int stream) { return *streams_[static_cast<size_t>(stream)]; }

  KvSender sender_;                    // of the thread
  KvBlocks blocks_;                    // of the thread
  std::vector<uint32_t> generations_;  // [blocks_.block_table], of the thread
  const KvWireFormat wire_;
  const bool staged_;                                     // the host does not reach the blocks
  std::vector<std::shared_ptr<grpc::Channel>> channels_;  // of the thread
  Callbacks callbacks_;
  std::vector<std::shared_ptr<PushStream>> streams_;  // of the thread; null before and after
  bool stale_ = false;                                // of the thread: it was logged
  std::optional<LayerStager> stager_;                 // of the thread; none after the release
  bool may_release_ = false;                          // of the thread: no slice points anywhere
  size_t posted_blocks_ = 0;                          // of the thread that posts layers
  const std::shared_ptr<PushInbox> inbox_;            // slices keep it too
};

}  // namespace baton
