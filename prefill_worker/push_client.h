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

#include "common/base/bounded_queue.h"
#include "common/rpc/kv_blocks.h"
#include "prefill_worker/kv_sender.h"
#include "prefill_worker/push_stream.h"

namespace baton {

// Thread-safe; events are handled in the order of Post. Keeps itself alive until the machine is
// gone: blocks released and stream ended.
class PushClient : public std::enable_shared_from_this<PushClient> {
 public:
  // On the push's own thread.
  struct Callbacks {
    std::function<void(const absl::Status&, const KvSendReport&)> finished;  // once
    std::function<void()> release_blocks;  // once, after finished: no slice points into them
    std::function<void()> drop_channel;    // the peer holds on to a cancelled call
  };
  struct Options {
    KvSender::Config sender;        // as many streams as there are channels
    uint8_t* cache_base = nullptr;  // of block 0
    std::vector<std::shared_ptr<grpc::Channel>> channels;
    Callbacks callbacks;
  };

  explicit PushClient(Options options);
  // Begins the push.
  void Start();
  void Post(KvSender::Event event);
  // A computed layer; `block_table` covers at least its tokens.
  void PostLayer(KvSender::LayerReady layer, absl::Span<const int32_t> block_table);

 private:
  struct Item {
    KvSender::Event event;
    std::vector<int32_t> block_table;  // empty: as before
  };
  void Run();
  void Execute(const KvSender::Action& action);
  void OpenStream(const KvSender::OpenStream& open);
  void SendData(const KvSender::SendData& data);
  PushStream& Stream(int stream) { return *streams_[static_cast<size_t>(stream)]; }

  KvSender sender_;  // of the thread
  KvBlocks blocks_;  // of the thread
  const std::vector<std::shared_ptr<grpc::Channel>> channels_;
  Callbacks callbacks_;
  std::vector<std::shared_ptr<PushStream>> streams_;  // of the thread; null before they are opened
  size_t posted_blocks_ = 0;                          // of the thread that posts layers
  // Never full: layers x chunks of one prompt, an answer for each stream, and the releases of what
  // is in the window.
  BoundedQueue<Item> queue_;
};

}  // namespace baton
