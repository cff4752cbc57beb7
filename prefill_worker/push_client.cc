#include "prefill_worker/push_client.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "common/base/clock.h"
#include "prefill_worker/kv_buffer.h"

namespace baton {
namespace {

using internal::v1::PushResponse;

constexpr size_t kQueueCapacity = size_t{1} << 20;

KvSender::Config WithStreams(KvSender::Config config, size_t streams) {
  config.streams = static_cast<int>(streams);
  return config;
}

grpc::ByteBuffer Serialize(const internal::v1::PushRequest& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace

PushClient::PushClient(Options options)
    : sender_(WithStreams(options.sender, options.channels.size())),
      blocks_{options.cache_base, options.sender.layout, {}},
      channels_(std::move(options.channels)),
      callbacks_(std::move(options.callbacks)),
      streams_(channels_.size()),
      queue_(kQueueCapacity) {}

void PushClient::Start() {
  Post(KvSender::Begin{});
  std::thread([self = shared_from_this()] { self->Run(); }).detach();
}

void PushClient::Post(KvSender::Event event) { queue_.TryPush({std::move(event), {}}); }

void PushClient::PostLayer(KvSender::LayerReady layer, absl::Span<const int32_t> block_table) {
  Item item{std::move(layer), {}};
  if (block_table.size() > posted_blocks_) {
    posted_blocks_ = block_table.size();
    item.block_table.assign(block_table.begin(), block_table.end());
  }
  queue_.TryPush(std::move(item));
}

void PushClient::Run() {
  while (!sender_.gone()) {
    const absl::Duration wait = sender_.NextDeadline() - SteadyNow();
    std::optional<Item> item = queue_.Pop(std::max(wait, absl::ZeroDuration()));
    if (!item.has_value()) item = Item{KvSender::Tick{}, {}};
    if (!item->block_table.empty()) blocks_.block_table = std::move(item->block_table);
    for (const KvSender::Action& action : sender_.Handle(item->event, SteadyNow())) {
      Execute(action);
    }
    if (const auto* response = std::get_if<KvSender::Response>(&item->event)) {
      Stream(response->stream).ReadNext();
    }
  }
  queue_.Close();
  callbacks_ = {};
}

void PushClient::Execute(const KvSender::Action& action) {
  if (const auto* open = std::get_if<KvSender::OpenStream>(&action)) {
    OpenStream(*open);
  } else if (const auto* data = std::get_if<KvSender::SendData>(&action)) {
    SendData(*data);
  } else if (const auto* control = std::get_if<KvSender::SendControl>(&action)) {
    if (control->drop_queued) Stream(0).DropQueuedData();
    Stream(0).Write(Serialize(control->message), false);
  } else if (const auto* half_close = std::get_if<KvSender::HalfClose>(&action)) {
    Stream(half_close->stream).HalfClose();
  } else if (const auto* cancel = std::get_if<KvSender::CancelStream>(&action)) {
    Stream(cancel->stream).Cancel();
  } else if (std::holds_alternative<KvSender::DropChannel>(action)) {
    callbacks_.drop_channel();
  } else if (const auto* finished = std::get_if<KvSender::Finished>(&action)) {
    callbacks_.finished(finished->status, finished->report);
  } else if (std::holds_alternative<KvSender::ReleaseBlocks>(action)) {
    callbacks_.release_blocks();
  }
}

void PushClient::OpenStream(const KvSender::OpenStream& open) {
  const auto index = static_cast<size_t>(open.stream);
  PushStream::Callbacks callbacks;
  callbacks.answered = [self = shared_from_this(), stream = open.stream](PushResponse answer) {
    self->Post(KvSender::Response{std::move(answer), stream});
  };
  callbacks.ended = [self = shared_from_this(), stream = open.stream](const grpc::Status& status) {
    self->Post(KvSender::StreamEnded{
        absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message()),
        stream});
  };
  streams_[index] = std::make_shared<PushStream>(channels_[index], std::move(callbacks));
  streams_[index]->Start();
  streams_[index]->Write(Serialize(open.first), false);
}

void PushClient::SendData(const KvSender::SendData& data) {
  const auto self = shared_from_this();
  Stream(data.stream)
      .Write(MakeKvBuffer(data.header, blocks_, [self] { self->Post(KvSender::SlicesReleased{}); }),
             true);
}

}  // namespace baton
