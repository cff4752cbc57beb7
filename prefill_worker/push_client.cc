#include "prefill_worker/push_client.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "common/base/clock.h"
#include "prefill_worker/kv_buffer.h"

namespace baton {
namespace {

constexpr size_t kQueueCapacity = size_t{1} << 20;

grpc::ByteBuffer Serialize(const internal::v1::PushRequest& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace

PushClient::PushClient(Options options)
    : sender_(options.sender),
      blocks_{options.cache_base, options.sender.layout, {}},
      channel_(std::move(options.channel)),
      callbacks_(std::move(options.callbacks)),
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
    if (std::holds_alternative<KvSender::Response>(item->event) && stream_ != nullptr) {
      stream_->ReadNext();
    }
    // A call whose connection broke holds slices until it is destroyed.
    if (std::holds_alternative<KvSender::StreamEnded>(item->event)) stream_.reset();
  }
  queue_.Close();
  callbacks_ = {};
}

void PushClient::Execute(const KvSender::Action& action) {
  if (const auto* open = std::get_if<KvSender::OpenStream>(&action)) {
    OpenStream(open->first);
  } else if (const auto* data = std::get_if<KvSender::SendData>(&action)) {
    SendData(*data);
  } else if (const auto* control = std::get_if<KvSender::SendControl>(&action)) {
    if (control->drop_queued) stream_->DropQueuedData();
    SendControl(control->message);
  } else if (std::holds_alternative<KvSender::HalfClose>(action)) {
    stream_->HalfClose();
  } else if (std::holds_alternative<KvSender::CancelStream>(action)) {
    stream_->Cancel();
  } else if (std::holds_alternative<KvSender::DropChannel>(action)) {
    callbacks_.drop_channel();
  } else if (const auto* finished = std::get_if<KvSender::Finished>(&action)) {
    callbacks_.finished(finished->status, finished->report);
  } else if (std::holds_alternative<KvSender::ReleaseBlocks>(action)) {
    callbacks_.release_blocks();
  }
}

void PushClient::OpenStream(const internal::v1::PushRequest& first) {
  const auto self = shared_from_this();
  stream_ = std::make_shared<PushStream>(
      channel_, PushStream::Callbacks{.answered =
                                          [self](internal::v1::PushResponse answer) {
                                            self->Post(KvSender::Response{std::move(answer)});
                                          },
                                      .ended =
                                          [self](const grpc::Status& status) {
                                            self->Post(KvSender::StreamEnded{absl::Status(
                                                static_cast<absl::StatusCode>(status.error_code()),
                                                status.error_message())});
                                          }});
  stream_->Start();
  SendControl(first);
}

void PushClient::SendControl(const internal::v1::PushRequest& message) {
  stream_->Write(Serialize(message), false);
}

void PushClient::SendData(const KvSender::SendData& data) {
  const auto self = shared_from_this();
  stream_->Write(
      MakeKvBuffer(data.header, blocks_, [self] { self->Post(KvSender::SlicesReleased{}); }), true);
}

}  // namespace baton
