#include "prefill_worker/push_client.h"

#include <utility>

#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/kv_type_name.h"
#include "common/base/log.h"
#include "common/rpc/status.h"
#include "prefill_worker/kv_buffer.h"
#include "prefill_worker/page_encoder.h"

namespace baton {
namespace {

using internal::v1::PushResponse;

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
      wire_(options.sender.layout, *KvTypeFromName(options.sender.open.wire_dtype())),
      staged_(options.staging != nullptr),
      channels_(std::move(options.channels)),
      callbacks_(std::move(options.callbacks)),
      streams_(channels_.size()),
      inbox_(std::make_shared<PushInbox>(std::move(options.block_generation))) {
  if (!staged_) return;
  stager_.emplace(LayerStager::Options{
      .staging = options.staging,
      .wire = wire_,
      .post =
          [inbox = inbox_](LayerStager::Event event) {
            PushInbox::Item item{KvSender::Tick{}, {}, {}};
            item.staged = std::move(event);
            inbox->Post(std::move(item));
          },
      .block_generation = [inbox = inbox_](int32_t block) { return inbox->GenerationOf(block); }});
}

void PushClient::Post(KvSender::Event event) { inbox_->Post({std::move(event), {}, {}}); }

void PushClient::PostLayer(KvSender::LayerReady layer, absl::Span<const int32_t> block_table,
                           uint64_t copies_after) {
  PushInbox::Item item{std::move(layer), {}, {}};
  item.copies_after = copies_after;
  if (block_table.size() > posted_blocks_) {
    posted_blocks_ = block_table.size();
    item.block_table.assign(block_table.begin(), block_table.end());
    for (const int32_t block : block_table) {
      item.generations.push_back(inbox_->GenerationOf(block));
    }
  }
  inbox_->Post(std::move(item));
}

void PushClient::Run() {
  Tell(KvSender::Begin{});
  while (!sender_.gone() || may_release_) {
    std::optional<PushInbox::Item> item = inbox_->Next(sender_.NextDeadline() - SteadyNow());
    Handle(item.has_value() ? *std::move(item) : PushInbox::Item{KvSender::Tick{}, {}, {}});
  }
  inbox_->Close();
  channels_.clear();  // on this thread, not where the last reference to this goes: see PushStream
  callbacks_ = {};
}

void PushClient::Handle(PushInbox::Item item) {
  if (!item.block_table.empty()) SetBlocks(std::move(item.block_table), item.generations);
  if (ForMachine(item)) Tell(item.event);
  Advance();
  if (const auto* response = std::get_if<KvSender::Response>(&item.event)) {
    Stream(response->stream).ReadNext();
  } else if (const auto* ended = std::get_if<KvSender::StreamEnded>(&item.event)) {
    // A stream whose connection broke holds slices until it is destroyed.
    streams_[static_cast<size_t>(ended->stream)].reset();
  }
}

bool PushClient::ForMachine(PushInbox::Item& item) {
  if (const auto* released = std::get_if<KvSender::SlicesReleased>(&item.event)) {
    if (stager_.has_value()) stager_->Released(item.sequence_number);
    if (!released->intact && !std::exchange(stale_, true)) {
      LogError("a KV block was given to somebody else while a push was sending it");
    }
  }
  auto* layer = std::get_if<KvSender::LayerReady>(&item.event);
  if (!staged_) {
    if (layer != nullptr) item.event = OnTheWire(std::move(*layer));
    return true;
  }
  const auto* chunk = std::get_if<KvSender::ChunkReady>(&item.event);
  if (stager_.has_value()) {
    if (item.staged.has_value()) stager_->On(*std::move(item.staged));
    if (layer != nullptr) stager_->Add(*layer, item.copies_after);
    if (chunk != nullptr) stager_->Add(*chunk);
  }
  return layer == nullptr && chunk == nullptr;
}

void PushClient::Tell(const KvSender::Event& event) {
  for (const KvSender::Action& action : sender_.Handle(event, SteadyNow())) Execute(action);
}

// The blocks are released only when no copy reads them: copies may go on after the machine has
// asked for the release.
void PushClient::Advance() {
  if (stager_.has_value()) {
    for (const KvSender::Event& event : stager_->Advance(sender_, {blocks_, block_generations_})) {
      Tell(event);
    }
  }
  if (!may_release_ || (stager_.has_value() && !stager_->idle())) return;
  may_release_ = false;
  stager_.reset();
  BATON_FAILPOINT("push_client.before_release");
  callbacks_.release_blocks();
}

// Blocks that were posted before keep the generation they had then.
void PushClient::SetBlocks(std::vector<int32_t> block_table,
                           const std::vector<uint32_t>& generations) {
  std::vector<uint32_t> merged = generations;
  for (size_t i = 0; i < block_generations_.size(); ++i) {
    if (blocks_.block_table[i] == block_table[i]) merged[i] = block_generations_[i];
  }
  blocks_.block_table = std::move(block_table);
  block_generations_ = std::move(merged);
}

// The layer with the CRCs of its bytes on the wire, or an Abort that says why it cannot be sent.
KvSender::Event PushClient::OnTheWire(KvSender::LayerReady layer) const {
  if (!wire_.converts()) return layer;
  absl::StatusOr<std::vector<uint32_t>> crcs =
      WirePageCrcs(RowsOfLayer(blocks_, layer.layer), wire_, layer.first_token,
                   layer.first_token + layer.token_count, layer.page_crcs);
  if (!crcs.ok()) return KvSender::Abort{internal::v1::PushAbort::REASON_FAILED, crcs.status()};
  layer.page_crcs = *std::move(crcs);
  return layer;
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
    channels_.clear();  // a connection is closed with its last user
  } else if (const auto* finished = std::get_if<KvSender::Finished>(&action)) {
    callbacks_.finished(finished->status, finished->report);
  } else if (std::holds_alternative<KvSender::ReleaseBlocks>(action)) {
    may_release_ = true;
  }
}

void PushClient::OpenStream(const KvSender::OpenStream& open) {
  const auto index = static_cast<size_t>(open.stream);
  PushStream::Callbacks callbacks;
  callbacks.answered = [inbox = inbox_, stream = open.stream](PushResponse answer) {
    inbox->Post({KvSender::Response{std::move(answer), stream}, {}, {}});
  };
  callbacks.ended = [inbox = inbox_, stream = open.stream](const grpc::Status& status,
                                                           std::shared_ptr<PushStream> ended) {
    inbox->Post({KvSender::StreamEnded{FromGrpcStatus(status), stream}, {}, {}, std::move(ended)});
  };
  BATON_FAILPOINT("push_client.before_stream");
  streams_[index] = std::make_shared<PushStream>(channels_[index], std::move(callbacks));
  streams_[index]->Start();
  streams_[index]->Write(Serialize(open.first), false);
}

void PushClient::SendData(const KvSender::SendData& data) {
  const auto block_size = static_cast<size_t>(blocks_.layout.block_size);
  const size_t end = size_t{data.header.first_token()} + data.header.token_count();
  std::vector<PushInbox::HeldBlock> held;
  for (size_t i = data.header.first_token() / block_size; i * block_size < end; ++i) {
    held.push_back({blocks_.block_table[i], block_generations_[i]});
  }
  const bool intact = inbox_->Intact(held);
  std::function<void()> released =
      PushInbox::Track(inbox_, std::move(held), data.header.sequence_number());
  std::vector<KvLayerRows> staged;
  if (stager_.has_value()) staged = stager_->Send(data.header);
  BATON_FAILPOINT("push_client.before_write");
  if (!intact) return released();
  Stream(data.stream).Write(MakeBuffer(data.header, staged, std::move(released)), true);
}

grpc::ByteBuffer PushClient::MakeBuffer(const internal::v1::KvDataHeader& header,
                                        const std::vector<KvLayerRows>& staged,
                                        std::function<void()> released) const {
  if (stager_.has_value()) {
    return wire_.converts() ? MakeConvertedKvBuffer(header, staged, wire_, std::move(released))
                            : MakeKvBuffer(header, staged, std::move(released));
  }
  return wire_.converts() ? MakeConvertedKvBuffer(header, blocks_, wire_, std::move(released))
                          : MakeKvBuffer(header, blocks_, std::move(released));
}

}  // namespace baton
