// Drives one KvSender: brings it events, and turns its actions into gRPC calls. Each stream has a
// channel of its own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "grpcpp/channel.h"

#include "common/handoff/kv_blocks.h"
#include "common/handoff/kv_wire_type.h"
#include "prefill_worker/kv_sender.h"
#include "prefill_worker/layer_stager.h"
#include "prefill_worker/push_inbox.h"
#include "prefill_worker/push_stream.h"

namespace baton {

// Thread rule: Post and PostLayer may be called from any thread, and events are handled in the
// order of the calls. All calls of PostLayer come from one thread. Run takes a thread for the whole
// push.
class PushClient {
 public:
  // Called on the thread of Run.
  struct Callbacks {
    std::function<void(const absl::Status&, const KvSendReport&)> finished;  // called once
    // Called once, after `finished`: no slice points into the blocks, and no copy reads them.
    std::function<void()> release_blocks;
    std::function<void()> drop_channel;  // nobody should use these connections any more
  };
  struct Options {
    KvSender::Config sender;        // the number of channels replaces its `streams`
    uint8_t* cache_base = nullptr;  // address of block 0
    KvStaging* staging = nullptr;   // borrowed; null unless the cache is in a device's memory
    // The generation of a block: it tells whether a posted block belongs to somebody else by now.
    // Default: blocks never change hands.
    PushInbox::Generation block_generation = [](int32_t) { return 0u; };
    std::vector<std::shared_ptr<grpc::Channel>> channels;
    Callbacks callbacks;
  };

  explicit PushClient(Options options);
  // Does the whole push. Returns when the blocks are released and the streams have ended. The last
  // that it does is to destroy the callbacks: nothing of gRPC's is left when they are gone. To be
  // called once.
  void Run();
  void Post(KvSender::Event event);
  // Posts a computed layer; `block_table` covers at least its tokens. To be called on the thread
  // that could give the blocks away. If a block belongs to somebody else all the same when a
  // message with it is enqueued, or when its slices are destroyed, the push ends as failed and an
  // error is logged. A layer that has to be staged comes without CRCs, and is in the cache after
  // the mark `copies_after` of DeviceCopies.
  void PostLayer(KvSender::LayerReady layer, absl::Span<const int32_t> block_table,
                 uint64_t copies_after = 0);

 private:
  void Handle(PushInbox::Item item);
  void Advance();
  // False where the event is not for the machine now: its layer has to be staged first.
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
  // REQUIRES: the stream was opened and has not ended. The machine asks nothing of other streams.
  PushStream& Stream(int stream) { return *streams_[static_cast<size_t>(stream)]; }

  // Only the thread of Run touches these.
  KvSender sender_;
  KvBlocks blocks_;
  std::vector<uint32_t> block_generations_;  // [blocks_.block_table]
  const KvWireFormat wire_;
  const bool staged_;  // whether the cache is in a device's memory
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  Callbacks callbacks_;
  std::vector<std::shared_ptr<PushStream>> streams_;  // null where a stream is not open
  bool stale_ = false;                 // whether the error of a block given away was logged
  std::optional<LayerStager> stager_;  // none after the release
  bool may_release_ = false;           // the machine has asked for the release

  size_t posted_blocks_ = 0;                // only the thread that posts layers touches it
  const std::shared_ptr<PushInbox> inbox_;  // shared with the slices and the streams
};

}  // namespace baton
