// Drives one SendMachine: brings it events, and turns its actions into gRPC calls. Each stream has
// a channel of its own. Its mirror at the decode worker is decode_worker/receive_driver.h.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "grpcpp/channel.h"

#include "common/handoff/kv_blocks.h"
#include "common/handoff/kv_wire_type.h"
#include "prefill_worker/layer_stager.h"
#include "prefill_worker/send_inbox.h"
#include "prefill_worker/send_machine.h"
#include "prefill_worker/send_stream.h"

namespace baton {

// Thread rule: Post and PostLayer may be called from any thread, and messages are handled in the
// order of the calls. All calls of PostLayer come from one thread. Run takes a thread for the whole
// push.
class SendDriver {
 public:
  // Called on the thread of Run.
  struct Callbacks {
    std::function<void(const absl::Status&, const SendReport&)> finished;  // called once
    // Called once, after `finished`: no slice points into the blocks, and no copy reads them.
    std::function<void()> release_blocks;
    std::function<void()> drop_channel;  // these connections should not be used any more
  };
  struct Options {
    SendConfig config;              // the number of channels replaces its `streams`
    uint8_t* cache_base = nullptr;  // address of block 0
    KvStaging* staging = nullptr;   // borrowed; null unless the cache is in a device's memory
    // The generation of a block, by which a posted block that was given away is recognised. The
    // default is for blocks that are never given away.
    SendInbox::Generation block_generation = [](int32_t) { return 0u; };
    // Messages of the prefill that may wait for Run. If there are more, the push fails.
    size_t max_prefill_messages = SendInbox::Bounds().prefill_messages;
    std::vector<std::shared_ptr<grpc::Channel>> channels;
    Callbacks callbacks;
  };

  explicit SendDriver(Options options);
  // Does the whole push. Returns when the blocks are released and the streams have ended. Destroys
  // the callbacks last, when no object of gRPC's is left. To be called once.
  void Run();
  // Posts the progress of the prefill, or its end.
  void Post(SendInbox::Message message) { inbox_->Post(std::move(message)); }
  // Posts a computed layer. `block_table` [KvLayout::TableEntriesFor] has the blocks of the layer's
  // tokens, which the sequence keeps until release_blocks; other entries are not read. To be called
  // on the thread that gives blocks away. If a block nevertheless belongs to another sequence when
  // a message with it is enqueued, or when its slices are destroyed, the push fails and logs an
  // error. A layer that has to be staged comes without CRCs, and is in the cache after the mark
  // `copies_after` of DeviceCopies.
  void PostLayer(SendEvent::LayerReady layer, absl::Span<const int32_t> block_table,
                 uint64_t copies_after = 0);

 private:
  void On(SendInbox::Layer layer);
  void On(const SendEvent::ChunkReady& chunk);
  void On(const SendEvent::FirstToken& token) { Tell(token); }
  void On(const SendEvent::Alive& alive) { Tell(alive); }
  void On(const SendEvent::Abort& abort) { Tell(abort); }
  void On(const SendEvent::Response& response);
  void On(const SendInbox::StreamOver& over);
  void On(const SendInbox::Released& released);
  void On(LayerStager::Event event);

  void Tell(const SendEvent::Any& event);
  void Execute(const SendAction::OpenStream& open);
  void Execute(const SendAction::SendControl& control);
  void Execute(const SendAction::SendData& data);
  void Execute(const SendAction::HalfClose& half_close);
  void Execute(const SendAction::CancelStream& cancel);
  void Execute(const SendAction::DropChannel&);
  void Execute(const SendAction::Finished& finished);
  void Execute(const SendAction::ReleaseBlocks&) { may_release_ = true; }

  void Advance();
  void SetBlocks(const LayerTokens& kv, const std::vector<BlockRef>& blocks);
  std::vector<BlockRef> BlocksOf(const internal::v1::KvDataHeader& header) const;
  SendEvent::Any OnTheWire(SendEvent::LayerReady layer) const;
  grpc::ByteBuffer MakeBuffer(const internal::v1::KvDataHeader& header,
                              const std::vector<KvLayerRows>& staged,
                              std::function<void()> released) const;
  // REQUIRES: the stream was opened and has not ended. The machine asks nothing of other streams.
  SendStream& Stream(int stream) { return *streams_[static_cast<size_t>(stream)]; }

  const KvLayout layout_;

  // Only the thread of Run touches these.
  SendMachine machine_;
  KvBlocks blocks_;                          // blocks of the layers that were posted
  std::vector<uint32_t> block_generations_;  // [blocks_.block_table]
  const KvWireFormat wire_;
  const bool staged_;    // whether the cache is in a device's memory
  JobPool* const jobs_;  // the staging's helpers; null without staging
  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  Callbacks callbacks_;
  std::vector<std::shared_ptr<SendStream>> streams_;  // null if a stream is not open
  bool stale_ = false;                 // whether the error about a block given away was logged
  std::optional<LayerStager> stager_;  // none after the release
  bool may_release_ = false;           // the machine has asked for the release

  const std::shared_ptr<SendInbox> inbox_;  // shared with the slices and the streams
};

}  // namespace baton
